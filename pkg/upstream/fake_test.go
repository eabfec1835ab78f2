package upstream

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"harness/pkg/proc"
)

// script is how a fake upstream behaves. The same script runs in memory and,
// as JSON in its environment, in the test binary run again.
type script struct {
	Tools        []string // besides echo
	Description  string   // of every tool
	Banner       string   // printed on stdout before anything else
	Stderr       int      // bytes without a newline on stderr at the start
	InitDelay    time.Duration
	InitSilent   bool   // never answers initialize
	InitError    string // refuses initialize
	Discover     string // raw result of server/discover, "" for an error
	NoTools      bool   // announces no tools capability
	Instructions string
	PageSize     int  // 0: one page
	EmptyCursor  bool // the first cursor is the empty string
	RepeatCursor bool // the second cursor is the first
	ListSilent   bool // never answers tools/list
	ListError    string
	Prompts      string // how it lists prompts; "": it announces none
	ChangeOnList bool   // sends list_changed after every list
	Exit         *int   // exits at once
	IgnoreEOF    bool   // of stdin
	IgnoreTerm   bool
}

// faker is one running fake.
type faker struct {
	script
	in       io.Reader
	out, err io.Writer
	exit     func(code int) // does not return
	gone     <-chan struct{}
	note     func(unique string) // of each tools/call; nil for nobody

	mu    sync.Mutex
	lists int
	held  []json.RawMessage // ids of calls of hold
	slept sync.WaitGroup
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Cursor    *string         `json:"cursor"`
		RequestID json.RawMessage `json:"requestId"`
		Unique    string          `json:"unique"` // tells calls apart, where they are counted
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// run speaks MCP until stdin ends.
func (f *faker) run() {
	if f.Exit != nil {
		f.exit(*f.Exit)
	}
	if f.Stderr > 0 {
		f.say(strings.Repeat("e", f.Stderr) + "\nend of it")
	}
	if f.Banner != "" {
		f.print(f.Banner + "\n\n")
	}
	in := bufio.NewReader(f.in)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var r request
		if json.Unmarshal(line, &r) == nil {
			f.handle(r)
		}
	}
	if f.IgnoreEOF {
		<-f.gone
	}
	f.exit(0)
}

func (f *faker) print(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Nobody may be reading any more.
	_, _ = io.WriteString(f.out, s)
}

func (f *faker) answer(id json.RawMessage, result string) {
	f.print(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + "}\n")
}

func (f *faker) refuse(id json.RawMessage, message string) {
	f.print(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":-32601,"message":` + strconv.Quote(message) + "}}\n")
}

func (f *faker) text(id json.RawMessage, text string) {
	quoted, _ := json.Marshal(text)
	f.answer(id, `{"content":[{"type":"text","text":`+string(quoted)+`}]}`)
}

func (f *faker) handle(r request) {
	switch r.Method {
	case "initialize":
		f.initialize(r)
	case "server/discover":
		if f.Discover == "" {
			f.refuse(r.ID, "method not found")
			return
		}
		f.answer(r.ID, f.Discover)
	case "tools/list":
		f.list(r)
	case "prompts/list":
		f.prompts(r)
	case "tools/call":
		f.call(r)
	case "notifications/cancelled":
		f.say("cancelled " + string(r.Params.RequestID))
	case "":
		f.say("answer " + string(r.ID) + " " + string(r.Result) + string(r.Error))
	}
}

// say writes a line to stderr: what the fake was told.
func (f *faker) say(text string) { _, _ = io.WriteString(f.err, text+"\n") }

func (f *faker) initialize(r request) {
	switch {
	case f.InitSilent:
		return
	case f.InitError != "":
		f.refuse(r.ID, f.InitError)
		return
	case f.InitDelay > 0 && !f.wait(f.InitDelay):
		return
	}
	capabilities := `{"tools":{"listChanged":true}}`
	switch {
	case f.NoTools:
		capabilities = `{}`
	case f.Prompts != "":
		capabilities = `{"tools":{"listChanged":true},"prompts":{}}`
	}
	f.answer(r.ID, fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":{"name":"fake","version":"1"},"instructions":%q}`,
		capabilities, f.Instructions))
}

// wait reports whether d passed before the process was ended.
func (f *faker) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-f.gone:
		return false
	}
}

