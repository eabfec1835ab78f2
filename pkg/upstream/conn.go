package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// readBuffer is what one upstream's reader holds while nothing large passes.
const readBuffer = 64 << 10

// stall is how long an upstream may not read while data waits for it (MCP-6).
const stall = 30 * time.Second

// conn is the connection to one process: what is read from its stdout is
// matched with the calls on the board, what harness asks on its own account is
// numbered h1, h2 and so on, so that the two never meet.
type conn struct {
	board *board
	out   *jsonrpc.Writer
	noise func(what string, line []byte)
	// changed gets a signal for each list_changed; capacity 1.
	changed chan struct{}
	// broken gets the reason why the process cannot be written to; capacity 1.
	broken chan error

	// Guarded by the board's lock.
	inflight int
	retired  bool
	// idle gets a signal when the last call of a retired conn is over.
	idle chan struct{}

	// heard gets what the process says without having been asked.
	heard func(line []byte, m *jsonrpc.Message)
	// subscription is told of each subscription that was answered.
	subscription func(from *conn, uri string, on bool)
	logs         atomic.Bool // the process can be told how much to log

	m jsonrpc.Message // of the line at hand; the reader's

	// only is the session of a process that works for one, nil for a shared one.
	only jsonrpc.Answerer
	// refused is told why a question was put to nobody.
	refused func(why string)

	mu        sync.Mutex
	asks      map[string]chan<- reply // harness's own requests, by raw id
	last      uint64
	questions map[string]asked // the process's own requests, by raw id
}

var _ jsonrpc.Asker = (*conn)(nil)

// reply is the answer to a request of harness's own. The bytes are its own.
type reply struct {
	id   string // of the request, raw
	line []byte
	m    jsonrpc.Message
}

// refusal returns the message of an error answer, and whether it is one.
func (r *reply) refusal() (string, bool) {
	if !r.m.Error.Present() {
		return "", false
	}
	text, err := jsonrpc.Unquote(r.m.ErrMessage.In(r.line))
	if err != nil {
		return "an error without a message", true
	}
	return quoted(text), true
}

// code returns the code of an error answer, 0 for none.
func (r *reply) code() int {
	var fields map[string]json.RawMessage
	var code int
	// What is no number is no code.
	_ = json.Unmarshal(r.m.Error.In(r.line), &fields)
	_ = json.Unmarshal(fields["code"], &code)
	return code
}

// newConn returns the connection that writes to stdin. At most limit bytes may
// wait there.
func newConn(b *board, stdin io.Writer, limit int64, noise func(string, []byte)) *conn {
	c := &conn{
		board: b, noise: noise, heard: func([]byte, *jsonrpc.Message) {}, subscription: func(*conn, string, bool) {}, refused: func(string) {},
		asks: map[string]chan<- reply{}, questions: map[string]asked{},
		changed: make(chan struct{}, 1), broken: make(chan error, 1), idle: make(chan struct{}, 1),
	}
	c.out = jsonrpc.NewWriter(stdin, jsonrpc.WriterOptions{
		Limit: limit, Stall: stall, OnFail: c.fail, OnRefuse: c.refuse,
	})
	return c
}

// fail is told by the writer that the process takes no more.
func (c *conn) fail(err error) {
	select {
	case c.broken <- err:
	default:
	}
}

// refuse fails the calls of a batch for which there was no room (MCP-6). Of a
// batch that came too late the life's end takes care.
func (c *conn) refuse(batch []byte, err error) {
	if errors.Is(err, jsonrpc.ErrBacklog) {
		o := outage{state: Running, why: "too much is waiting for it to read its input"}
		deliver(c.board.refused(c, requestNumbers(batch), o))
	}
}

// writeFailure words why a process takes no more.
func writeFailure(err error) string {
	if errors.Is(err, jsonrpc.ErrStalled) {
		return "did not read its input for " + stall.String()
	}
	return "cannot be written to: " + err.Error()
}

// requestNumbers returns the numbers of the requests in a batch of lines.
func requestNumbers(batch []byte) []uint64 {
	var numbers []uint64
	r := jsonrpc.NewReader(bytes.NewReader(batch), readBuffer, 0)
	for {
		line, err := r.Next()
		if err != nil {
			return numbers
		}
		var m jsonrpc.Message
		if jsonrpc.Peek(line, &m) == nil && m.Kind() == jsonrpc.Request {
			if n, ok := number(m.ID.In(line)); ok {
				numbers = append(numbers, n)
			}
		}
	}
}

