package fakeup

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// recorded is how much of one line a record keeps, in bytes.
const recorded = 4096

// What an Entry tells.
const (
	Started  = "start"  // the process began; Text is its command line
	Received = "line"   // Text is the line
	EOF      = "eof"    // stdin ended
	Signaled = "signal" // Text is the signal
)

// Entry is one thing that happened to a fake upstream.
type Entry struct {
	PID  int       `json:"pid"`
	At   time.Time `json:"at"`
	What string    `json:"what"`
	Text string    `json:"text"`
}

// recorder appends entries to a file that the processes of one upstream
// share; without a file it forgets them.
type recorder struct {
	mu   sync.Mutex
	file *os.File
}

func newRecorder(path string) (*recorder, error) {
	if path == "" {
		return &recorder{}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &recorder{file: f}, err
}

func (r *recorder) add(what, text string) {
	if r.file == nil {
		return
	}
	line, _ := json.Marshal(Entry{os.Getpid(), time.Now(), what, text[:min(len(text), recorded)]})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file.Write(append(line, '\n'))
}

// Record reads what the processes of an upstream recorded so far. A file that
// does not exist yet is an empty record.
func Record(path string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Entry
	for line := range bytes.Lines(text) {
		var e Entry
		if json.Unmarshal(line, &e) == nil { // the last line may be half written
			all = append(all, e)
		}
	}
	return all, err
}

// Count is how many entries tell what, with text containing part.
func Count(entries []Entry, what, part string) int {
	n := 0
	for _, e := range entries {
		if e.What == what && strings.Contains(e.Text, part) {
			n++
		}
	}
	return n
}
