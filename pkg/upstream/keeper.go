package upstream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"harness/pkg/config"
)

// keeper writes kept lists to disk on a goroutine of its own: a sync takes as
// long as the disk likes, and nobody should wait for it. Of several lists of
// one upstream the last wins.
type keeper struct {
	store manifests
	log   *slog.Logger
	wake  chan struct{} // capacity 1

	mu      sync.Mutex
	pending map[string]save
}

func newKeeper(store manifests, log *slog.Logger) *keeper {
	return &keeper{store: store, log: log, wake: make(chan struct{}, 1), pending: map[string]save{}}
}

// String names the keeper's service.
func (k *keeper) String() string { return "kept lists" }

// put has o kept as the offer of l.
func (k *keeper) put(l config.Launch, o *Offer) {
	k.mu.Lock()
	k.pending[l.Key] = save{l, o}
	k.mu.Unlock()
	notify(k.wake)
}

// Serve writes until ctx ends. What is put at the very end is left to flush.
func (k *keeper) Serve(ctx context.Context) error {
	for {
		k.flush()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.wake:
		}
	}
}

// flush writes what is pending.
func (k *keeper) flush() {
	k.mu.Lock()
	pending := k.pending
	k.pending = map[string]save{}
	k.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(pending)) {
		s := pending[key]
		if err := k.store.store(s.launch, s.offer); err != nil {
			k.log.Warn("the list of an upstream is not kept", "upstream", key, "error", err)
		}
	}
}
