// Package bridge is `harness mcp`: an MCP server on stdin and stdout that any
// agent can launch, and that relays to the daemon and outlives it (MCP-1).
//
// It owns what a session is made of and has to survive a daemon: the handshake
// as the agent made it, what it subscribed to, the requests that wait for an
// answer, and what lists the agent was shown last. It never sends a request
// twice, never answers one twice, and never runs anything.
//
// The rules are in session.go and handshake.go, which know neither time nor
// descriptors. agent.go and link.go are the two directions, each with one
// goroutine; edge.go is the agent's side of them, and gate.go stops the one that
// reads it.
//
// # Decisions
//
// Lines are relayed whole: the half of one that a killed daemon left behind
// must not reach the agent. What the bridge has to know of a line is its id
// and its method, and nothing is decoded but those. An agent's line is checked
// whole here, where its id is noted, so that what is noted is what the daemon
// answers.
//
// A large line is written from where it was read. Only small ones are gathered,
// so that what came in together goes out with one write.
//
// Copying is how each link begins and how each one ends. In between, where the
// agent's side is pipes or sockets, the whole session is handed over (handed.go):
// the daemon reads and writes the agent's own descriptors, and the bridge waits
// for the end of the connection. The handshake is repeated before, and what was
// in flight is answered after that, so the rules of a session are these alone. It
// is handed over while nothing is in flight: what is held becomes what the daemon
// reads first.
//
// There is one bridge for each agent, so its size counts: two goroutines copy,
// one waits for what nobody came for, and no timer runs while nothing does.
package bridge
