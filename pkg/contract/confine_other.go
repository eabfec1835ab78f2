//go:build unix && !linux

package contract

import (
	"os"

	"harness/pkg/proc"
)

// Contracts run on Linux only: a Host elsewhere starts nothing that is confined.

func (c *confinement) rules(*os.File) (*os.File, error) { return nil, nil }

func limits(*Spec) []proc.Limit { return nil }

func landlockABI() int { return 0 }
