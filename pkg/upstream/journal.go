package upstream

import (
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"harness/pkg/plain"
	"harness/pkg/proc"
)

// An upstream's log is rotated at logSize, and logKeep full files are kept
// (LIF-7).
const (
	logSize = 4 << 20
	logKeep = 2
)

// noiseShown is how much of one noisy line is logged.
const noiseShown = 4 << 10

// journal is the log of one unit's processes: what they write to stderr, and
// what on stdout is not for harness. It is safe for concurrent use.
type journal struct {
	name string // "mcp.gitea"
	log  *slog.Logger
	file *proc.Log // nil where it could not be opened

	mu       sync.Mutex
	throttle throttle
}

// openJournal opens the log file of the upstream key in dir. An upstream
// without a log runs all the same.
func openJournal(dir, key string, log *slog.Logger) *journal {
	j := &journal{name: "mcp." + key, log: log}
	file, err := proc.OpenLog(LogPath(dir, key), logSize, logKeep)
	if err != nil {
		log.Warn("the upstream's output is not logged", "error", err)
		return j
	}
	j.file = file
	return j
}

// LogPath returns the log file of the upstream key in the log directory dir.
func LogPath(dir, key string) string { return filepath.Join(dir, fileName("mcp."+key)+".log") }

// drain reads a process's stderr to its end, whatever becomes of the log.
func (j *journal) drain(stderr io.Reader) {
	if j.file == nil {
		// It only ends; how does not matter.
		_, _ = io.Copy(io.Discard, stderr)
		return
	}
	proc.Drain(stderr, j.file, j.name)
}

// noise logs a line of stdout that was ignored, and why, at a bounded rate: a
// program may well print its whole life there. The first of a quiet time is in
// the daemon's log as well.
func (j *journal) noise(why string, line []byte) {
	j.mu.Lock()
	ok, first, held := j.throttle.allow(time.Now())
	j.mu.Unlock()
	if !ok {
		return
	}
	if first {
		j.log.Warn("ignored a line of its stdout", "reason", why, "line", excerpt(line, 200))
	}
	if j.file == nil {
		return
	}
	text := "stdout, " + why + ": " + excerpt(line, noiseShown)
	if held > 0 {
		text = "stdout: " + strconv.Itoa(held) + " lines left out\n" + text
	}
	proc.Drain(strings.NewReader(text+"\n"), j.file, j.name)
}

func (j *journal) close() {
	if j.file != nil {
		// What cannot be written at the end has nobody left to tell.
		_ = j.file.Close()
	}
}

// excerpt returns the beginning of text as a terminal may see it (CFG-6).
func excerpt(text []byte, limit int) string {
	cut := min(len(text), limit)
	shown := plain.Append(make([]byte, 0, cut), text[:cut])
	if cut < len(text) {
		shown = append(append(append(shown, " … "...), strconv.Itoa(len(text)-cut)...), " bytes more"...)
	}
	return string(shown)
}

// maxQuoted is how much of an upstream's own words goes into a message.
const maxQuoted = 512

// quoted returns an upstream's own words for a message of harness's.
func quoted(text string) string { return excerpt([]byte(text), maxQuoted) }
