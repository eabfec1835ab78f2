// Package bridge is `harness mcp`: an MCP server on stdin and stdout that any
// agent can launch, and that relays to the daemon and outlives it (MCP-1).
//
// It owns what a session is made of and has to survive a daemon: the handshake
// as the agent made it, the requests that wait for an answer, and what lists
// the agent was shown last. It never sends a request twice, never answers one
// twice, and never runs anything.
//
// # Decisions
//
// Lines are relayed whole: the half of one that a killed daemon left behind
// must not reach the agent. What the bridge has to know of a line is its id
// and its method, and nothing is decoded but those.
//
// There is one bridge for each agent, so its size counts: two goroutines copy,
// one looks for the daemon while there is none, and no timer runs otherwise.
package bridge
