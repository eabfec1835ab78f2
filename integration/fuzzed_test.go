package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fuzzMessages is small where every change is tested, and 10,000 once in a while.
var fuzzMessages = flag.Int("fuzz-messages", 500, "how many random messages serve-mcp is sent")

// TestDelegate_AFuzzedClientStartsNothing sends the program random messages, in
// both framings, mixed, cut off and glued together. It answers in whole messages
// to the end, starts nothing, and ends well.
func TestDelegate_AFuzzedClientStartsNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cmd := h.command(t.Context(), "harness", "serve-mcp", "--standalone")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 5))
	go func() {
		defer in.Close()
		for range *fuzzMessages {
			if _, err := in.Write(randomMessage(r)); err != nil {
				t.Error(err)
				return
			}
		}
		// One that was cut off may have taken the first of these for its own.
		for i := range 300 {
			fmt.Fprintf(in, "\n{\"jsonrpc\":\"2.0\",\"id\":\"last%d\",\"method\":\"ping\"}\n", i)
		}
	}()
	answers, last := 0, false
	for read := bufio.NewReader(out); ; answers++ {
		message, err := nextMessage(read)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !json.Valid(message) {
			t.Fatalf("after %d answers: %v: %.200q", answers, err, message)
		}
		if bytes.Contains(message, []byte(`"outcome":"`)) {
			t.Errorf("something was run: %.500s", message)
		}
		last = last || bytes.Contains(message, []byte(`"id":"last299","result":{}`))
	}
	if err := cmd.Wait(); err != nil || !last || answers < *fuzzMessages/4 {
		t.Errorf("%d answers, the last one %v: %v", answers, last, err)
	}
	if got := h.must("ledger", "list", "--json"); !strings.Contains(got, `"sessions":[]`) {
		t.Errorf("sessions: %s", got)
	}
	if left, _ := filepath.Glob(h.path("state/harness/ledger/sessions/*")); len(left) > 0 {
		t.Errorf("begun: %v", left)
	}
}

// nextMessage reads a message of either framing.
func nextMessage(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return []byte(line), err
	}
	size, framed := strings.CutPrefix(line, "Content-Length: ")
	if !framed {
		return []byte(line), nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(size, "\r\n"))
	if err != nil {
		return []byte(line), err
	}
	if blank, err := r.ReadString('\n'); err != nil || blank != "\r\n" {
		return []byte(blank), fmt.Errorf("no end of the headers: %w", err)
	}
	body := make([]byte, n)
	_, err = io.ReadFull(r, body)
	return body, err
}

// randomMessage is one that may be right in every part but one, or in none.
func randomMessage(r *rand.Rand) []byte {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	id := func() string { return pick(`1`, `"a"`, `null`, `{}`, `-1.5e3`, `true`, `[]`) }
	message := fmt.Sprintf(`{"jsonrpc":%s,"id":%s,"method":%q,"params":{"name":%q,"arguments":%s,"_meta":{"progressToken":%s}}}`,
		pick(`"2.0"`, `"2.0"`, `"2.0"`, `2`), id(),
		pick("ping", "tools/list", "tools/call", "tools/call", "initialize", "prompts/get", "resources/list", "notifications/cancelled", "sampling/createMessage", "harness_start", ""),
		pick("harness_contract_status", "harness_ledger_export", "harness_ledger_verdict", "harness_run_contract", "harness_run_contract", "harness_list", "sh", ""),
		pick(`{}`, `{"session":"x"}`, `{"contract":""}`, `{"contract":"[contract]"}`, `{"contract":"../../etc/passwd"}`, `null`, `[1]`, `{"contract":"x","async":true}`,
			`{"contract":"[contract]\nname='x'\n[[check]]\nname='a'\ncmd='true'","session":"../x"}`, `{"contract":"[contract]\nname='x'\n[[check]]\nname='a'\ncmd='true'","shell":1}`), id())
	switch r.IntN(8) {
	case 0:
		message = message[:r.IntN(len(message))]
	case 1:
		// Not a quote or a bracket: a message that means something else may be right.
		b := []byte(message)
		for range 1 + r.IntN(4) {
			b[r.IntN(len(b))] = byte(r.IntN(32))
		}
		message = string(b)
	case 2:
		message = "[" + message + "," + message + "]"
	case 3:
		return []byte(pick("", "\r\n\r\n", "Content-Length: x\r\n\r\n", "content-length:5\r\n\r\n{}", "Content-Type: a\r\n\r\n", "Content-Length: -1\r\n\r\n",
			"Content-Length: 99\r\n\r\n", "Content-Length: 9999999999\r\n\r\n"[:r.IntN(20)], strings.Repeat("[", 5000), "\x00\x01") + "\n")
	}
	if r.IntN(2) == 0 {
		return fmt.Appendf(nil, "Content-Length: %d\r\n\r\n%s", len(message)+r.IntN(2)*r.IntN(3), message)
	}
	return []byte(message + "\n")
}
