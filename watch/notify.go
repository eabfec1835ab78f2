package watch

import "github.com/fsnotify/fsnotify"

// Notifier tells of events in directories. Events and Errors are received by
// the goroutine of Serve only; both may be closed by the Notifier when it ends.
type Notifier interface {
	// Add watches the entries of a directory; adding one again is no error and
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
