package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"harness/pkg/contract"
	"harness/pkg/ledger"
	"harness/pkg/wire"
)

// runner is how one of the tools is run.
type runner func(ctx context.Context, c *call, arguments json.RawMessage, progress func(contract.Progress)) (any, error)

// tool finds one of the four, by its exact name.
func (s *server) tool(name string) (runner, bool) {
	switch name {
	case toolRun:
		return s.run, true
	case toolStatus:
		return s.bySession(func(id string) (any, error) { return s.Runner.Status(id) }), true
	case toolVerdict:
		return s.bySession(func(id string) (any, error) { return s.Runner.Look(id) }), true
	case toolExport:
		return s.bySession(func(id string) (any, error) { return s.Runner.Export(id) }), true
	}
	return nil, false
}

// strict decodes the arguments of a tool: nothing unknown, nothing of another
// type, names spelled exactly.
func strict(raw json.RawMessage, known []string, into any) error {
	var names map[string]json.RawMessage
	if err := json.Unmarshal(raw, &names); err != nil || names == nil {
		return wire.New(wire.InvalidArgument, "arguments are an object")
	}
	for name := range names {
		if !slices.Contains(known, name) {
			return wire.New(wire.InvalidArgument, fmt.Sprintf("there is no argument %s; known are %s", wire.AppendQuoted(nil, cut(name)), strings.Join(known, ", ")))
		}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(into); err != nil {
		return wire.New(wire.InvalidArgument, "the arguments: "+wire.Misread(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return wire.New(wire.InvalidArgument, "arguments are an object")
	}
	return nil
}

// bySession is a tool whose one argument is a session.
func (s *server) bySession(do func(id string) (any, error)) runner {
	return func(_ context.Context, _ *call, arguments json.RawMessage, _ func(contract.Progress)) (any, error) {
		var a struct {
			Session *string `json:"session"`
		}
		if err := strict(arguments, []string{"session"}, &a); err != nil {
			return nil, err
		}
		if a.Session == nil {
			return nil, wire.New(wire.InvalidArgument, "session is missing")
		}
		return do(*a.Session)
	}
}

// run is harness_run_contract.
func (s *server) run(ctx context.Context, c *call, arguments json.RawMessage, progress func(contract.Progress)) (any, error) {
	var a struct {
		Contract *string `json:"contract"`
		Session  *string `json:"session"`
		Async    *bool   `json:"async"`
	}
	if err := strict(arguments, []string{"contract", "session", "async"}, &a); err != nil {
		return nil, err
	}
	if a.Contract == nil || strings.TrimSpace(*a.Contract) == "" {
		return nil, wire.New(wire.InvalidArgument, "contract is missing")
	}
	session := ""
	if a.Session != nil {
		if problem := ledger.SessionProblem(*a.Session); problem != "" {
			return nil, ledger.BadName(problem)
		}
		session = *a.Session
	}
	source, err := s.Find(*a.Contract)
	if err != nil {
		return nil, wire.New(wire.InvalidArgument, err.Error())
	}
	x, err := s.Runner.Run(ctx, contract.Request{Session: session, Name: source.Name, Text: source.Text, Root: source.Root})
	if err != nil {
		return nil, err
	}
	if a.Async != nil && *a.Async {
		return x.Handle()
	}
	return s.wait(ctx, c, x, progress)
}

// wait waits for a session on behalf of one call.
func (s *server) wait(ctx context.Context, c *call, x *contract.Execution, progress func(contract.Progress)) (any, error) {
	s.mu.Lock()
	c.execution = x
	gone := ctx.Err() != nil // cancelled before it had a session
	s.mu.Unlock()
	if gone {
		x.Cancel()
	}
	if progress != nil {
		relay(ctx, x, progress)
	}
	a, err := x.Wait(ctx)
	if errors.Is(err, contract.ErrInterrupted) {
		return s.Runner.Status(x.Session())
	}
	return a, err
}

// relay hands progress on until the session is over. The session does not wait
// for a client that does not read: what is too much is left out.
func relay(ctx context.Context, x *contract.Execution, progress func(contract.Progress)) {
	const most = 64
	notes := make(chan contract.Progress, most)
	x.Watch(func(p contract.Progress) {
		select {
		case notes <- p:
		default:
		}
	})
	for {
		select {
		case p := <-notes:
			progress(p)
			continue
		case <-ctx.Done():
			return
		case <-x.Done():
		}
		for len(notes) > 0 {
			progress(<-notes)
		}
		return
	}
}

// progress makes notifications for whoever sent a token (CON-6).
func (s *server) progress(token json.RawMessage, f framing) func(contract.Progress) {
	if token == nil {
		return nil
	}
	sent := 0 // progress has to grow with each
	return func(p contract.Progress) {
		sent++
		message := p.Step
		if p.Outcome != "" {
			message += ": " + p.Outcome
		}
		note := append([]byte(nil), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`...)
		note = append(note, token...)
		note = fmt.Appendf(note, `,"progress":%d,"total":%d,"message":`, sent, 2*p.Total)
		note = append(wire.AppendQuoted(note, message), `}}`...)
		s.out.put(f, note)
	}
}
