package proc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

// ErrClosed is what Start returns after Close.
var ErrClosed = errors.New("process host is closed")

// Host starts processes and knows all that are left of them. Orphans, zombies
// and the record belong to a process as a whole, so a program has one Host.
//
// Whatever else in this process starts children must leave them in the
// session of this process (no Setsid): that is how a Host knows that they, and
// their zombies, are not its own.
type Host struct {
	log     *slog.Logger
	spawner *spawner
	record  *keeper
	self    entry

	looks  shared
	wake   chan struct{} // capacity 1: something was started, look soon
	stop   chan struct{}
	idle   sync.WaitGroup
	closed sync.Once
	users  func() userMaps // of confined children

	gate    sync.RWMutex // held for reading by Start; closing is set under it
	closing bool

	mu      sync.Mutex
	procs   []*Proc          // in the order of their start
	strays  map[ident]*stray // orphans of unknown origin
	forking int              // Starts between their fork and their entry in procs
	looking bool             // a process table is being read, and taken in
	unborn  map[int]leftover // confined children that are about to run, until they are in procs
	since   uint64           // start of the first process ever started here
	room    int              // bytes that pipes may still be enlarged by
	written map[ident]bool   // the processes in the record on disk
	stale   bool             // the record on disk lacks somebody
	former  record           // what a predecessor left, until Reap has ended it
}

// NewHost makes a Host that keeps its record in dir, the state directory,
// which must exist. It makes this process the reaper of its orphaned
// descendants, for the rest of its life.
func NewHost(dir string, log *slog.Logger) (*Host, error) {
	self, err := readEntry(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	if err := prepareProcess(); err != nil {
		return nil, err
	}
	h := &Host{
		log:     cmp.Or(log, slog.New(slog.DiscardHandler)),
		spawner: newSpawner(),
		self:    self,
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		strays:  make(map[ident]*stray),
		room:    pipeRoom,
		written: make(map[ident]bool),
		unborn:  make(map[int]leftover),
		users:   sync.OnceValue(readUserMaps),
	}
	h.record = newKeeper(dir)
	h.former = h.record.load(h.log)
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	h.idle.Go(func() {
		defer signal.Stop(deaths)
		h.watch(deaths)
	})
	return h, nil
}

// Dir is where the record is.
func (h *Host) Dir() string { return filepath.Dir(h.record.path) }

// Start starts spec in a session of its own and returns once it is in the
// record. The error names the command and says what is wrong with it; no value
// of the environment is in it.
func (h *Host) Start(spec Spec) (*Proc, error) {
	h.gate.RLock()
	defer h.gate.RUnlock()
	if h.closing {
		return nil, fmt.Errorf("start %q: %w", spec.Path, ErrClosed)
	}
	pipes, err := openFor(spec)
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", spec.Path, err)
	}
	p, err := h.launch(spec, pipes)
	if err != nil {
		pipes.close()
		h.poke() // looks left to the next one what it may have been
		return nil, fmt.Errorf("start %q: %w", spec.Path, err)
	}
	go p.await()
	if !h.isWritten(p) {
		h.commit()
	}
	h.poke()
	return p, nil
}

// expect has a child in the record that is about to run its program.
func (h *Host) expect(spec Spec, pipes *pipes, pid int) {
	e, err := readEntry(pid)
	if err != nil {
		return // it is dead, and nothing will come of it
	}
	h.mu.Lock()
	h.unborn[pid] = leftover{Name: spec.Name, ident: e.ident, Owner: h.self.ident, Pipes: onlyPipes(pipes.inodes[:])}
	h.mu.Unlock()
	h.commit()
}

func (h *Host) isWritten(p *Proc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.written[p.group.leader]
}

// launch forks and enters the child into procs.
func (h *Host) launch(spec Spec, pipes *pipes) (*Proc, error) {
	h.mu.Lock()
	h.forking++
	h.mu.Unlock()
	child, leader, err := h.fork(spec, pipes)

	h.mu.Lock()
	defer h.mu.Unlock()
	h.forking--
	if err != nil {
		return nil, err
	}
	delete(h.unborn, child.pid)
	pipes.handOver()
	p := &Proc{
		Stdin: pipes.ours[0], Stdout: pipes.ours[1], Stderr: pipes.ours[2], TTY: pipes.tty,
		host: h, child: child,
		exited: make(chan struct{}), looked: make(chan struct{}), gone: make(chan struct{}),
		group: group{name: spec.Name, leader: leader, pipes: pipes.inodes, members: make(map[ident]member)},
	}
	if p.TTY == nil {
		p.room = pipes.widen(h.room)
		h.room -= p.room
	}
	h.procs = append(h.procs, p)
	h.since = cmp.Or(h.since, leader.Start)
	return p, nil
}

func (h *Host) fork(spec Spec, pipes *pipes) (c child, leader ident, err error) {
	argv := append([]string{cmp.Or(spec.Argv0, spec.Path)}, spec.Args...)
	var born int
	m := maternity{h.users, func(pid int) { born = pid; h.expect(spec, pipes, pid) }}
	h.spawner.do(func() { c, err = fork(spec, argv, pipes.files(), m) })
	defer func() {
		if err != nil {
			h.mu.Lock()
			delete(h.unborn, born)
			h.mu.Unlock()
		}
	}()
	if err != nil {
		if _, confining := errors.AsType[*Unconfined](err); confining {
			return child{}, ident{}, err
		}
		return child{}, ident{}, explain(spec, err)
	}
	e, err := readEntry(c.pid) // alive or a zombie, it is there until reaped
	if err != nil {
		signalGroup(c.pid, syscall.SIGKILL)
		c.wait()
		c.reap()
		return child{}, ident{}, fmt.Errorf("read the process table: %w", err)
	}
	return c, e.ident, nil
}

// Close ends everything that is left, at once, orphans of unknown origin
// included, and waits for it. Start fails from then on.
func (h *Host) Close() {
	h.closed.Do(func() {
		h.gate.Lock()
		h.closing = true
		h.gate.Unlock()
		var kills sync.WaitGroup
		for _, p := range h.live() {
			kills.Go(p.Kill)
		}
		kills.Wait()
		h.endStrays()
		close(h.stop)
		h.idle.Wait()
		h.commit()
		h.spawner.close()
	})
}

// live returns the groups that are not gone.
func (h *Host) live() []*Proc {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*Proc(nil), h.procs...)
}

// left lists the processes of p that are left.
func (h *Host) left(p *Proc) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	pids := make([]int, 0, len(p.group.members)+1)
	if !p.group.exited {
		pids = append(pids, p.PID())
	}
	for id := range p.group.members {
		pids = append(pids, id.PID)
	}
	return pids
}
