package daemon

import (
	"sync"
	"time"

	"harness/pkg/broker"
	"harness/pkg/config"
)

// sessionStall is how long an agent may not read while data waits (MCP-6).
const sessionStall = 30 * time.Second

// limits hands the settings in force to those who ask for them later.
type limits struct {
	mu     sync.Mutex
	server config.Server
}

func (l *limits) set(s config.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = s
}

// session returns the bounds of a session that begins now.
func (l *limits) session() broker.Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return broker.Limits{MaxMessage: l.server.MaxMessage, Stall: sessionStall}
}

func (l *limits) stopGrace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.server.StopGrace
}