// number parses a raw id or token as harness spells its own: digits alone.
func number(raw []byte) (uint64, bool) {
	if len(raw) == 0 || len(raw) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// read delivers what the process says until its stdout ends, each owner one
// flush for all that came in together. It returns why stdout ended.
func (c *conn) read(r *jsonrpc.Reader) error {
	var owners flushes
	for {
		line, err := r.Next()
		var owner jsonrpc.Owner
		if tooLong, ok := errors.AsType[*jsonrpc.TooLong](err); ok {
			owner = c.tooLong(tooLong)
		} else if err != nil {
			owners.flush()
			return err
		} else {
			owner = c.line(line, r.Torn())
		}
		if owner != nil {
			owners.add(owner)
		}
		if !r.More() {
			owners.flush()
		}
	}
}

// line acts on one line and returns whose flush is due. One that is torn and no
// message was being written when the process ended: that, and not what came of
// it, is what its call is told of (LIF-6).
func (c *conn) line(line []byte, torn bool) jsonrpc.Owner {
	m := &c.m
	if err := jsonrpc.Peek(line, m); err != nil {
		if torn {
			c.noise("it ended within a message", line)
			return nil
		}
		return c.broke(line, err)
	}
	switch m.Kind() {
	case jsonrpc.Response:
		return c.response(line, m)
	case jsonrpc.Notification:
		return c.notification(line, m)
	case jsonrpc.Request:
		c.request(line, m)
	default:
		return c.broke(line, errNeither)
	}
	return nil
}

// errNeither is what is wrong with an answer that holds nothing.
var errNeither = errors.New("it has neither a result nor an error")

// broke acts on a line that is no message. If it was to be the answer to a
// call, that call will get no other.
func (c *conn) broke(line []byte, err error) jsonrpc.Owner {
	if errors.Is(err, jsonrpc.ErrEmpty) {
		return nil
	}
	c.noise("not JSON-RPC", line)
	n, ok := number(c.m.ID.In(line))
	if !ok || c.m.Method.Present() {
		return nil
	}
	return c.spoil(n, callError(wire.OperationFailed, c.board.key, Running,
		"the answer of upstream "+c.board.key+" is not a valid message: "+err.Error()))
}

// spoil fails the call number n, whose answer cannot be passed on.
func (c *conn) spoil(n uint64, e *wire.Error) jsonrpc.Owner {
	call, _ := c.board.answered(c, n)
	if call == nil {
		return nil
	}
	owner := call.Owner
	owner.Fail(call, e)
	return owner
}

func (c *conn) response(line []byte, m *jsonrpc.Message) jsonrpc.Owner {
	id := m.ID.In(line)
	n, ok := number(id)
	if !ok {
		c.answerAsk(id, line, m)
		return nil
	}
	call, late := c.board.answered(c, n)
	if call == nil {
		if !late {
			c.noise("answer to no request", line)
		}
		return nil
	}
	owner := call.Owner
	c.note(call, m)
	owner.Answer(call, line, m)
	return owner
}

func (c *conn) notification(line []byte, m *jsonrpc.Message) jsonrpc.Owner {
	method, err := jsonrpc.Text(m.Method.In(line)) // some writers escape a slash
	if err != nil {
		return nil
	}
	switch string(method) {
	case "notifications/progress":
		if n, ok := number(m.ParamsToken.In(line)); ok {
			return c.board.progress(c, n, line, m)
		}
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		notify(c.changed)
	case "notifications/resources/updated", "notifications/message", "notifications/elicitation/complete", "notifications/tasks/status":
		c.heard(line, m)
	case "notifications/cancelled":
		c.withdraw(line, m)
	}
	return nil
}

// request answers what a process asks its client, or has a session do it.
func (c *conn) request(line []byte, m *jsonrpc.Message) {
	id := m.ID.In(line)
	method, err := jsonrpc.Unquote(m.Method.In(line))
	if err == nil && method == "ping" {
		c.write(wire.AppendResult(nil, id, []byte("{}")))
		return
	}
	switch method {
	case "sampling/createMessage", "elicitation/create", "roots/list":
		c.question(method, line, m)
	default:
		c.write(wire.AppendPlainError(nil, id, wire.MethodNotFound, quoted(method)+" is not a method of a client"))
	}
}

// write sends one line of harness's own. What cannot be sent shows elsewhere:
// the writer fails, or the answer to a request stays away.
func (c *conn) write(line []byte) { _, _ = c.out.Write(append(line, '\n')) }

// tooLong fails the one call whose answer is over the limit (MCP-3).
func (c *conn) tooLong(t *jsonrpc.TooLong) jsonrpc.Owner {
	n, ok := number(t.ID)
	if !ok || !t.Response {
		c.noise("a message over max_message was dropped", nil)
		return nil
	}
	return c.spoil(n, callError(wire.MessageTooLarge, c.board.key, Running,
		"the answer of upstream "+c.board.key+" is longer than [server] max_message allows"))
}

// ask sends a request of harness's own; the answer, if one comes, goes to the
// channel. forget ends the wait for it.
func (c *conn) ask(method string, params []byte) (answer <-chan reply, forget func()) {
	ch := make(chan reply, 1)
	id := c.send(ch, method, params)
	return ch, func() { c.forget(id) }
}

// send sends a request of harness's own and returns its id. The answer, if one
// comes before it is forgotten, goes to the channel, which has to have room.
func (c *conn) send(to chan<- reply, method string, params []byte) (id string) {
	c.mu.Lock()
	c.last++
	id = `"h` + strconv.FormatUint(c.last, 10) + `"`
	c.asks[id] = to
	c.mu.Unlock()
	line := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	line = append(append(line, `,"method":"`...), method...)
	line = append(append(line, `","params":`...), params...)
	c.write(append(line, '}'))
	return id
}

// forget ends the wait for an answer.
func (c *conn) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asks, id)
}

// answerAsk hands an answer to whoever asked.
func (c *conn) answerAsk(id, line []byte, m *jsonrpc.Message) {
	c.mu.Lock()
	ch, ok := c.asks[string(id)]
	delete(c.asks, string(id))
	c.mu.Unlock()
	if !ok {
		// One of harness's own that nobody waits for any more is no noise.
		if !bytes.HasPrefix(id, []byte(`"h`)) {
			c.noise("answer to no request", line)
		}
		return
	}
	ch <- reply{string(id), append([]byte(nil), line...), *m}
}

// cancel tells the process that nobody waits for the answer to request n, in
// the words of who did, nil for none.
func (c *conn) cancel(n uint64, notice []byte) {
	c.write(jsonrpc.AppendCancelled(nil, notice, strconv.AppendUint(nil, n, 10)))
}
