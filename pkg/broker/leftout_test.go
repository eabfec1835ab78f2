package broker_test

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/broker"
)

// What would cost one kind of agent its whole list is not listed to it, is to
// everybody else, and is told of once.
func TestSession_AToolThatWouldCostTheListIsLeftOutForItAlone(t *testing.T) {
	var mu sync.Mutex
	var events []string
	b := broker.New(merge(t, []broker.Offer{{Key: "up", Upstream: newFakeUpstream(), Known: true, Tools: []broker.Item{tool("bad"), tool("good")}}}, nil), broker.Options{
		Version: "test", Logger: slog.New(slog.DiscardHandler), StopGrace: func() time.Duration { return time.Second },
		Class: func(client string) string { return strings.TrimPrefix(client, "x-") },
		Lint: func(class string, tool []byte) string {
			if class == "picky" && strings.Contains(string(tool), `__bad"`) && !strings.Contains(string(tool), "fixed") {
				return "it is bad"
			}
			return ""
		},
		Event: func(e broker.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == "tool" {
				events = append(events, e.Session+" "+e.Message)
			}
		},
	})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, b: b, l: l}
	t.Cleanup(func() { l.Close(); f.sessions.Wait() })
	limits := broker.Limits{MaxMessage: 1 << 20, Stall: time.Second}
	wrapped := broker.NewScope("h", "", []string{"*"}, false)
	wrapped.Class = "picky"
	for name, tt := range map[string]struct {
		client string
		who    broker.Caller
		bad    bool
	}{
		"picky":                  {"x-picky", broker.Unattributed(), false},
		"picky too":              {"picky", broker.Unattributed(), false},
		"easy":                   {"easy", broker.Unattributed(), true},
		"nobody":                 {"", broker.Unattributed(), true},
		"a harness of that kind": {"", wrapped, false},
		"another's client in it": {"easy", wrapped, true},
	} {
		a := f.connectAs(limits, tt.who)
		a.ask(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"`+tt.client+`"}}`)
		list := a.ask(2, "tools/list", `{}`)
		if strings.Contains(list, "up__bad") != tt.bad || !strings.Contains(list, "up__good") {
			t.Errorf("%s is shown %s", name, list)
		}
	}
	mu.Lock()
	said := events
	mu.Unlock()
	if diff := cmp.Diff([]string{"up__bad left out for picky: it is bad"}, said); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]broker.LeftOut{{Class: "picky", Key: "up", Tool: "up__bad", Reason: "it is bad"}}, b.LeftOut()); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	// Once it was mended it is none that is left out, and one of a project is
	// named as such.
	bad := broker.Offer{Key: "up", Upstream: newFakeUpstream(), Known: true, Tools: []broker.Item{{Name: "bad", Raw: []byte(`{"name":"bad","title":"fixed"}`)}}}
	b.Publish(merge(t, []broker.Offer{bad, {Key: "own", Project: "shop", Upstream: newFakeUpstream(), Known: true, Tools: []broker.Item{tool("bad")}}}, nil))
	inside := broker.NewScope("shop/h", "shop", []string{"*"}, false)
	inside.Class = "picky"
	f.connectAs(limits, inside).ask(1, "tools/list", `{}`)
	if diff := cmp.Diff([]broker.LeftOut{{Class: "picky", Project: "shop", Key: "own", Tool: "own__bad", Reason: "it is bad"}}, b.LeftOut()); diff != "" {
		t.Errorf("left out after that (-want +got):\n%s", diff)
	}
}