func (f *faker) list(r request) {
	f.mu.Lock()
	f.lists++
	names := append([]string{"echo"}, f.Tools...)
	f.mu.Unlock()
	switch {
	case f.ListSilent:
		return
	case f.ListError != "":
		f.refuse(r.ID, f.ListError)
		return
	}
	from, next := 0, ""
	if f.PageSize > 0 {
		from, next = f.page(r.Params.Cursor, len(names))
	}
	var tools []string
	for i := from; i < len(names) && (f.PageSize == 0 || i < from+f.PageSize); i++ {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, names[i], f.Description))
	}
	f.answer(r.ID, `{"tools":[`+strings.Join(tools, ",")+`]`+next+`}`)
	if f.ChangeOnList {
		f.print(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n")
	}
}

func (f *faker) prompts(r request) {
	switch f.Prompts {
	case "silent":
	case "refused":
		f.print(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":{"code":-32603,"message":"not today"}}` + "\n")
	case "missing":
		f.refuse(r.ID, "method not found")
	default:
		f.answer(r.ID, `{"prompts":[{"name":"`+f.Prompts+`"}]}`)
	}
}

// page returns where the page of a cursor begins, and what follows it.
func (f *faker) page(cursor *string, n int) (from int, next string) {
	switch {
	case cursor == nil:
	case f.EmptyCursor && *cursor == "":
		from = f.PageSize
	default:
		from, _ = strconv.Atoi(*cursor)
	}
	if to := from + f.PageSize; to < n {
		name := strconv.Itoa(to)
		if f.EmptyCursor && from == 0 {
			name = ""
		}
		if f.RepeatCursor {
			name = "0"
		}
		next = fmt.Sprintf(`,"nextCursor":%q`, name)
	}
	return from, next
}

func (f *faker) call(r request) {
	if f.note != nil {
		f.note(r.Params.Unique)
	}
	switch r.Params.Name {
	case "die":
		f.exit(3)
	case "answer-die":
		f.text(r.ID, "last words")
		f.exit(3)
	case "half-die":
		f.print(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":{}}`)
		f.exit(3)
	case "torn-die":
		f.print(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":{"content":[{"type":"te`)
		f.exit(3)
	case "broken":
		f.print(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":{"a":[1}` + "\n")
	case "neither":
		f.print(`{"jsonrpc":"2.0","id":` + string(r.ID) + "}\n")
	case "close":
		f.out.(io.Closer).Close()
	case "heir":
		f.heir(r)
	case "hold":
		f.mu.Lock()
		f.held = append(f.held, r.ID)
		f.mu.Unlock()
	case "release":
		f.release()
		f.text(r.ID, "released")
	case "sleep":
		ms, _ := strconv.Atoi(string(r.Params.Arguments))
		f.slept.Go(func() {
			if f.wait(time.Duration(ms) * time.Millisecond) {
				f.text(r.ID, "slept")
			}
		})
	case "blob":
		n, _ := strconv.Atoi(string(r.Params.Arguments))
		f.text(r.ID, strings.Repeat("x", n))
	case "progress":
		f.print(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(r.Params.Meta.Token) + `,"progress":1}}` + "\n")
		f.text(r.ID, "done")
	case "ask":
		f.print(`{"jsonrpc":"2.0","id":"q1","method":"ping"}` + "\n")
		f.print(`{"jsonrpc":"2.0","id":"q2","method":"sampling/createMessage","params":{}}` + "\n")
		f.text(r.ID, "asked")
	case "noise":
		f.print("not json\n" + `{"level":"info"}` + "\n" + `{"jsonrpc":"2.0","id":"` + string(r.ID) + `","result":{}}` + "\n" +
			`{"jsonrpc":"2.0","id":99999,"result":{}}` + "\n")
		f.text(r.ID, "noisy")
	case "burst":
		f.print(strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n", 200))
		f.text(r.ID, "burst")
	case "lists":
		f.mu.Lock()
		n := f.lists
		f.mu.Unlock()
		f.text(r.ID, strconv.Itoa(n))
	case "add":
		f.mu.Lock()
		f.Tools = append(f.Tools, "added")
		f.mu.Unlock()
		f.print(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n")
		f.text(r.ID, "added")
	case "env":
		f.text(r.ID, os.Getenv("FAKE_SECRET"))
	case "deaf":
		<-f.gone // reads nothing any more
	default:
		f.answer(r.ID, `{"echo":`+string(orNull(r.Params.Arguments))+`,"name":`+strconv.Quote(r.Params.Name)+`}`)
	}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

func (f *faker) release() {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for _, id := range held {
		f.text(id, "held")
	}
}

// heir leaves a process that holds the pipes, and exits.
func (f *faker) heir(r request) {
	cmd := exec.Command("sleep", "60")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		f.text(r.ID, err.Error())
		return
	}
	f.exit(3)
}

// fakeVariable is set in the environment of the test binary where it is to be
// a fake upstream.
const fakeVariable = "FAKE_UPSTREAM"

// runFake is the whole program of the test binary as a fake upstream.
func runFake(text string) {
	gone := make(chan struct{})
	f := &faker{in: os.Stdin, out: os.Stdout, err: os.Stderr, exit: os.Exit, gone: gone}
	if err := json.Unmarshal([]byte(text), &f.script); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if f.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	f.run()
}

// memory is a spawner whose programs are faker goroutines behind pipes. It is
// keyed by the script in the environment, as the real one is.
type memory struct {
	mu      sync.Mutex
	started []*memoryChild
	seen    map[string]int // tools/calls by what tells them apart, where they are counted
}

var _ spawner = (*memory)(nil)

// Start implements [spawner].
func (m *memory) Start(spec proc.Spec) (child, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemoryChild(len(m.started)+1, lookup(spec.Env, fakeVariable), m.note)
	m.started = append(m.started, c)
	return c, nil
}

// children returns the processes started so far.
func (m *memory) children() []*memoryChild {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*memoryChild(nil), m.started...)
}

// memoryChild is a process in memory.
type memoryChild struct {
	pid            int
	stdin          *io.PipeWriter
	stdout, stderr *io.PipeReader
	begun          time.Time
	exited, gone   chan struct{}
	once           sync.Once
	exit           proc.Exit
	ignoreTerm     bool
	ends           []io.Closer
}

var _ child = (*memoryChild)(nil)

func newMemoryChild(pid int, text string, note func(string)) *memoryChild {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	errR, errW := io.Pipe()
	c := &memoryChild{
		pid: pid, stdin: inW, stdout: outR, stderr: errR, begun: time.Now(),
		exited: make(chan struct{}), gone: make(chan struct{}), ends: []io.Closer{inR, outW, errW},
	}
	f := &faker{in: inR, out: outW, err: errW, gone: c.gone, note: note}
	f.exit = func(code int) {
		c.die(proc.Exit{Code: code, At: time.Now()})
		f.slept.Wait()
		panic(errDead)
	}
	if err := json.Unmarshal([]byte(text), &f.script); err != nil {
		panic(err)
	}
	c.ignoreTerm = f.IgnoreTerm
	go func() {
		defer func() {
			if p := recover(); p != nil && p != any(errDead) {
				panic(p)
			}
		}()
		f.run()
	}()
	return c
}

// errDead unwinds the goroutine of a program that exited.
var errDead = errors.New("dead")

func (c *memoryChild) die(e proc.Exit) {
	c.once.Do(func() {
		c.exit = e
		close(c.gone)
		for _, end := range c.ends {
			end.Close()
		}
		close(c.exited)
	})
}

func (c *memoryChild) Stdin() io.Writer        { return c.stdin }
func (c *memoryChild) Stdout() io.ReadCloser   { return c.stdout }
func (c *memoryChild) Stderr() io.ReadCloser   { return c.stderr }
func (c *memoryChild) PID() int                { return c.pid }
func (c *memoryChild) Exited() <-chan struct{} { return c.exited }
func (c *memoryChild) Exit() proc.Exit         { return c.exit }

// kill ends the program as SIGKILL would.
func (c *memoryChild) kill() { c.die(proc.Exit{Code: -1, Signal: "SIGKILL", At: time.Now()}) }

// Stop climbs the ladder of LIF-3.
func (c *memoryChild) Stop(grace time.Duration) {
	_ = c.stdin.Close() // it never fails
	select {
	case <-c.exited:
		return
	case <-time.After(grace / 3):
	}
	if !c.ignoreTerm {
		c.die(proc.Exit{Code: -1, Signal: "SIGTERM", At: time.Now()})
	}
	select {
	case <-c.exited:
	case <-time.After(grace - grace/3):
		c.kill()
	}
}
