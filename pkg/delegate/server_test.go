package delegate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/contract"
	"harness/pkg/ledger"
)

const passes = "[contract]\nname='x'\nenv=['PATH']\n[[check]]\nname='a'\ncmd='true'\n[[check]]\nname='b'\ncmd='true'\n"

func slow(root string) string {
	_ = root
	return "[contract]\nname='x'\nenv=['PATH']\n[[check]]\nname='a'\ncmd='sh'\nargs=['-c', 'touch begun; sleep 60']\n"
}

func TestServe_ListsExactlyFourTools(t *testing.T) {
	c := serve(t)
	c.send(lines, `{"jsonrpc":"2.0","id":"l","method":"tools/list"}`)
	text, _ := c.receive()
	var names []string
	for _, tool := range decode(t, text).Result.Tools {
		names = append(names, tool.Name)
		for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
			if !json.Valid(schema) {
				t.Errorf("%s: %s", tool.Name, schema)
			}
		}
		if !strings.Contains(string(tool.InputSchema), `"examples"`) {
			t.Errorf("%s: a schema without examples", tool.Name)
		}
	}
	if diff := cmp.Diff([]string{"harness_contract_status", "harness_ledger_export", "harness_ledger_verdict", "harness_run_contract"}, names); diff != "" {
		t.Error(diff)
	}
	var schema struct {
		Properties struct {
			Contract struct{ Examples []string } `json:"contract"`
		} `json:"properties"`
	}
	if err := json.Unmarshal([]byte(inputRun), &schema); err != nil {
		t.Fatal(err)
	}
	if _, faults := contract.Parse("example", []byte(schema.Properties.Contract.Examples[0])); len(faults) > 0 {
		t.Errorf("the example: %v", faults)
	}
}

func TestServe_AnswersInTheFramingThatItWasSpokenTo(t *testing.T) {
	c := serve(t)
	for i, f := range []framing{lines, headers, headers, lines, headers} {
		c.send(f, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
		text, got := c.receive()
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i); text != want || got != f {
			t.Errorf("%s in %d, want %s in %d", text, got, want, f)
		}
	}
}

