//go:build !race

package agent

// flood is how much a program prints in one go, in bytes.
const flood = 100_000_000
