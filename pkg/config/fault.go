package config

import (
	"strconv"
	"strings"
)

// Fault is one thing wrong with one file, at a place in it.
type Fault struct {
	// File is the Source's path as given.
	File string `json:"file"`
	// Line counts from 1; 0 where no line is to blame.
	Line int `json:"line"`
	// Key is the dotted path of the table or key at fault, parts that are not
	// bare keys quoted; "" where no key is to blame.
	Key string `json:"key"`
	// Message says what is wrong and what was expected. It never contains a
	// value that could be secret.
	Message string `json:"message"`
}

// String renders the fault as `harness.toml:12: mcp.broken: cmd is empty`,
// without what it does not have.
func (f Fault) String() string {
	text := f.File
	if f.Line > 0 {
		text += ":" + strconv.Itoa(f.Line)
	}
	if f.Key != "" {
		text += ": " + f.Key
	}
	return text + ": " + f.Message
}

// Faults are the faults of one load in line order. It is an error of one line
// for each; as an error, use Err, since an empty Faults in an error interface
// is not nil.
type Faults []Fault

// Error joins the faults, one a line.
func (f Faults) Error() string {
	return lines(f)
}

// Err is nil when there are no faults, and the faults as an error otherwise.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Warnings are remarks of one load in line order. They refuse nothing.
type Warnings []Fault

func lines(list []Fault) string {
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = f.String()
	}
	return strings.Join(texts, "\n")
}