func TestServe_RefusesWhateverElseIsAskedFor(t *testing.T) {
	c := serve(t)
	for _, tc := range []struct {
		message string
		code    int
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, -32601},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"harness://state"}}`, -32601},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, -32601},
		{`{"jsonrpc":"2.0","id":1,"method":"Tools/list"}`, -32601},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, -32602},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, -32600},
		{`"ping"`, -32600},
		{`[]`, -32600},
		{`{"jsonrpc":`, -32700},
		{"\xff", -32700},
	} {
		for _, f := range []framing{lines, headers} {
			c.send(f, tc.message)
			text, _ := c.receive()
			if a := decode(t, text); a.Error == nil || a.Error.Code != tc.code {
				t.Errorf("%s: %s", tc.message, text)
			}
		}
	}
	for _, tc := range []struct{ name, args, code string }{
		{toolRun, `{}`, "invalid_argument"},
		{toolRun, `{"contract":"[contract]\n"}`, "invalid_argument"},
		{toolRun, `{"contract":"/etc/passwd"}`, "invalid_argument"},
		{toolRun, `{"contract":"../x.toml"}`, "invalid_argument"},
		{toolRun, `{"contract":5}`, "invalid_argument"},
		{toolRun, `{"contract":"x","Session":"y"}`, "invalid_argument"},
		{toolRun, `{"contract":"x","session":"../y"}`, "invalid_argument"},
		{toolRun, `{"contract":"x","shell":"rm"}`, "invalid_argument"},
		{toolRun, `[]`, "invalid_argument"},
		{toolStatus, `{}`, "invalid_argument"},
		{toolStatus, `{"session":"none"}`, "unknown_run"},
		{toolVerdict, `{"session":"../../etc"}`, "unknown_run"},
		{toolExport, `{"session":"none"}`, "unknown_run"},
		{"harness_start", `{"name":"x"}`, "unknown_tool"},
		{"Harness_run_contract", `{}`, "unknown_tool"},
	} {
		a := c.call(1, tc.name, json.RawMessage(tc.args))
		if !a.Result.IsError || !strings.HasPrefix(a.Result.Content[0].Text, "["+tc.code+"] ") {
			t.Errorf("%s %s: %+v", tc.name, tc.args, a)
		}
	}
	if a := c.call(1, toolRun, json.RawMessage(`{"contract":5}`)); a.Result.Content[0].Text != "[invalid_argument] the arguments: contract: a string is expected, not a number" {
		t.Errorf("%+v", a)
	}
	// Also where no tool is named, it is the call that fails (MCP-7).
	for _, params := range []string{"", `,"params":{"Name":"harness_run_contract"}`} {
		c.send(lines, `{"jsonrpc":"2.0","id":1,"method":"tools/call"`+params+`}`)
		text, _ := c.receive()
		if a := decode(t, text); !a.Result.IsError || !strings.HasPrefix(a.Result.Content[0].Text, "[invalid_argument] ") {
			t.Errorf("%q: %s", params, text)
		}
	}
}

func TestServe_RunsAContractAndExportsWhatCanBeVerified(t *testing.T) {
	c := serve(t)
	c.send(headers, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"harness_run_contract","arguments":{"contract":`+quote(passes)+`,"session":"s"},"_meta":{"progressToken":"tok"}}}`)
	var notes []string
	for {
		text, f := c.receive()
		if f != headers {
			t.Error("another framing")
		}
		if !strings.Contains(text, `"method":"notifications/progress"`) {
			if a := decode(t, text); a.Result.Structured.Verdict.Outcome != "pass" || a.Result.Structured.Status != "done" {
				t.Errorf("%+v", a)
			}
			break
		}
		notes = append(notes, text)
	}
	want := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":4,"total":4,"message":"b: pass"}}`
	if len(notes) != 4 || notes[3] != want {
		t.Errorf("%q", notes)
	}
	c.send(lines, `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"harness_ledger_export","arguments":{"session":"s"}}}`)
	text, _ := c.receive()
	var exported struct {
		Result struct {
			Structured json.RawMessage `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(text), &exported); err != nil {
		t.Fatal(err)
	}
	b, err := ledger.Verify(exported.Result.Structured, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Entries[0].Head()
	if diff := cmp.Diff(ledger.Principal{Tenant: "acme", User: "ann"}, h.Principal); err != nil || diff != "" {
		t.Error(diff, err)
	}
	var all []contract.Answer
	for _, name := range []string{toolStatus, toolVerdict} {
		all = append(all, c.call(9, name, map[string]string{"session": "s"}).Result.Structured.Answer)
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" || all[0].HeadHash != b.HeadHash {
		t.Error(diff)
	}
}

func quote(s string) string {
	out, _ := json.Marshal(s)
	return string(out)
}

func TestServe_AnAsynchronousRunIsAHandleAtOnce(t *testing.T) {
	c := serve(t)
	a := c.call(1, toolRun, map[string]any{"contract": slow(c.root), "session": "s", "async": true})
	if s := a.Result.Structured; s.Status != "running" || s.Verdict != nil || s.Session != "s" || s.HeadHash == "" || s.BundleRef.Tool != toolExport {
		t.Errorf("%+v", a)
	}
	if a := c.call(2, toolStatus, map[string]string{"session": "s"}); a.Result.Structured.Status != "running" {
		t.Errorf("%+v", a)
	}
	until(t, func() bool { _, err := os.Stat(filepath.Join(c.root, "begun")); return err == nil })
	c.stop() // as at SIGTERM
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
	got, err := (&contract.Runner{Ledger: c.store}).Look("s")
	if err != nil || got.Status != contract.Interrupted {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestServe_ACancelledCallCancelsItsSession(t *testing.T) {
	c := serve(t)
	c.send(lines, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"harness_run_contract","arguments":{"contract":`+quote(slow(c.root))+`,"session":"s"}}}`)
	until(t, func() bool { _, err := os.Stat(filepath.Join(c.root, "begun")); return err == nil })
	c.send(lines, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
	until(t, func() bool {
		a := c.call(1, toolStatus, map[string]string{"session": "s"}) // and no answer to x
		return a.Result.Structured.Verdict != nil && a.Result.Structured.Verdict.Outcome == "cancelled"
	})
}

func TestServe_AnswersWhatWasAskedBeforeTheEnd(t *testing.T) {
	c := serve(t)
	c.send(lines, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"harness_run_contract","arguments":{"contract":`+quote(passes)+`}}}`)
	c.in.Close()
	text, _ := c.receive()
	if a := decode(t, text); a.Result.Structured.Verdict.Outcome != "pass" {
		t.Errorf("%s", text)
	}
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
}

func TestServe_TakesBatches(t *testing.T) {
	c := serve(t)
	c.send(lines, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"nothing"}]`)
	text, _ := c.receive()
	var all []answer
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 2 || all[1].Error.Code != -32601 {
		t.Errorf("%s", text)
	}
}

