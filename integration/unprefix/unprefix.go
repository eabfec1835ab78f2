package unprefix

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// Name is the program's name.
const Name = "unprefix"

// Main runs the program and returns its exit code. args are the prefix and the
// command that is filtered.
func Main(args []string) int {
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: unprefix PREFIX COMMAND [ARGUMENT…]")
		return 2
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() { _ = cmd.Process.Signal(<-stop) }() // one that has ended needs none
	f := New(args[0])
	go func() {
		lines(os.Stdin, in, f.Request)
		in.Close()
	}()
	lines(out, os.Stdout, f.Answer)
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}

// lines passes each line of from on as change has it.
func lines(from io.Reader, to io.Writer, change func([]byte) []byte) {
	r := bufio.NewReaderSize(from, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		if _, err := to.Write(append(change(bytes.TrimSpace(line)), '\n')); err != nil {
			return
		}
	}
}

// Filter is what is known of one connection.
type Filter struct {
	prefix string

	mu     sync.Mutex
	listed map[string]string // by raw id: the member of the result that is a list
}

// New returns a filter for names that begin with prefix.
func New(prefix string) *Filter { return &Filter{prefix: prefix, listed: map[string]string{}} }

// object is a JSON object of which only some members are looked at.
type object map[string]json.RawMessage

// parse returns text as an object, nil if it is none.
func parse(text []byte) object {
	var o object
	if json.Unmarshal(text, &o) != nil {
		return nil
	}
	return o
}

// text returns o as JSON.
func (o object) text() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(o) != nil {
		return nil // raw members came from a document
	}
	return bytes.TrimSpace(b.Bytes())
}

// word returns a member that is a string.
func (o object) word(key string) (s string, ok bool) {
	ok = json.Unmarshal(o[key], &s) == nil
	return s, ok
}

// rename changes a member that is a string.
func (o object) rename(key string, to func(string) string) {
	if s, ok := o.word(key); ok {
		o[key], _ = json.Marshal(to(s))
	}
}

// Request changes a line of the client.
func (f *Filter) Request(line []byte) []byte {
	m := parse(line)
	method, _ := m.word("method")
	add := func(s string) string { return f.prefix + s }
	switch method {
	case "tools/list", "prompts/list":
		f.mu.Lock()
		defer f.mu.Unlock()
		f.listed[string(m["id"])] = strings.TrimSuffix(method, "/list")
		return line
	case "tools/call", "prompts/get":
		if p := parse(m["params"]); p != nil {
			p.rename("name", add)
			m["params"] = p.text()
		}
	case "completion/complete":
		p := parse(m["params"])
		if ref := parse(p["ref"]); ref != nil {
			ref.rename("name", add)
			p["ref"] = ref.text()
			m["params"] = p.text()
		}
	default:
		return line
	}
	return m.text()
}

// Answer changes a line of the server.
func (f *Filter) Answer(line []byte) []byte {
	m := parse(line)
	if _, asks := m["method"]; asks || m == nil {
		return line
	}
	f.mu.Lock()
	member := f.listed[string(m["id"])]
	delete(f.listed, string(m["id"]))
	f.mu.Unlock()
	result := parse(m["result"])
	var items []json.RawMessage
	if member == "" || json.Unmarshal(result[member], &items) != nil {
		return line
	}
	kept := []json.RawMessage{}
	for _, raw := range items {
		item := parse(raw)
		if name, _ := item.word("name"); strings.HasPrefix(name, f.prefix) {
			item.rename("name", func(s string) string { return strings.TrimPrefix(s, f.prefix) })
			kept = append(kept, item.text())
		}
	}
	result[member], _ = json.Marshal(kept)
	m["result"] = result.text()
	return m.text()
}
