package watch

import (
	"cmp"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"
)

// Item is one thing to watch: a file, or the files of a directory.
type Item struct {
	// Path is absolute. It need not exist, and may pass through symbolic links.
	Path string
	// Dir says that Path names a directory whose entries count: which there
	// are, and what each holds (through symbolic links, not into
	// subdirectories).
	Dir bool
	// Match chooses the entries of a Dir that count; nil chooses all. It is
	// called from several goroutines and must depend on nothing but the name.
	Match func(name string) bool
	// Known is what the caller has read of an item new to the set: path to
	// SHA-256 of the content, for a Dir the paths of its entries; paths of
	// other items do no harm. A difference from it is signalled, so an edit
	// between that read and the first one of the watcher is not lost. With nil
	// the first read of the watcher counts as known. For an item already in the
	// set it is not consulted.
	Known map[string][sha256.Size]byte
}

// Options are the times and helpers of a Watcher. A zero field has its default.
type Options struct {
	Settle  time.Duration // quiet time after the last event before a change counts; 50 ms
	Longest time.Duration // how long a burst of events that never quietens can hold a signal back; 500 ms
	Slow    time.Duration // between full reads whatever was notified; 30 s
	Poll    time.Duration // between full reads while notification is not to be had; 2 s

	Logger      *slog.Logger             // nil discards
	NewNotifier func() (Notifier, error) // nil is fsnotify
}

func (o Options) withDefaults() Options {
	o.Settle = cmp.Or(max(o.Settle, 0), 50*time.Millisecond)
	o.Longest = cmp.Or(max(o.Longest, 0), 500*time.Millisecond)
	o.Slow = cmp.Or(max(o.Slow, 0), 30*time.Second)
	o.Poll = cmp.Or(max(o.Poll, 0), 2*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.NewNotifier == nil {
		o.NewNotifier = newFsnotify
	}
	return o
}

// Mode is how a Watcher learns of changes, as "harness status" spells it.
type Mode string

// The modes. In Polling, at least one directory is not covered by
// notification; what is covered is still seen at once.
const (
	Inotify Mode = "inotify"
	Polling Mode = "polling"
)

// Watcher watches a set of items (HOT-1) and signals settled changes (HOT-2).
// Its methods may be called from any goroutine.
type Watcher struct {
	opt   Options
	dirty chan struct{} // capacity 1: full says dirty
	poke  chan struct{} // capacity 1: mu.targets or mu.settle were replaced

	// Of the goroutine of Serve, and kept when it is called again.
	settler settler
	reader  *reader
	remote  func(dir string) bool

	mu struct {
		sync.Mutex
		targets []*target // what is in them belongs to Serve
		settle  time.Duration
		mode    Mode
		seen    map[string][sha256.Size]byte
	}
}

// New makes a Watcher with an empty set. It starts nothing and opens nothing.
func New(opt Options) *Watcher {
	opt = opt.withDefaults()
	w := &Watcher{
		opt:     opt,
		dirty:   make(chan struct{}, 1),
		poke:    make(chan struct{}, 1),
		settler: settler{longest: opt.Longest, grace: goneGrace, items: map[id]*track{}},
		reader:  newReader(),
		remote:  remote,
	}
	w.mu.settle = opt.Settle
	w.mu.mode = Inotify
	return w
}

// String names the service to its supervisor.
func (w *Watcher) String() string { return "watch" }

// Set replaces the watched set. It keeps what is known of items that stay, and
// returns before anything was read. Nothing of items is kept but Match.
func (w *Watcher) Set(items []Item) {
	all := targets(items)
	w.mu.Lock()
	w.mu.targets = all
	w.mu.Unlock()
	raise(w.poke)
}

// SetSettle changes the quiet time, within 1 ms and Options.Longest.
func (w *Watcher) SetSettle(d time.Duration) {
	w.mu.Lock()
	same := w.mu.settle == d
	w.mu.settle = d
	w.mu.Unlock()
	if !same {
		raise(w.poke)
	}
}

// Dirty receives a signal when the content of some item differs from what was
// last signalled, or from what it was when it came into the set, has been quiet
// for the settle time and was read twice the same. Signals nobody has taken yet
// are one signal. Whoever takes one reads everything; a file whose digest then
// is not what Seen says is being written again, and another signal follows.
func (w *Watcher) Dirty() <-chan struct{} { return w.dirty }

// Seen returns the SHA-256 of the file the watcher last settled on, for an item
// or an entry of a directory item. ok is false for a file that is absent, not
// regular, unreadable, not read yet or not in the set, and for one larger than
// 16 MiB, which is not read whole.
func (w *Watcher) Seen(path string) (digest [sha256.Size]byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	digest, ok = w.mu.seen[path]
	return digest, ok
}

// Mode returns how changes are learned of now. Before Serve has looked for the
// first time it is Inotify.
func (w *Watcher) Mode() Mode {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.mode
}

// raise puts a flag up; a full channel has it up already.
func raise(flag chan<- struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}
