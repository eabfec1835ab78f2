package fakeup

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// message is one line from the client.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// call is what tools/call has in params.
type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      struct {
		ProgressToken json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
}

// writer puts whole lines on stdout, from any goroutine.
type writer struct {
	mu          sync.Mutex
	out         io.Writer
	noise       bool
	resultFirst bool
}

// line writes text as it is, with its newline.
func (w *writer) line(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noise {
		io.WriteString(w.out, "debug: about to answer {\n")
	}
	io.WriteString(w.out, text+"\n")
}

// junk writes lines that are no messages.
func (w *writer) junk() {
	w.mu.Lock()
	defer w.mu.Unlock()
	io.WriteString(w.out, "WARN not json\n\n[1,2\n\x1b[31mred\x1b[0m\n")
}

// unfinished writes a line without its newline.
func (w *writer) unfinished(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	io.WriteString(w.out, text)
}

// result answers id with a raw result.
func (w *writer) result(id json.RawMessage, result string) { w.line(w.answer(id, result)) }

// answer is the line that answers id.
func (w *writer) answer(id json.RawMessage, result string) string {
	if w.resultFirst {
		return fmt.Sprintf(`{"result":%s,"jsonrpc":"2.0","id":%s}`, result, id)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// fault answers id with an error; rest follows the message, "" or `,"data":…`.
func (w *writer) fault(id json.RawMessage, code int, text, rest string) {
	w.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s%s}}`, id, code, quote(text), rest))
}

// notify sends a notification with raw params.
func (w *writer) notify(method, params string) {
	w.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

// text is the result of a tool that has one thing to say.
func text(s string) string {
	return `{"content":[{"type":"text","text":` + quote(s) + `}]}`
}

// quote is s as JSON, with nothing escaped that need not be.
func quote(s string) string {
	b := []byte{'"'}
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
