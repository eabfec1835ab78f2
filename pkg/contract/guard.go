package contract

import (
	"context"
	"io"
	"log/slog"
	"time"

	"harness/pkg/proc"
)

// How long a guard tries to end what a dead process left, and how often. The
// kernel closes the files of a process before that is dead.
const (
	guardPatience = 10 * time.Second
	guardPoll     = 10 * time.Millisecond
)

// Guard reads from life, whose other end the process that runs steps holds, until
// that is gone, and then ends what is left of its steps. dir is where the host of
// that process keeps its record. It gives up when ctx ends.
func Guard(ctx context.Context, dir string, life io.Reader, log *slog.Logger) error {
	if _, err := io.Copy(io.Discard, life); err != nil {
		return err
	}
	for deadline := time.Now().Add(guardPatience); ; {
		_, err := proc.EndDir(ctx, dir, log)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(guardPoll):
		}
	}
}
