package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"harness/pkg/control"
)

// mirror makes a process the ends of its standard streams elsewhere: what the
// test writes to the socket is what an upstream says.
func mirror(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, conn)
}

// peer is one end of a connection that the test plays, line by line.
type peer struct {
	conn  net.Conn
	lines chan string
	said  string // last
	other *peer  // the other end
}

func newPeer(conn net.Conn) *peer {
	p := &peer{conn: conn, lines: make(chan string, 100)}
	go func() {
		defer close(p.lines)
		in := bufio.NewReader(conn)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			p.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return p
}

func (p *peer) say(line string) {
	p.said = line
	fmt.Fprintln(p.conn, line)
}

// next is the line that comes next.
func (p *peer) next(t rapid.TB) string {
	t.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-time.After(patience):
		var got string
		select {
		case got = <-p.other.lines:
		default:
		}
		t.Fatalf("no line came for what the other end said: %.2000s\nwhich got: %.2000s", p.other.said, got)
		return ""
	}
}

// Where a message changes on its way. Nothing else in one has control
// characters.
const (
	theID    = "\x01"
	theName  = "\x02"
	theToken = "\x03"
	// Where something is added to a failure.
	inMessage = "\x04"
	inContent = "\x05"
	inMeta    = "\x06"
)

// fill is a message with what stands at those places.
func fill(message, id, name, token string) string {
	return strings.NewReplacer(theID, id, theName, name, theToken, token, inMessage, "", inContent, "", inMeta, "").Replace(message)
}

// arrives expects a message whose id, and token, the receiver is yet to learn.
func (p *peer) arrives(t rapid.TB, message, name string) (id string) {
	t.Helper()
	got := p.next(t)
	before, _, _ := strings.Cut(fill(message, theID, name, theToken), theID)
	if i := strings.Index(before, theToken); i >= 0 {
		before = before[:i] // the token comes first, and is the id
	}
	if !strings.HasPrefix(got, before) {
		t.Fatalf("got  %s\nsent %s", got, fill(message, "ID", name, "TOKEN"))
	}
	id = regexp.MustCompile(`^(\d+|"[^"]*")`).FindString(got[len(before):])
	if want := fill(message, id, name, id); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	return id
}

// is expects a line.
func (p *peer) is(t rapid.TB, want string) {
	t.Helper()
	if got := p.next(t); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// writing draws JSON text: anything that is valid and that a decoder would
// spell otherwise.
type writing struct{ t *rapid.T }

func (w writing) space() string {
	return rapid.SampledFrom([]string{"", "", "", "", " ", "\t", " \r "}).Draw(w.t, "space")
}

func (w writing) text() string {
	part := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9äß漢😀 {}:,\[\]<>&/\x{2028}]{0,12}`),
		rapid.SampledFrom([]string{`\"`, `\\`, `\/`, `\n`, `\u0069`, `\ud83d\ude00`, `\ud800`, `\udc00\ud800`, `\u0000`, `\uFFFF`, "\x7f"}),
	)
	return `"` + strings.Join(rapid.SliceOfN(part, 0, 4).Draw(w.t, "text"), "") + `"`
}

func (w writing) number() string {
	return rapid.SampledFrom([]string{
		"0", "-0", "1.0", "0.10", "-1.50e+3", "1E400", "1e-999", "9007199254740993", "-9223372036854775808",
		"123456789012345678901234567890", "0.1", strings.Repeat("9", 400),
	}).Draw(w.t, "number")
}