// TestServe_AFuzzedClientStartsNothing sends random messages in both framings,
// mixed, cut off and glued together: each that can be told apart is answered in
// a message of its own, and nothing is started.
func TestServe_AFuzzedClientStartsNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var sent bytes.Buffer
	for range 10_000 {
		sent.Write(randomMessage(r))
	}
	sent.WriteString("\n{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"ping\"}\n")
	dir := t.TempDir()
	runner := newRunner(t, dir)
	var out bytes.Buffer
	err := Serve(t.Context(), &sent, &out, Options{
		Runner:  runner,
		Find:    func(text string) (contract.Source, error) { return contract.Find(text, dir, nil) },
		Version: "1", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Error(err)
	}
	in, n := newReader(&out), 0
	for {
		message, _, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !json.Valid(message) {
			t.Fatalf("after %d answers: %v: %q", n, err, message)
		}
		n++
	}
	if n < 1000 {
		t.Errorf("%d answers", n)
	}
	if all, err := runner.Ledger.List(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func randomMessage(r *rand.Rand) []byte {
	methods := []string{"ping", "tools/list", "tools/call", "initialize", "prompts/get", "resources/list", "notifications/cancelled", "sampling/createMessage", "", "\u0000", "harness_start"}
	names := []string{toolStatus, toolExport, toolVerdict, toolRun, "harness_list", "sh", ""}
	arguments := []string{`{}`, `{"session":"x"}`, `{"contract":""}`, `{"contract":"[contract]"}`, `{"contract":"../../etc/passwd"}`, `null`, `[1]`, `{"contract":"x","async":true}`}
	ids := []string{`1`, `"a"`, `null`, `{}`, `-1.5e3`, `true`, `[]`}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%s,"params":{"name":%q,"arguments":%s,"_meta":{"progressToken":%s}}}`,
		pick(ids), quote(pick(methods)), pick(names), pick(arguments), pick(ids))
	switch r.IntN(8) {
	case 0:
		message = message[:r.IntN(len(message))]
	case 1:
		b := []byte(message)
		for range 1 + r.IntN(4) {
			b[r.IntN(len(b))] = byte(r.IntN(256))
		}
		message = string(b)
	case 2:
		message = "[" + message + "," + message + "]"
	case 3:
		message = pick([]string{"", "\r\n\r\n", "Content-Length: x\r\n\r\n", "content-length:5\r\n\r\n{}", "Content-Type: a\r\n\r\n", "Content-Length: -1\r\n\r\n", strings.Repeat("[", 5000), "\x00\x01"})
		return []byte(message + "\n")
	}
	if r.IntN(2) == 0 {
		return fmt.Appendf(nil, "Content-Length: %d\r\n\r\n%s", len(message), message)
	}
	return []byte(message + "\n")
}
