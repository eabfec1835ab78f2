//go:build unix && !linux

package contract

import (
	"fmt"
	"io"
)

// Confine is for Linux.
func Confine(_ []string, stderr io.Writer) int {
	fmt.Fprintln(stderr, "harness: contracts run on Linux only")
	return confineFailed
}

func landlockABI() int { return 0 }
