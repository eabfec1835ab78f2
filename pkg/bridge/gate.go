package bridge

import (
	"io"
	"os"
	"sync"
	"time"

	"harness/pkg/handover"
)

// gateLimit is how long the reader of the agent's input may take to stand
// still: it may be at work on an agent that does not read.
const gateLimit = 250 * time.Millisecond

// gate stops the goroutine that reads the agent's input between two reads, so
// that somebody else can read.
type gate struct {
	ends *handover.Ends
	over <-chan struct{} // the bridge ends

	mu     sync.Mutex
	wanted bool          // the reader is to stand still
	stands chan struct{} // capacity 1: it does
	rest   []byte        // what it read and did not act on, while it stands
	on     chan []byte   // what it goes on with
	handed bool          // somebody else may still have the descriptors
}

// newGate returns nil where the descriptors are not of a kind that can be handed
// over.
func newGate(in io.Reader, out io.Writer) *gate {
	stdin, ok1 := in.(*os.File)
	stdout, ok2 := out.(*os.File)
	if !ok1 || !ok2 {
		return nil
	}
	ends, err := handover.Dup(stdin, stdout, os.Stderr)
	if err != nil {
		return nil
	}
	return &gate{ends: ends, stands: make(chan struct{}, 1), on: make(chan []byte)}
}

// shut makes the reader stand still, and reports whether it does.
func (g *gate) shut() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	g.wanted = true
	g.mu.Unlock()
	if g.ends.In.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	limit := time.NewTimer(gateLimit)
	defer limit.Stop()
	select {
	case <-g.stands:
		return true
	case <-limit.C:
	case <-g.over:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted = false
	_ = g.ends.In.SetReadDeadline(time.Time{})
	select {
	case <-g.stands: // just now
		return true
	default:
		return false
	}
}

// open has the reader go on with what it has not acted on, and then with what
// the agent sends.
func (g *gate) open() {
	g.mu.Lock()
	rest := g.rest
	g.rest, g.wanted = nil, false
	g.mu.Unlock()
	_ = g.ends.In.SetReadDeadline(time.Time{})
	select {
	case g.on <- rest:
	case <-g.over:
	}
}

// stand is the reader's part: it stands still for as long as it is wanted to. It
// reports false when the bridge ends.
func (b *bridge) stand() bool {
	g, rest := b.gate, b.edge.Rest()
	g.mu.Lock()
	wanted := g.wanted
	if wanted {
		g.rest = rest
		g.stands <- struct{}{}
	}
	g.mu.Unlock()
	if wanted {
		select {
		case rest = <-g.on:
		case <-g.over:
			return false
		}
	}
	b.edge.Begin(rest)
	return true
}

// close lets go of the descriptors, as they were found unless somebody else has
// them.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ends.Close(!g.handed)
}
