package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"harness/pkg/wire"
)

// demoAgent is an agent as the demo plays it: a process of `harness mcp`, and
// what it said.
type demoAgent struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser

	mu      sync.Mutex
	last    int
	answers map[int]chan demoAnswer
	notes   []demoNote    // notifications, oldest first
	news    chan struct{} // closed and replaced at each notification
	ended   chan struct{}
}

// demoAnswer is one response.
type demoAnswer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// demoNote is one notification and when it came.
type demoNote struct {
	method string
	at     time.Time
}

// demoPatience is how long the demo waits for one thing to happen.
const demoPatience = 8 * time.Second

// startDemoAgent launches the bridge as an agent would.
func startDemoAgent(name, exe string, env []string) (*demoAgent, error) {
	cmd := exec.Command(exe, "mcp")
	cmd.Env, cmd.Stderr = env, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	a := &demoAgent{name: name, cmd: cmd, in: in, answers: map[int]chan demoAnswer{}, news: make(chan struct{}), ended: make(chan struct{})}
	go a.listen(out)
	return a, nil
}

// greet shakes hands.
func (a *demoAgent) greet(ctx context.Context) error {
	if _, err := a.request(ctx, "initialize", `{"protocolVersion":"`+wire.Latest+`","capabilities":{},"clientInfo":{"name":"`+a.name+`","version":"1"}}`); err != nil {
		return err
	}
	return a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// listen sorts what the bridge says until it ends.
func (a *demoAgent) listen(out io.Reader) {
	defer close(a.ended)
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     *int
			Method string
			demoAnswer
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		a.mu.Lock()
		if m.ID == nil {
			a.notes = append(a.notes, demoNote{m.Method, time.Now()})
			close(a.news)
			a.news = make(chan struct{})
		} else if ch := a.answers[*m.ID]; ch != nil {
			delete(a.answers, *m.ID)
			ch <- m.demoAnswer
		}
		a.mu.Unlock()
	}
}

func (a *demoAgent) send(line string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		return fmt.Errorf("%s lost its bridge: %w", a.name, err)
	}
	return nil
}

// request returns the result of one request.
func (a *demoAgent) request(ctx context.Context, method, params string) (json.RawMessage, error) {
	ch := make(chan demoAnswer, 1)
	a.mu.Lock()
	a.last++
	id := a.last
	a.answers[id] = ch
	a.mu.Unlock()
	if err := a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)); err != nil {
		return nil, err
	}
	select {
	case r := <-ch:
		if r.Error != nil {
			return nil, errors.New(r.Error.Message)
		}
		return r.Result, nil
	case <-a.ended:
		return nil, fmt.Errorf("%s lost its bridge", a.name)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(demoPatience):
		return nil, fmt.Errorf("%s got no answer to %s", a.name, method)
	}
}

// call calls a tool and returns its text; a failed tool is an error.
func (a *demoAgent) call(ctx context.Context, tool, arguments string) (string, error) {
	raw, err := a.request(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		return "", err
	}
	var r struct {
		IsError bool
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		return "", fmt.Errorf("%s got an odd result: %s", a.name, raw)
	}
	if r.IsError {
		return "", errors.New(r.Content[0].Text)
	}
	return r.Content[0].Text, nil
}

// list returns the names that a list method gives, without the daemon's own
// tools, which are always there.
func (a *demoAgent) list(ctx context.Context, k wire.Kind) ([]string, error) {
	raw, err := a.request(ctx, k.ListMethod(), "{}")
	if err != nil {
		return nil, err
	}
	var r map[string][]struct{ Name string }
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%s got an odd list: %w", a.name, err)
	}
	names := []string{}
	for _, item := range r[k.String()] {
		if k != wire.Tools || strings.Contains(item.Name, "__") {
			names = append(names, item.Name)
		}
	}
	return names, nil
}

// seen is how many notifications there were so far.
func (a *demoAgent) seen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.notes)
}

// note waits for the first notification of k after the first since, and
// returns when it came.
func (a *demoAgent) note(ctx context.Context, k wire.Kind, since int) (time.Time, error) {
	deadline := time.After(demoPatience)
	for {
		a.mu.Lock()
		for _, n := range a.notes[since:] {
			if n.method == k.ChangedMethod() {
				a.mu.Unlock()
				return n.at, nil
			}
		}
		news := a.news
		a.mu.Unlock()
		select {
		case <-news:
		case <-a.ended:
			return time.Time{}, fmt.Errorf("%s lost its bridge", a.name)
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-deadline:
			return time.Time{}, fmt.Errorf("%s was not told that its %s changed", a.name, k)
		}
	}
}

// stop ends the agent as an agent ends its bridge, and waits for it.
func (a *demoAgent) stop() error {
	_ = a.in.Close() // it may be gone already
	<-a.ended
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("the bridge of %s: %w", a.name, err)
	}
	return nil
}

// names joins a list for a line of the demo.
func names(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}
