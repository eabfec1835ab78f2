package proc

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"
)

// The pace of Reap, which the start of the daemon waits for.
const (
	reapGrace    = time.Second     // from SIGTERM to SIGKILL
	reapPatience = 4 * time.Second // from SIGTERM to giving up
	reapPoll     = 10 * time.Millisecond
)

// Reap ends what a predecessor that was killed left behind, as far as it is
// provably that, and says how many processes that were (LIF-4). It is called
// before the first Start and takes at most 5 s. It is an error if the
// predecessor is still alive, in which case nothing was touched, or if
// something does not end; the record keeps it then.
func (h *Host) Reap(ctx context.Context) (killed int, err error) {
	h.mu.Lock()
	left := slices.Clone(h.former.Groups)
	h.mu.Unlock()
	if len(left) == 0 {
		return 0, nil
	}
	killed, err = end(ctx, left, h.record.path, h.self.PID)
	if err != nil {
		return killed, err
	}
	h.mu.Lock()
	h.former = record{}
	h.mu.Unlock()
	h.commit()
	return killed, nil
}

// end ends what is left of recorded groups, in the process self.
func end(ctx context.Context, left []leftover, path string, self int) (killed int, err error) {
	table, err := readTable()
	if err != nil {
		return 0, fmt.Errorf("read the process table: %w", err)
	}
	if alive := owners(left, table); len(alive) > 0 {
		return 0, fmt.Errorf("process groups recorded in %q belong to process %d, which is running", path, alive[0].PID)
	}
	r := reaper{left: left, self: self, signalled: make(map[ident]bool)}
	err = r.run(ctx)
	return len(r.signalled), err
}

// ReapDir does what [Host.Reap] does for the record in dir, whose Host nobody
// has opened and whose process is dead, and forgets the record.
func ReapDir(ctx context.Context, dir string, log *slog.Logger) (killed int, err error) {
	self, err := readEntry(os.Getpid())
	if err != nil {
		return 0, fmt.Errorf("read the process table: %w", err)
	}
	k := newKeeper(dir)
	left := k.load(log).Groups
	if len(left) == 0 {
		return 0, nil
	}
	h := &Host{record: k, self: self, former: record{Groups: left}, log: log, written: make(map[ident]bool)}
	return h.Reap(ctx)
}

// EndDir is [ReapDir] for whoever does not own dir: the record is left as it is,
// so it does no harm where somebody else takes dir over meanwhile.
func EndDir(ctx context.Context, dir string, log *slog.Logger) (killed int, err error) {
	k := newKeeper(dir)
	left := k.load(log).Groups
	if len(left) == 0 {
		return 0, nil
	}
	return end(ctx, left, k.path, os.Getpid())
}

type reaper struct {
	left      []leftover
	self      int
	signalled map[ident]bool
}

// run signals what is proven until nothing is.
func (r *reaper) run(ctx context.Context) error {
	for began := time.Now(); ; {
		table, err := readTable()
		if err != nil {
			return fmt.Errorf("read the process table: %w", err)
		}
		alive := prove(r.left, table, r.self, readPipes)
		if len(alive) == 0 {
			return nil
		}
		age := time.Since(began)
		if age > reapPatience {
			return fmt.Errorf("%d processes of the former daemon survive SIGKILL, the first is %d", len(alive), alive[0].PID)
		}
		r.signal(alive, age)
		select {
		case <-ctx.Done():
			return fmt.Errorf("end processes of the former daemon: %w", context.Cause(ctx))
		case <-time.After(reapPoll):
		}
	}
}

// signal is polite at first, and once to each.
func (r *reaper) signal(alive []ident, age time.Duration) {
	for _, id := range alive {
		switch {
		case age >= reapGrace:
			signalProcess(id, syscall.SIGKILL)
		case !r.signalled[id]:
			signalProcess(id, syscall.SIGTERM)
		}
		if !r.signalled[id] {
			r.signalled[id] = true
			// What was proven stays so, also when its proof is dead.
			r.left[0].Members = append(r.left[0].Members, id)
		}
	}
}