func (w writing) value(depth int) string {
	kind := rapid.IntRange(0, 8).Draw(w.t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0, 1:
		return w.text()
	case 2:
		return w.number()
	case 3:
		return rapid.SampledFrom([]string{"true", "false", "null", "[]", "{}"}).Draw(w.t, "word")
	case 4:
		n := rapid.SampledFrom([]int{1, 63, 64, 65, 129, 5000}).Draw(w.t, "levels")
		return strings.Repeat(`[`, n) + w.value(0) + strings.Repeat("]", n)
	case 5:
		n := rapid.SampledFrom([]int{1, 63, 64, 65, 129, 2000}).Draw(w.t, "levels")
		return strings.Repeat(`{"a":`, n) + w.value(0) + strings.Repeat("}", n)
	case 6, 7:
		var items []string
		for range rapid.IntRange(0, 3).Draw(w.t, "items") {
			items = append(items, w.space()+w.value(depth-1)+w.space())
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return w.object(depth-1, nil)
}

// known are the keys that mean something somewhere in a message. Two of one are
// refused, so they are drawn only where they are given.
var known = map[string]bool{
	"jsonrpc": true, "id": true, "method": true, "params": true, "result": true, "error": true, "name": true, "uri": true, "ref": true,
	"cursor": true, "requestId": true, "progressToken": true, "_meta": true, "isError": true, "content": true, "message": true,
	"arguments": true, "task": true, "taskId": true, "harness/upstream": true, "level": true, "io.modelcontextprotocol/related-task": true,
}

// key draws a key that is not among the known ones.
func (w writing) key() string {
	for {
		key := w.text()
		if rapid.IntRange(0, 2).Draw(w.t, "odd") == 0 {
			key = rapid.SampledFrom([]string{
				`"Name"`, `"ID"`, `"Params"`, `"METHOD"`, `"Result"`, `"iserror"`, `"URI"`, `""`, `"a"`, `"a"`, `"__proto__"`, `"Id\u017f"`, `"argument\u017f"`,
			}).Draw(w.t, "key")
		}
		var text string
		if json.Unmarshal([]byte(key), &text) != nil || !known[text] {
			return key
		}
	}
}

// object draws an object with these members, in any order and among others.
func (w writing) object(depth int, members []string) string {
	for range rapid.IntRange(0, 3).Draw(w.t, "more") {
		members = append(members, w.key()+w.space()+":"+w.space()+w.value(max(0, depth)))
	}
	members = rapid.Permutation(members).Draw(w.t, "order")
	for i := range members {
		members[i] = w.space() + members[i] + w.space()
	}
	return "{" + strings.Join(members, ",") + "}"
}

// member is a member of an object. Its key may be spelled in another way.
func (w writing) member(key, value string) string {
	if rapid.IntRange(0, 9).Draw(w.t, "escaped") == 0 {
		at := rapid.IntRange(0, len(key)-1).Draw(w.t, "at")
		key = fmt.Sprintf(`%s\u%04x%s`, key[:at], key[at], key[at+1:])
	}
	return `"` + key + `"` + w.space() + ":" + w.space() + value
}

func (w writing) maybe(members []string, key string, value func() string) []string {
	if rapid.Bool().Draw(w.t, key) {
		members = append(members, w.member(key, value()))
	}
	return members
}

// meta is a _meta, with a place for a token or without.
func (w writing) meta(token bool) string {
	var members []string
	if token {
		members = append(members, w.member("progressToken", theToken))
	}
	return w.object(2, members)
}

// request draws a request. named is where it names what it is about.
func (w writing) request(method string, params []string, token bool) string {
	params = append(params, w.member("_meta", w.meta(token)))
	if rapid.IntRange(0, 3).Draw(w.t, "slash") == 0 {
		method = strings.ReplaceAll(method, "/", `\/`)
	}
	return w.object(1, []string{
		w.member("jsonrpc", `"2.0"`), w.member("id", theID), w.member("method", `"`+method+`"`), w.member("params", w.object(3, params)),
	})
}

func (w writing) notification(method string, params []string) string {
	if rapid.IntRange(0, 3).Draw(w.t, "slash") == 0 {
		method = strings.ReplaceAll(method, "/", `\/`)
	}
	return w.object(1, []string{w.member("jsonrpc", `"2.0"`), w.member("method", `"`+method+`"`), w.member("params", w.object(3, params))})
}

// result draws an answer that is a result; failed, one that says so.
func (w writing) result(failed bool) string {
	var members []string
	if failed {
		items := ""
		for range rapid.IntRange(0, 2).Draw(w.t, "contents") {
			items += w.value(2) + ","
		}
		// What is added stands at the end of both.
		content := "[" + strings.TrimSuffix(items, ",") + inContent + w.space() + "]"
		meta := w.meta(false)
		members = []string{
			w.member("isError", "true"), w.member("content", content), w.member("_meta", meta[:len(meta)-1]+inMeta+"}"),
		}
	} else {
		members = w.maybe(members, "isError", func() string { return rapid.SampledFrom([]string{"false", "null", `"true"`}).Draw(w.t, "isError") })
		members = w.maybe(members, "content", func() string { return w.value(3) })
		members = w.maybe(members, "_meta", func() string { return w.meta(false) })
	}
	return w.object(1, []string{w.member("jsonrpc", `"2.0"`), w.member("id", theID), w.member("result", w.object(3, members))})
}

// fault draws an answer that is an error.
func (w writing) fault() string {
	members := []string{w.member("code", w.number())}
	members = w.maybe(members, "message", func() string { return `"` + inMessage + w.text()[1:] })
	members = w.maybe(members, "data", func() string { return w.value(3) })
	return w.object(1, []string{w.member("jsonrpc", `"2.0"`), w.member("id", theID), w.member("error", w.object(2, members))})
}

// id draws the id of a request, or a token.
func (w writing) id() string {
	if rapid.Bool().Draw(w.t, "text id") {
		return w.text()
	}
	return rapid.SampledFrom([]string{"0", "-1", "7", "9007199254740993", "1.5", "1e3"}).Draw(w.t, "id")
}

// equality is a session and an upstream, both played by the test, with a daemon
// between them.
type equality struct {
	socket    string
	agent, up *peer
	asked     int // requests of the upstream so far
}

// begin opens a session. What an earlier one left for the upstream is dropped.
func (e *equality) begin(t *rapid.T) {
	conn, err := control.DialSession(t.Context(), e.socket, "")
	if err != nil {
		t.Fatal(err)
	}
	e.agent = newPeer(conn)
	e.agent.other, e.up.other = e.up, e.agent
	e.agent.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"x","version":"1"}}}`)
	e.agent.next(t)
	e.agent.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	e.asked++
	first := fmt.Sprintf(`"params":{"name":"t","arguments":{"first":%d}}`, e.asked)
	e.agent.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call",` + strings.Replace(first, "t", "up__t", 1) + `}`)
	var m struct{ ID json.RawMessage }
	for line := ""; !strings.Contains(line, first); {
		line = e.up.next(t)
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
	}
	e.up.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
	for e.agent.next(t) != `{"jsonrpc":"2.0","id":2,"result":{}}` {
	}
	const subscribe = `{"jsonrpc":"2.0","id":` + theID + `,"method":"resources/subscribe","params":{"uri":` + theName + `}}`
	e.agent.say(fill(subscribe, "2", `"demo:/\u002fr"`, ""))
	n := e.up.arrives(t, subscribe, `"demo://r"`)
	e.up.say(`{"jsonrpc":"2.0","id":` + n + `,"result":{}}`)
	e.agent.is(t, `{"jsonrpc":"2.0","id":2,"result":{}}`)
}

