// Package baseline is what harness is measured against: the echo server, a cheap
// MCP server on stdio, and the floor, our own topology with nothing in it but
// ids.
//
// It owns the program that has these roles, which Build makes out of this
// package's test binary. It shares no code with the product: were it built on
// the product's reader, a slow reader would slow both and show in no ratio.
//
// # Decisions
//
// The program is not the benchmarks' own test binary, which takes three times
// as long to start, with all of the product that it links: the start of an
// upstream would be mostly that.
//
// The test binary and not a command, because the tree has no place for one; it
// costs a millisecond.
package baseline
