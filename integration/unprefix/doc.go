// Package unprefix is a filter between an MCP client and `harness mcp` that
// takes the key of one upstream off every name, and puts it back on.
//
// It is there for the official conformance suite, which asks for its fixtures
// by fixed names, and lets it judge what an agent sees of that upstream. The
// tools and prompts of others are left out.
//
// It owns the program "unprefix", which a test binary becomes when it is called
// so. It never imports the code it is there to test.
package unprefix