// end closes the session, and waits until nobody is subscribed.
func (e *equality) end(t *rapid.T) {
	e.agent.conn.Close()
	for !strings.Contains(e.up.next(t), `"resources/unsubscribe"`) {
	}
}

// Every byte of what an agent and an upstream say to each other arrives as it
// was sent, but for ids, tokens, names, and what is added to failures (MCP-3,
// MCP-7).
func TestDaemon_PassesEveryByteOn(t *testing.T) {
	e := newEquality(t)
	rapid.Check(t, func(t *rapid.T) {
		e.begin(t)
		defer e.agent.conn.Close()
		for range rapid.IntRange(1, 3).Draw(t, "exchanges") {
			e.exchange(t, writing{t})
		}
		e.agent.say(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
		e.agent.is(t, `{"jsonrpc":"2.0","id":"last","result":{}}`) // nothing was left over
		e.end(t)
	})
}

// subject is what a request can be about: how the agent names it, and how the
// upstream gets it.
type subject struct {
	method string
	params func(w writing) []string
	agent  string
	up     string
}

func subjects() []subject {
	named := func(key string) func(w writing) []string {
		return func(w writing) []string {
			params := []string{w.member(key, theName)}
			if key == "name" {
				params = w.maybe(params, "arguments", func() string { return w.object(3, nil) })
			}
			return params
		}
	}
	ref := func(key string) func(w writing) []string {
		return func(w writing) []string {
			return []string{w.member("ref", w.object(1, []string{w.member(key, theName)})), w.member("argument", w.value(2))}
		}
	}
	return []subject{
		{"tools/call", named("name"), `"up__t"`, `"t"`},
		{"tools/call", named("name"), `"u\u0070__\u0074"`, `"t"`},
		{"prompts/get", named("name"), `"up__p"`, `"p"`},
		{"resources/read", named("uri"), `"demo:\/\/r"`, `"demo://r"`},
		{"resources/read", named("uri"), `"item://\ud83d\ude00"`, `"item://😀"`},
		{"completion/complete", ref("name"), `"up__p"`, `"p"`},
		{"completion/complete", ref("uri"), `"item://{id}"`, `"item://{id}"`},
	}
}

// exchange has the agent ask something, both sides say things meanwhile, and
// the request end in one of the ways there are.
func (e *equality) exchange(t *rapid.T, w writing) {
	s := rapid.SampledFrom(subjects()).Draw(t, "subject")
	token := rapid.Bool().Draw(t, "token")
	id, mark := w.id(), w.id()
	request := w.request(s.method, s.params(w), token)
	e.agent.say(fill(request, id, s.agent, mark))
	n := e.up.arrives(t, request, s.up)
	for range rapid.IntRange(0, 2).Draw(t, "meanwhile") {
		e.meanwhile(t, w, n, mark, token)
	}
	switch rapid.IntRange(0, 3).Draw(t, "end") {
	case 0:
		answer := w.fault()
		e.up.say(fill(answer, n, "", ""))
		e.agent.is(t, fill(strings.ReplaceAll(answer, inMessage, "upstream up: "), id, "", ""))
	case 1:
		answer := w.result(true)
		e.up.say(fill(answer, n, "", ""))
		if s.method == "tools/call" {
			answer = marked(answer)
		}
		e.agent.is(t, fill(answer, id, "", ""))
	case 2:
		answer := w.result(false)
		e.up.say(fill(answer, n, "", ""))
		e.agent.is(t, fill(answer, id, "", ""))
	case 3:
		notice := w.notification("notifications/cancelled", w.maybe([]string{w.member("requestId", theID)}, "reason", func() string { return w.value(2) }))
		e.agent.say(fill(notice, id, "", ""))
		e.up.is(t, fill(notice, n, "", ""))
	}
}

// marked is a failed result with what says whose it is.
func marked(answer string) string {
	add := func(at, what string) {
		before, after, _ := strings.Cut(answer, at)
		comma := ","
		if last := strings.TrimRight(before, " \t\r"); strings.HasSuffix(last, "[") && at == inContent || strings.HasSuffix(last, "{") && at == inMeta {
			comma = ""
		}
		space := after[:len(after)-len(strings.TrimLeft(after, " \t\r"))]
		answer = before + space + comma + what + after[len(space):]
	}
	add(inContent, `{"type":"text","text":"upstream up"}`)
	add(inMeta, `"harness/upstream":"up"`)
	return answer
}

// meanwhile is something that is said while a request is under way.
func (e *equality) meanwhile(t *rapid.T, w writing, n, mark string, token bool) {
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		if token {
			progress := w.notification("notifications/progress", []string{w.member("progressToken", theToken)})
			e.up.say(fill(progress, "", "", n))
			e.agent.is(t, fill(progress, "", "", mark))
		}
	case 1:
		message := w.notification("notifications/message", []string{w.member("level", `"error"`), w.member("data", w.value(3))})
		e.up.say(message)
		e.agent.is(t, message)
	case 2:
		updated := w.notification("notifications/resources/updated", []string{w.member("uri", theName)})
		e.up.say(fill(updated, "", `"demo:\/\/r"`, ""))
		e.agent.is(t, fill(updated, "", `"demo:/\u002fr"`, "")) // as it was asked for
	default:
		e.question(t, w)
	}
}

