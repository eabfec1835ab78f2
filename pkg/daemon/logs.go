package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"harness/pkg/proc"
)

// tail writes the last n lines of a rotated log, all of them for 0.
func tail(w io.Writer, path string, n int) error {
	if n == 0 {
		n = math.MaxInt32
	}
	lines, err := proc.Tail(path, n)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	for _, line := range lines {
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// followEvery is how often a followed log is looked at.
const followEvery = 100 * time.Millisecond

// follow writes what is appended to a log from now on, across rotation, until
// ctx ends or nobody reads any more.
func follow(ctx context.Context, w io.Writer, path string) error {
	f, err := openEnd(path)
	if err != nil {
		return err
	}
	defer func() { closeFile(f) }()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		if f != nil {
			if _, err := io.Copy(w, f); err != nil {
				return fmt.Errorf("follow the log: %w", err)
			}
		}
		if next := successor(f, path); next != nil {
			// What was written between the last look and the rotation.
			if f != nil {
				if _, err := io.Copy(w, f); err != nil {
					return fmt.Errorf("follow the log: %w", err)
				}
			}
			closeFile(f)
			f = next
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// openEnd opens a log at its end; nil where there is none yet.
func openEnd(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		f.Close()
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return f, nil
}

// successor opens the file at path if it is another one than f.
func successor(f *os.File, path string) *os.File {
	now, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if f != nil {
		if old, err := f.Stat(); err != nil || os.SameFile(old, now) {
			return nil
		}
	}
	next, err := os.Open(path)
	if err != nil {
		return nil
	}
	return next
}

func closeFile(f *os.File) {
	if f != nil {
		f.Close()
	}
}
