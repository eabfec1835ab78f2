package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Notifier tells of events in directories. Events and Errors are received by
// the goroutine of Serve only; a Notifier that ends may close them.
type Notifier interface {
	// Add watches the entries of a directory. Adding one again is no error and
	// covers whatever directory the path names now.
	Add(dir string) error
	Remove(dir string) error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
	Close() error
}

// newFsnotify opens the notifier of the system.
func newFsnotify() (Notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return inotify{w}, nil
}

// inotify is fsnotify behind the Notifier interface.
type inotify struct{ *fsnotify.Watcher }

var _ Notifier = inotify{}

func (n inotify) Events() <-chan fsnotify.Event { return n.Watcher.Events }
func (n inotify) Errors() <-chan error          { return n.Watcher.Errors }

// guard keeps a notifier in step with a watch set.
type guard struct {
	open   func() (Notifier, error)
	remote func(dir string) bool

	notifier Notifier // nil: not to be had
	why      error    // why it is not
	held     map[string]bool
}

var errRemote = errors.New("others can change the file system unnoticed")

// start opens a notifier where there is none.
func (g *guard) start() {
	if g.notifier != nil {
		return
	}
	g.held = map[string]bool{}
	g.notifier, g.why = g.open()
	if g.why != nil {
		g.notifier = nil
		g.why = fmt.Errorf("open the notifier: %w", g.why)
	}
}

// stop closes the notifier; why is what Serve reports until the next start.
func (g *guard) stop(why error) {
	if g.notifier != nil {
		_ = g.notifier.Close() // nothing is left to be lost
	}
	g.notifier, g.why = nil, why
}

// events and errors are nil, so never ready, while there is no notifier.
func (g *guard) events() <-chan fsnotify.Event {
	if g.notifier == nil {
		return nil
	}
	return g.notifier.Events()
}

func (g *guard) errors() <-chan error {
	if g.notifier == nil {
		return nil
	}
	return g.notifier.Errors()
}

// arm makes the notifier watch the set: first what is no longer wanted goes,
// because two paths of one directory share a watch, then everything is added,
// because a directory that was replaced has lost its. again reports that the
// set grew, or that a directory went away in between: what the set was computed
// from may have changed unseen. gap is a reason why polling is needed.
func (g *guard) arm(set posts) (again bool, gap error) {
	if g.notifier == nil {
		return false, g.why
	}
	for dir := range g.held {
		if set[dir] == nil {
			_ = g.notifier.Remove(dir) // it may be gone by itself
			delete(g.held, dir)
		}
	}
	for dir, p := range set {
		switch err := g.notifier.Add(dir); {
		case err == nil:
			again = again || !g.held[dir]
			g.held[dir] = true
			if g.remote(dir) {
				gap = fmt.Errorf("watch %q: %w", dir, errRemote)
			}
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			again = true
			gap = fmt.Errorf("watch %q: %w", dir, err)
		case errors.Is(err, fs.ErrPermission) && !p.vital:
			// The directory above tells of replacements only; the slow poll does too.
		default:
			gap = fmt.Errorf("watch %q: %w", dir, err)
		}
	}
	return again, gap
}
