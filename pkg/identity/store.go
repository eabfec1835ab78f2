package identity

import (
	"crypto/sha256"
	"sync"
)

// Process names one process for good: a number, and when it was started, in
// clock ticks since boot.
type Process struct {
	PID   int
	Start uint64
}

// Claim is what is known of the other end of a connection: the token it
// presented, hashed, and the processes it descends from, itself first.
type Claim struct {
	token [sha256.Size]byte
	line  []Process
}

// NewClaim returns the claim of a peer that presented token, which may be
// empty. line is shared and must not be written to.
func NewClaim(token string, line []Process) Claim {
	c := Claim{line: line}
	if token != "" {
		c.token = digest(token)
	}
	return c
}

// Owner is a live spawn of a harness.
type Owner struct {
	Name  string // the harness's full name
	RunID string
}

// Store knows the live spawns. The zero value is ready to use, by any number of
// goroutines.
type Store struct {
	mu      sync.RWMutex
	tokens  map[[sha256.Size]byte]*Badge
	process map[Process]*Badge
}

// Badge is the identity of one spawn, from before it exists until it has ended.
type Badge struct {
	store   *Store
	owner   Owner
	token   Token
	process Process // guarded by store.mu; zero until Bind
}

// Begin makes the badge of a spawn that is about to be (WHO-1).
func (s *Store) Begin(name, runID string) *Badge {
	b := &Badge{store: s, owner: Owner{name, runID}, token: Mint()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens, s.process = map[[sha256.Size]byte]*Badge{}, map[Process]*Badge{}
	}
	s.tokens[digest(b.token.Reveal())] = b
	return b
}

// Token returns the secret of the spawn.
func (b *Badge) Token() Token { return b.token }

// Bind says which process the spawn has become. Its descendants are the
// harness's from now on, also without a token.
func (b *Badge) Bind(p Process) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	if b.store.tokens[digest(b.token.Reveal())] != b {
		return // it has ended meanwhile
	}
	b.process = p
	b.store.process[p] = b
}

// End says that the process has ended: nothing is its owner's any more. It may
// be called more than once.
func (b *Badge) End() {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	delete(b.store.tokens, digest(b.token.Reveal()))
	if b.store.process[b.process] == b {
		delete(b.store.process, b.process)
	}
}

// Whose returns the harness that a claim belongs to now, if there is one
// (WHO-2): the owner of its token, or else the nearest of its ancestors that is
// the process of a live harness. A token that is unknown, or whose spawn has
// ended, proves nothing and costs nothing.
func (s *Store) Whose(c Claim) (Owner, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if b := s.tokens[c.token]; b != nil {
		return b.owner, true
	}
	for _, p := range c.line {
		if b := s.process[p]; b != nil {
			return b.owner, true
		}
	}
	return Owner{}, false
}
