//go:build race

package agent

// flood is how much a program prints in one go, in bytes: under the race
// detector, less.
const flood = 1_000_000
