package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"harness/pkg/broker"
	"harness/pkg/evidence"
)

// heraldPace is the least time between two words about the state: what changes
// in between is told of once.
const heraldPace = 100 * time.Millisecond

// herald tells sessions that what they are subscribed to is not as it was. It is
// told that something may have changed, and looks itself whether it has.
type herald struct {
	state   func() any
	updated func(uri string)
	wake    chan struct{} // capacity 1

	mu   sync.Mutex
	runs map[string]bool // those that are not as they were
}

func newHerald() *herald { return &herald{wake: make(chan struct{}, 1), runs: map[string]bool{}} }

// String names the service in the supervisor's log.
func (h *herald) String() string { return "resource updates" }

// stir says that the state may have changed. It never blocks.
func (h *herald) stir() {
	select {
	case h.wake <- struct{}{}:
	default: // it knows
	}
}

// ran says that a run is not as it was. It never blocks for long.
func (h *herald) ran(id string) {
	h.mu.Lock()
	h.runs[id] = true
	h.mu.Unlock()
	h.stir()
}

// Serve tells until ctx ends.
func (h *herald) Serve(ctx context.Context) error {
	last := ""
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.wake:
		}
		h.mu.Lock()
		runs := slices.Sorted(maps.Keys(h.runs))
		clear(h.runs)
		h.mu.Unlock()
		for _, id := range runs {
			h.updated(broker.OwnScheme + "runs/" + id + "/status")
		}
		if data, err := evidence.Canonical(h.state()); err == nil && string(data) != last {
			last = string(data)
			h.updated(broker.OwnScheme + "state")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(heraldPace):
		}
	}
}
