package wire_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/wire"
)

func TestAppendToolError_IsAToolResultWithTheCodeInTextAndMeta(t *testing.T) {
	retry := int64(250)
	e := &wire.Error{Code: wire.UpstreamUnavailable, Message: `"up" exited (code 3)`, Upstream: "up", State: "restarting", RetryIn: &retry}
	got := string(wire.AppendToolError(nil, []byte(`"a\u0041"`), e))
	want := `{"jsonrpc":"2.0","id":"a\u0041","result":{"content":[{"type":"text","text":"[upstream_unavailable] \"up\" exited (code 3)"}],"isError":true,` +
		`"_meta":{"harness/error":{"code":"upstream_unavailable","message":"\"up\" exited (code 3)","upstream":"up","state":"restarting","retry_in_ms":250}}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAppendError_CarriesTheSameObjectAsData(t *testing.T) {
	got := string(wire.AppendError(nil, nil, wire.InvalidParams, wire.New(wire.InvalidArgument, "no such cursor")))
	want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such cursor","data":{"code":"invalid_argument","message":"no such cursor"}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestError_MatchesOnlyItsSentinel(t *testing.T) {
	sentinels := map[wire.Code]error{
		wire.UnknownHarness: wire.ErrUnknownHarness, wire.PermissionDenied: wire.ErrPermissionDenied,
		wire.OperationFailed: wire.ErrOperationFailed, wire.UpstreamUnavailable: wire.ErrUpstreamUnavailable,
		wire.UnknownNamespace: wire.ErrUnknownNamespace, wire.UnknownTool: wire.ErrUnknownTool,
		wire.InvalidArgument: wire.ErrInvalidArgument, wire.MessageTooLarge: wire.ErrMessageTooLarge,
		wire.Timeout: wire.ErrTimeout, wire.DaemonUnavailable: wire.ErrDaemonUnavailable,
		wire.OutputLimit: wire.ErrOutputLimit, wire.InvalidEvidence: wire.ErrInvalidEvidence,
		wire.IdempotencyConflict: wire.ErrIdempotencyConflict, wire.UnknownRun: wire.ErrUnknownRun,
		wire.Internal: wire.ErrInternal,
	}
	for code := range sentinels {
		for other, sentinel := range sentinels {
			if got := errors.Is(wire.New(code, "x"), sentinel); got != (code == other) {
				t.Errorf("errors.Is(%s, %s) = %t", code, other, got)
			}
		}
	}
	if errors.Is(wire.New("made_up", "x"), nil) {
		t.Error("a code without a sentinel matched nil")
	}
}

func TestAppendQuoted_ReadsBackAsWritten(t *testing.T) {
	check := func(s string) bool {
		var back string
		raw := wire.AppendQuoted(nil, s)
		if err := json.Unmarshal(raw, &back); err != nil {
			return false
		}
		return !utf8.ValidString(s) || back == s
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	if got, want := string(wire.AppendQuoted(nil, "<a&b>\u2028\x01\"\\\n\xff.")), "\"<a&b>\u2028\\u0001\\\"\\\\\\n\uFFFD.\""; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNegotiate_EchoesKnownRevisionsAndProposesTheLatestOtherwise(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2099-01-01": "2025-11-25", "2026-07-28": "2025-11-25", "": "2025-11-25",
	} {
		if got := wire.Negotiate(asked); got != want {
			t.Errorf("Negotiate(%q) = %q, want %q", asked, got, want)
		}
	}
}

func TestAppendInitialize_IsValidAndStatic(t *testing.T) {
	got := string(wire.AppendInitialize(nil, []byte("0"), "2099-01-01", "1.2.3", wire.Capabilities, ""))
	want := `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":` + wire.Capabilities + `,"serverInfo":{"name":"harness","version":"1.2.3"}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !json.Valid([]byte(got)) {
		t.Error("not JSON")
	}
}

func TestKind_NamesItsMethods(t *testing.T) {
	got := []string{wire.Tools.ListMethod(), wire.Prompts.ChangedMethod(), string(wire.Resources.EmptyList())}
	want := []string{"tools/list", "notifications/prompts/list_changed", `{"resources":[]}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
