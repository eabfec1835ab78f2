// Package delegate is the MCP server for agents that are not in the fleet: it
// takes a contract, has it run, and returns a verdict that can be checked
// anywhere (section 10 of the contract).
//
// It owns one connection on stdio: both framings that are spoken on it, the four
// tools, and which call waits for which session.
//
// It never offers anything else, whatever it is asked for, listens nowhere, and
// decides nothing about a contract.
//
// # Decisions
//
//   - Raw JSON-RPC: there are four methods. The server package of the library
//     that describes the protocol costs every start of the program 10 ms, and
//     offers more than may be called.
//   - Each message is answered in the framing that it came in, so that a client
//     needs to say nothing about it, and one that mixes them is understood.
//   - At the end of its input it finishes what was asked for: a contract has a
//     timeout. Whoever does not want to wait sends SIGTERM; then what runs is
//     recorded as interrupted.
package delegate
