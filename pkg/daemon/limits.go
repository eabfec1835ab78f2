package daemon

import (
	"slices"
	"sync"
	"time"

	"harness/pkg/broker"
	"harness/pkg/config"
)

// sessionStall is how long an agent may not read while data waits (MCP-6).
const sessionStall = 30 * time.Second

// limits hands the settings in force to those who ask for them later.
type limits struct {
	mu      sync.Mutex
	server  config.Server
	longest time.Duration // stop_grace that was ever in force
}

func newLimits(s config.Server) *limits { return &limits{server: s, longest: s.StopGrace} }

func (l *limits) set(s config.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server, l.longest = s, max(l.longest, s.StopGrace)
}

// session returns the bounds of a session that begins now.
func (l *limits) session() broker.Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return broker.Limits{MaxMessage: l.server.MaxMessage, Stall: sessionStall}
}

// keepRuns is how many runs of each harness are kept.
func (l *limits) keepRuns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.server.KeepRuns
}

// roots are the directories that more than the projects may live under.
func (l *limits) roots() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.server.Roots)
}

func (l *limits) stopGrace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.server.StopGrace
}

// longestStop bounds the stop of anything: a process stops by the stop_grace
// it was started under.
func (l *limits) longestStop() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.longest
}
