package fakeup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// hold is how long the tool "tag" collects calls before it answers them in
// reverse.
const hold = 5 * time.Millisecond

// server is one running fake upstream.
type server struct {
	options
	out    *writer
	rec    *recorder
	offers []*offer

	mu     sync.Mutex
	held   []string                // answers of "tag", in the order asked
	asked  map[string]chan message // by id, for "ask"
	asks   int
	isDeaf bool
}

// Main runs the program and returns its exit code. args are without the
// program's name.
func Main(args []string) int {
	o, err := parse(args, os.Stderr)
	if err != nil {
		return 2
	}
	rec, err := newRecorder(o.record)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &server{
		options: o, rec: rec, offers: newOffers(o), asked: map[string]chan message{},
		out: &writer{out: os.Stdout, noise: o.noise, resultFirst: o.resultFirst},
	}
	rec.add(Started, strings.Join(os.Args, " "))
	go s.signals()
	if o.linger {
		select {}
	}
	s.spawn()
	for _, f := range s.offers {
		if f.file != "" {
			go f.watch(ctx, func() { s.out.notify(f.changed, "{}") })
		}
	}
	return s.serve(os.Stdin)
}

// signals records SIGTERM and exits on it, unless it is to be ignored. A
// lingering child ignores it.
func (s *server) signals() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGHUP)
	for sig := range c {
		s.rec.add(Signaled, sig.String())
		if !s.ignoreTerm && !s.linger {
			os.Exit(0)
		}
	}
}

// spawn has the children that -heir and -family ask for.
func (s *server) spawn() {
	child := func(session bool) *exec.Cmd {
		c := exec.Command("/proc/self/exe", "-linger", "-record", s.record)
		c.Args[0] = Name
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
		return c
	}
	var children []*exec.Cmd
	if s.heir {
		c := child(false)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		children = append(children, c)
	}
	if s.family {
		children = append(children, child(false), child(true))
	}
	for _, c := range children {
		if err := c.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// serve handles lines until stdin ends, and returns the exit code.
func (s *server) serve(stdin io.Reader) int {
	in := bufio.NewReaderSize(stdin, 1<<16)
	for {
		time.Sleep(s.readDelay)
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			s.handle(bytes.TrimRight(line, "\n"))
		}
		s.mu.Lock()
		deaf := s.isDeaf
		s.mu.Unlock()
		if deaf {
			select {}
		}
		if err != nil {
			break
		}
	}
	s.rec.add(EOF, "")
	if s.ignoreEOF {
		select {}
	}
	return 0
}

// handle acts on one line. What answers late does so on a goroutine.
func (s *server) handle(line []byte) {
	s.rec.add(Received, string(line))
	var m message
	if json.Unmarshal(line, &m) != nil {
		return
	}
	switch {
	case s.exitOn.has(m.Method):
		os.Exit(1)
	case m.Method == "":
		s.answered(m)
	case m.ID == nil || s.mute.has(m.Method):
	case s.refuse.has(m.Method):
		s.out.fault(m.ID, -32600, m.Method+" is refused here", "")
	default:
		s.request(m)
	}
}

func (s *server) request(m message) {
	if i := slices.IndexFunc(s.offers, func(f *offer) bool { return f.method == m.Method }); i >= 0 {
		s.list(m, s.offers[i])
		return
	}
	switch m.Method {
	case "initialize":
		go s.initialize(m)
	case "ping":
		s.out.result(m.ID, `{}`)
	case "prompts/get":
		s.out.result(m.ID, `{"messages":[],"_meta":{"params":`+string(m.Params)+`}}`)
	case "resources/read":
		s.out.result(m.ID, `{"contents":[],"_meta":{"from":`+quote(s.name)+`,"params":`+string(m.Params)+`}}`)
	case "completion/complete":
		s.out.result(m.ID, `{"completion":{"values":[`+quote(s.name)+`]},"_meta":{"params":`+string(m.Params)+`}}`)
	case "resources/subscribe", "resources/unsubscribe", "logging/setLevel":
		s.out.result(m.ID, `{}`) // what it knows of them is in the record
	case "tools/call":
		var c call
		if err := json.Unmarshal(m.Params, &c); err != nil {
			s.out.fault(m.ID, -32602, err.Error(), "")
			return
		}
		s.call(m, c)
	default:
		s.out.fault(m.ID, -32601, "no method "+m.Method, "")
	}
}

func (s *server) initialize(m message) {
	s.coldStart()
	if s.stderrFirst > 0 {
		flood(s.stderrFirst)
	}
	if s.banner != "" {
		s.out.unfinished(s.banner + "\n\n")
	}
	extra := ""
	if s.instructions != "" {
		extra = `,"instructions":` + quote(s.instructions)
	}
	s.out.result(m.ID, `{"protocolVersion":"2025-11-25","capabilities":`+s.capabilities()+`,`+
		`"serverInfo":{"name":`+quote(s.name)+`,"version":"1"}`+extra+`}`)
}

// capabilities are what it announces: no more than the flags ask for.
func (s *server) capabilities() string {
	all := []string{`"tools":{"listChanged":true}`}
	for _, c := range []struct {
		has  bool
		text string
	}{
		{s.promptsFile != "", `"prompts":{"listChanged":true}`},
		{s.resourcesFile != "" || s.templatesFile != "", `"resources":{"listChanged":true,"subscribe":true}`},
		{s.completes, `"completions":{}`},
		{s.logs, `"logging":{}`},
	} {
		if c.has {
			all = append(all, c.text)
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

// coldStart waits like a package manager that downloads before it runs: once
// it got through, the next start is quick.
func (s *server) coldStart() {
	for s.startGate != "" && !exists(s.startGate) {
		time.Sleep(follow)
	}
	if s.startMarker != "" && exists(s.startMarker) {
		return
	}
	time.Sleep(s.startDelay)
	if s.startMarker != "" {
		os.WriteFile(s.startMarker, nil, 0o600)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s *server) list(m message, f *offer) {
	var p struct {
		Cursor *string `json:"cursor"`
	}
	json.Unmarshal(m.Params, &p)
	page, ok := f.page(p.Cursor, s.page)
	if !ok {
		s.out.fault(m.ID, -32602, "no such cursor", "")
		return
	}
	s.out.result(m.ID, page)
	if s.storm {
		s.out.notify(f.changed, "{}")
	}
}

// answered hands an answer of the client to the tool that asked.
func (s *server) answered(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.asked[string(m.ID)]; ok {
		delete(s.asked, string(m.ID))
		c <- m
	}
}

// ask sends a request to the client and waits for its answer.
func (s *server) ask(method string) message {
	s.mu.Lock()
	s.asks++
	id, c := fmt.Sprintf(`"ask-%d"`, s.asks), make(chan message, 1)
	s.asked[id] = c
	s.mu.Unlock()
	s.out.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method))
	return <-c
}