// question has the upstream ask its client something.
func (e *equality) question(t *rapid.T, w writing) {
	method := rapid.SampledFrom([]string{"sampling/createMessage", "elicitation/create", "roots/list"}).Draw(t, "question")
	token := rapid.Bool().Draw(t, "token")
	e.asked++
	id, mark := strconv.Quote(fmt.Sprint("q", e.asked)), w.id()
	if rapid.Bool().Draw(t, "number") {
		id = fmt.Sprint(e.asked)
	}
	question := w.request(method, nil, token)
	e.up.say(fill(question, id, "", mark))
	given := e.agent.arrives(t, question, "")
	if token {
		progress := w.notification("notifications/progress", []string{w.member("progressToken", theToken)})
		e.agent.say(fill(progress, "", "", given))
		e.up.is(t, fill(progress, "", "", mark))
	}
	switch rapid.IntRange(0, 2).Draw(t, "end") {
	case 0:
		answer := w.result(false)
		e.agent.say(fill(answer, given, "", ""))
		e.up.is(t, fill(answer, id, "", ""))
	case 1:
		answer := w.fault()
		e.agent.say(fill(answer, given, "", ""))
		e.up.is(t, fill(answer, id, "", ""))
	case 2:
		notice := w.notification("notifications/cancelled", w.maybe([]string{w.member("requestId", theID)}, "reason", func() string { return w.value(2) }))
		e.up.say(fill(notice, id, "", ""))
		e.agent.is(t, fill(notice, given, "", ""))
	}
}

