package control

import "sync"

// KindLagged is the kind of the last event of a reader that was too slow.
const KindLagged = "lagged"

// backlog is how many events one reader may be behind before it is dropped.
const backlog = 512

// Hub carries events from whoever publishes them to every reader of GET
// /v1/events. Each reader gets every event published since it subscribed, in
// order, until it is too slow: then it is cut off and told so, and nobody else
// notices. The zero value is ready to use.
type Hub struct {
	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// Subscription is one reader's queue. Events is closed when the reader was too
// slow ([Subscription.Lagged]) or has called [Subscription.Close].
type Subscription struct {
	Events <-chan Event

	hub    *Hub
	queue  chan Event
	lagged bool // guarded by hub.mu
}

// Publish hands an event to every reader. It never blocks.
func (h *Hub) Publish(event Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		select {
		case sub.queue <- event:
		default:
			sub.lagged = true
			h.dropLocked(sub)
		}
	}
}

// Subscribe adds a reader. The caller must close the subscription.
func (h *Hub) Subscribe() *Subscription {
	queue := make(chan Event, backlog)
	sub := &Subscription{Events: queue, hub: h, queue: queue}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[*Subscription]struct{})
	}
	h.subs[sub] = struct{}{}
	return sub
}

// Close ends a subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.dropLocked(s)
}

// Lagged reports whether the reader was cut off because it was too slow.
func (s *Subscription) Lagged() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.lagged
}

// dropLocked removes a reader and closes its queue, once.
func (h *Hub) dropLocked(sub *Subscription) {
	if _, there := h.subs[sub]; there {
		delete(h.subs, sub)
		close(sub.queue)
	}
}
