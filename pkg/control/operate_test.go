package control

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"harness/pkg/wire"
)

func TestOperate_GoesToWhoDoesItWithWhoAsked(t *testing.T) {
	t.Parallel()
	c := serve(t, &fakeOps{}).client(t)
	var answer struct {
		Name      string
		Arguments json.RawMessage
		Mine      bool
	}
	if err := c.Operate(t.Context(), "harness_run_launch", map[string]int{"a": 1}, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Name != "harness_run_launch" || string(answer.Arguments) != `{"a":1}` || !answer.Mine {
		t.Errorf("%+v", answer)
	}
	_, err := c.OperateRaw(t.Context(), "refused", nil)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Code != wire.IdempotencyConflict {
		t.Errorf("%v", err)
	}
	_, err = c.OperateRaw(t.Context(), "large", strings.Repeat("x", maxOperation))
	if p, ok := errors.AsType[*Problem](err); !ok || p.Code != wire.InvalidArgument {
		t.Errorf("%v", err)
	}
}

func TestOutput_IsStreamedToItsEnd(t *testing.T) {
	t.Parallel()
	c := serve(t, &fakeOps{}).client(t)
	var text strings.Builder
	if err := c.Output(t.Context(), "r", &text); err != nil || text.String() != "one two" {
		t.Errorf("%q, %v", text.String(), err)
	}
	err := c.Output(t.Context(), "none", &text)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Code != wire.UnknownRun {
		t.Errorf("%v", err)
	}
}
