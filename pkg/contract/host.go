package contract

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gofrs/flock"

	"harness/pkg/proc"
)

// HostsDir is where processes that run steps have their records, within the state
// directory.
const HostsDir = "contracts"

// maxHosts bounds how many processes of one user run contracts at a time.
const maxHosts = 1000

// OpenHost makes this process one that runs steps: with a record of them of its
// own below dir, by which whoever comes after a crash finds what is left. What
// dead ones left is ended first. close ends everything and lets go of the record.
func OpenHost(ctx context.Context, dir string, log *slog.Logger) (host *proc.Host, closeHost func(), err error) {
	ReapHosts(ctx, dir, log)
	for i := range maxHosts {
		slot := filepath.Join(dir, strconv.Itoa(i))
		lock, err := lockSlot(slot)
		if err != nil {
			return nil, nil, err
		}
		if lock == nil {
			continue
		}
		host, err := proc.NewHost(slot, log)
		if err != nil {
			return nil, nil, errors.Join(err, lock.Close())
		}
		return host, func() {
			host.Close()
			_ = lock.Close() // the kernel does it at the end of the process
		}, nil
	}
	return nil, nil, fmt.Errorf("more than %d processes run contracts", maxHosts)
}

// IsStep reports whether a process is one of a step's, or descends from one: of
// host's, or of those that other processes run with a record below dir. line is the
// process, with the clock tick of its start, and then its ancestors.
func IsStep(host *proc.Host, dir string, line iter.Seq2[int, uint64]) bool {
	var records []proc.Record
	slots, _ := os.ReadDir(dir) // where there is none, nobody else runs any
	for _, d := range slots {
		if r := proc.ReadRecord(filepath.Join(dir, d.Name())); !r.IsEmpty() {
			records = append(records, r)
		}
	}
	if len(records) == 0 && !host.Runs(stepName) {
		return false // as nearly always, and nobody's ancestors have to be read
	}
	self := true
	for pid, start := range line {
		if host.Holds(stepName, pid, start) || slices.ContainsFunc(records, func(r proc.Record) bool {
			// What lost its parents is a child of the process that runs the steps.
			return r.Holds(pid, start) || !self && r.Owns(pid, start)
		}) {
			return true
		}
		self = false
	}
	return false
}

// stepName begins the name of each process group that is a step.
const stepName = "contract."

// lockSlot returns nil where another process has the slot.
func lockSlot(slot string) (*flock.Flock, error) {
	if err := os.MkdirAll(slot, 0o700); err != nil {
		return nil, fmt.Errorf("make a state directory: %w", err)
	}
	lock := flock.New(filepath.Join(slot, "lock"), flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock a state directory: %w", err)
	case !got:
		return nil, nil
	}
	return lock, nil
}

// ReapHosts ends what dead processes left of their steps. What cannot be ended
// is logged, and tried again the next time.
func ReapHosts(ctx context.Context, dir string, log *slog.Logger) {
	slots, err := os.ReadDir(dir)
	if err != nil {
		return // none was ever used
	}
	for _, d := range slots {
		slot := filepath.Join(dir, d.Name())
		lock, err := lockSlot(slot)
		if err != nil || lock == nil {
			continue
		}
		if n, err := proc.ReapDir(ctx, slot, log); err != nil {
			log.Warn("left-over processes of a contract not ended", "error", err)
		} else if n > 0 {
			log.Info("left-over processes of a contract ended", "processes", n)
		}
		_ = lock.Close()
	}
}