// newEquality starts a daemon with one upstream and one session.
func newEquality(t *testing.T) *equality {
	h := newHome(t)
	l, err := net.Listen("unix", h.dir+"/up")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.write(fmt.Sprintf("[mcp.up]\ncmd = %q\nargs = [%q, %q]\n", exe, mirrorFlag, l.Addr()))
	var e equality
	var greeted sync.WaitGroup
	greeted.Go(func() {
		defer l.Close()
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		e.up = newPeer(conn)
		e.up.other = e.up
		e.up.greet(t)
	})
	r := h.start()
	t.Cleanup(func() { r.stop() })
	greeted.Wait()
	r.settled("up")
	e.socket = r.paths.Socket
	t.Cleanup(func() { e.up.conn.Close() })
	return &e
}

// greet answers what a daemon asks of a new upstream.
func (p *peer) greet(t *testing.T) {
	answers := map[string]string{
		"initialize":               `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}},"serverInfo":{"name":"x","version":"1"}}`,
		"tools/list":               `{"tools":[{"name":"t"}]}`,
		"prompts/list":             `{"prompts":[{"name":"p"}]}`,
		"resources/list":           `{"resources":[{"uri":"demo://r","name":"r"}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"item://{id}","name":"i"}]}`,
	}
	for len(answers) > 0 {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(p.next(t)), &m); err != nil {
			t.Error(err)
			return
		}
		if m.ID != nil {
			p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answers[m.Method]))
			delete(answers, m.Method)
		}
	}
}
