// Package bench measures the real harness binary: what it adds to a call, what
// it weighs, how soon it follows an edit and how soon it is up.
//
// Its figures are relative to two baselines: direct, a client and a cheap MCP
// server with nothing in between; and floor, our own topology with nothing in it
// but ids. It never judges time in a test: figures are compared with their bounds
// in the table that a benchmark run prints, and a test run only checks that every
// part works and every answer is right.
//
// # Decisions
//
// On a shared machine a duration says little and a ratio says much, so what is
// compared is measured in one run, in turns (A B C A B C), and the median of
// the ratios of the rounds is what is reported: whatever slows a whole round
// cancels.
//
// What harness is compared with is a small program of its own (package baseline),
// and the load is this package's test binary, run again, so that every process
// of a run comes from one toolchain and one checkout.
//
// The rest is in test files: nothing else may depend on it, and the benchmark
// flags are those of `go test`.
package bench
