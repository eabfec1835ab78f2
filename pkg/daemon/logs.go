package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"harness/pkg/proc"
)

// followEvery is how often a followed log is looked at.
const followEvery = 100 * time.Millisecond

// calmWithin is how often the end of a log is read anew because something was
// appended meanwhile.
const calmWithin = 20

// logFile is a log that is rotated: what was <path> becomes <path>.1, what was
// that becomes <path>.2, and so on.
type logFile struct{ path string }

// name is the path of the i-th file, 0 being the current one.
func (l logFile) name(i int) string {
	if i == 0 {
		return l.path
	}
	return fmt.Sprintf("%s.%d", l.path, i)
}

// tail writes the last n lines, all that is kept for 0. A log that was never
// written to has none.
func (l logFile) tail(w io.Writer, n int) error {
	if n == 0 {
		return l.all(w)
	}
	lines, err := proc.Tail(l.path, n)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			return fmt.Errorf("show the log: %w", err)
		}
	}
	return nil
}

// all writes everything that is kept, oldest first. The files are opened from
// the current one on, so that none is missed for being rotated meanwhile; one
// that was opened under its name before comes again under the next.
func (l logFile) all(w io.Writer) error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for i, missing := 0, 0; missing < 2; i++ { // while the log is rotated one name is missing
		f, err := openIfThere(l.name(i))
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		missing++
		if f == nil {
			continue
		}
		missing = 0
		if n := len(files); n > 0 && l.is(files[n-1], i) {
			f.Close()
			continue
		}
		files = append(files, f)
	}
	for _, f := range slices.Backward(files) {
		if _, err := io.Copy(w, f); err != nil {
			return fmt.Errorf("show the log: %w", err)
		}
	}
	return nil
}

// follow writes the last n lines, and then what is appended, across rotation,
// until ctx ends or nobody reads any more.
func (l logFile) follow(ctx context.Context, w io.Writer, n int) error {
	f, err := l.begin(w, n)
	defer func() { f.Close() }() // of the file it is by then; to close none is no harm
	if err != nil {
		return err
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		next, err := l.catchUp(w, f)
		if err != nil {
			return fmt.Errorf("follow the log: %w", err)
		}
		if next != f {
			f.Close()
			f = next
			continue // there may be more files by now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// begin writes the last n lines and returns the current file, open where they
// end; nil where there is none yet. It reads again when something was appended
// meanwhile, so that nothing is shown twice or left out.
func (l logFile) begin(w io.Writer, n int) (*os.File, error) {
	for tries := 1; ; tries++ {
		f, end, err := openEnd(l.path)
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		var text bytes.Buffer
		if err := l.tail(&text, n); err != nil {
			return f, err
		}
		if tries == calmWithin || l.endsAt(f, end) {
			_, err := text.WriteTo(w)
			return f, err
		}
		f.Close()
	}
}

// openEnd opens a log at its end; nil where there is none.
func openEnd(path string) (f *os.File, end int64, err error) {
	f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	end, err = f.Seek(0, io.SeekEnd)
	return f, end, err
}

// endsAt reports whether f is still the current file and ends there.
func (l logFile) endsAt(f *os.File, end int64) bool {
	now, err := os.Stat(l.path)
	if f == nil || err != nil {
		return f == nil && errors.Is(err, fs.ErrNotExist)
	}
	return l.is(f, 0) && now.Size() == end
}

// is reports whether f is the i-th file.
func (l logFile) is(f *os.File, i int) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.name(i))
	return err == nil && os.SameFile(mine, there)
}

// index is which file f is by now. One that was removed counts as the one
// before the current: what may lie between is not worth a guess. While the log
// is rotated one name is missing, so it takes two to end the search.
func (l logFile) index(f *os.File) int {
	for i, missing := 0, 0; missing < 2; i++ {
		if l.is(f, i) {
			return i
		}
		missing++
		if _, err := os.Stat(l.name(i)); err == nil {
			missing = 0
		}
	}
	return 1
}

// catchUp writes what was appended to f and returns the file to go on with: f,
// or the one that was begun after it.
func (l logFile) catchUp(w io.Writer, f *os.File) (*os.File, error) {
	if f == nil {
		return openIfThere(l.path)
	}
	i := l.index(f) // first: to one that was rotated nothing is appended
	if err := copyRest(w, f); err != nil {
		return f, err
	}
	for i > 0 {
		next, err := openIfThere(l.name(i - 1))
		if now := l.index(f); now != i { // rotated again meanwhile
			next.Close()
			i = now
			continue
		}
		if next != nil || err != nil {
			return next, err
		}
		i-- // being rotated, or gone
	}
	return f, nil
}

func openIfThere(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// copyRest writes what f has beyond where it was read to; one that was cut is
// read from its start.
func copyRest(w io.Writer, f *os.File) error {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < at {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	_, err = io.Copy(w, f)
	return err
}
