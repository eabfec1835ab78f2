package watch

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	goneGrace   = 300 * time.Millisecond // no atomic save leaves a file absent for that long
	surveys     = 4                      // tries to survey a tree that changes meanwhile
	leastSettle = time.Millisecond
)

// server is one run of Serve; everything in it belongs to that goroutine.
type server struct {
	*Watcher
	guard   guard
	targets []*target
	posts   posts // what is watched, by the last look

	gap      error     // why notification alone will not do; nil while it does
	overrun  error     // events were lost since the last slow poll
	spare    bool      // a broken notifier may be replaced at once, not yet done since the last slow poll
	nextSlow time.Time // next full read
	nextPoll time.Time // next one of those in between, while polling
}

// Serve watches until ctx ends and returns its error. It is the one goroutine
// that reads, and a read that hangs (a network file system) delays its end. It
// may be called again after it returned, not beside itself; what is settled is
// kept.
func (w *Watcher) Serve(ctx context.Context) error {
	now := time.Now()
	s := &server{Watcher: w, spare: true, nextSlow: now.Add(w.opt.Slow)}
	s.guard = guard{open: w.opt.NewNotifier, remote: w.remote}
	s.guard.start()
	defer func() { s.guard.stop(nil) }()
	select {
	case <-w.poke: // of a Set before: adopted now
	default:
	}
	s.adopt(now)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(s.due()))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.poke:
			s.adopt(time.Now())
		case ev, ok := <-s.guard.events():
			s.event(ev, ok)
		case err, ok := <-s.guard.errors():
			if !ok {
				err = errClosed
			}
			s.fault(err)
		case <-timer.C:
			s.tick(time.Now())
		}
	}
}

// due returns when something is to be done next.
func (s *server) due() time.Time {
	at := earliest(s.nextSlow, s.settler.due())
	if s.polling() {
		at = earliest(at, s.nextPoll)
	}
	return at
}

// adopt takes over what Set and SetSettle left.
func (s *server) adopt(now time.Time) {
	s.mu.Lock()
	all, settle := s.mu.targets, s.mu.settle
	s.mu.Unlock()
	s.targets = all
	s.settler.settle = min(max(settle, leastSettle), s.settler.longest)
	s.look(now, false)
}

// event takes in one event of the notifier.
func (s *server) event(ev fsnotify.Event, ok bool) {
	switch now := time.Now(); {
	case !ok:
		s.fault(errClosed)
	case s.posts.decides(ev.Name):
		s.settler.event(now)
	default:
		s.settler.noise(now)
	}
}

var errClosed = errors.New("the notifier ended")

// fault takes in an error of the notifier. Events may have been lost whatever
// it says, so everything is read at once. A notifier that only overran its
// queue is kept; any other is replaced, at most once between two slow polls:
// one that is broken for good must not keep the watcher busy.
func (s *server) fault(err error) {
	s.overrun = err
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		s.guard.stop(err)
		if s.spare {
			s.spare = false
			s.guard.start()
		}
	}
	s.look(time.Now(), true)
}

// tick does what is due: the look the settler wants, a poll, or the slow poll,
// which also tries again to get a notifier.
func (s *server) tick(now time.Time) {
	deep := false
	if !now.Before(s.nextSlow) {
		deep = true
		s.nextSlow = now.Add(s.opt.Slow)
		s.overrun, s.spare = nil, true
		s.guard.start()
	}
	if s.polling() && !now.Before(s.nextPoll) {
		deep = true
		s.nextPoll = now.Add(s.opt.Poll)
	}
	s.look(now, deep)
}

func (s *server) polling() bool { return s.gap != nil || s.overrun != nil }

// look reads everything, after it has made sure that what changes from then on
// is notified. deep reads also the files whose identity says they are the same.
func (s *server) look(now time.Time, deep bool) {
	was := s.polling()
	s.watch()
	if deep || !was {
		s.nextPoll = now.Add(s.opt.Poll)
	}
	edition := s.settler.edition
	signal := s.settler.observe(now, s.reader.views(s.targets, now, deep))
	if s.settler.edition != edition {
		s.show(s.settler.contents())
	}
	s.report()
	if signal {
		raise(s.dirty)
	}
}

// watch brings the notifier in step with where the items lead now.
func (s *server) watch() {
	for range surveys {
		s.posts = survey(s.targets)
		again, gap := s.guard.arm(s.posts)
		if s.gap = gap; !again {
			return
		}
	}
}

// show makes what is settled visible to Seen.
func (s *server) show(contents map[string][sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.seen = contents
}

// report makes the mode visible, and logs when it changes.
func (s *server) report() {
	mode := Inotify
	if s.polling() {
		mode = Polling
	}
	s.mu.Lock()
	was := s.mu.mode
	s.mu.mode = mode
	s.mu.Unlock()
	switch {
	case mode == was:
	case mode == Polling:
		s.opt.Logger.Warn("watching files by polling", "interval", s.opt.Poll, "reason", errors.Join(s.gap, s.overrun))
	default:
		s.opt.Logger.Info("watching files by notification again")
	}
}
