package prompt

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Fault is one thing that is wrong or odd about a prompt file. Whether the file
// is served all the same is said by where the fault was returned.
//
// Message escapes what it quotes from the file; File is as given, so a printer
// to a terminal has to escape it (CFG-6).
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // from 1; 0 for a fault of a whole directory
	Message string `json:"message"`
}

// String renders the fault as `file:line: why`, or `file: why` without a line.
func (f Fault) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Message
	}
	return f.File + ":" + strconv.Itoa(f.Line) + ": " + f.Message
}

const (
	// maxQuoted bounds what a message repeats of the file, in bytes.
	maxQuoted = 80
	// maxWarnings bounds the warnings of one file: a large file of odd
	// placeholders must not flood a log at every save.
	maxWarnings = 20
)

// quote renders text from a file for a message: escaped, and cut when long.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}

// report gathers what is found about one file. Lines given to it are brought to
// those of the file: 0, for one that is not known, becomes the first, and one
// behind the end, as YAML counts where a lone CR ends a line, becomes the last.
type report struct {
	file     string
	last     int // line of the file
	warnings []Fault
	faults   []Fault
	dropped  int // warnings over maxWarnings
}

// warn notes something that does not keep the file from being served.
func (r *report) warn(line int, format string, args ...any) {
	if len(r.warnings) == maxWarnings {
		r.dropped++
		return
	}
	r.warnings = append(r.warnings, r.fault(line, format, args...))
}

// fail notes something for which the file is skipped.
func (r *report) fail(line int, format string, args ...any) {
	r.faults = append(r.faults, r.fault(line, format, args...))
}

func (r *report) fault(line int, format string, args ...any) Fault {
	return Fault{File: r.file, Line: min(max(line, 1), r.last), Message: fmt.Sprintf(format, args...)}
}
