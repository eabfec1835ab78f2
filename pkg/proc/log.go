package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	logQueue   = 3 << 20         // bytes that wait for the disk at most: a burst of Drain fits
	logPatient = 2 * time.Second // how long Close waits for it
)

// Log is a log file of bounded size: when it would grow beyond its limit,
// <path> becomes <path>.1, what was <path>.1 becomes <path>.2, and so on.
//
// A Write only queues. The disk is written to by a goroutine that exists while
// something is queued, and what does not fit the queue is counted and dropped,
// so a disk that hangs holds up nobody.
type Log struct {
	path string
	most int64
	keep int

	mu      sync.Mutex
	queue   []byte
	spare   []byte        // the queue's other buffer
	lost    int64         // bytes dropped since the last notice
	idle    chan struct{} // closed when the goroutine ends; nil while there is none
	closing bool

	file *os.File // file and size are the goroutine's while there is one
	size int64
}

// OpenLog opens the log at path for appending, mode 0600, and makes its
// directory if there is none. most is the size of one file in bytes, keep how
// many full ones are kept beside the current one.
func OpenLog(path string, most int64, keep int) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the log's directory: %w", err)
	}
	l := &Log{path: path, most: most, keep: keep}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return l, nil
}

// Write queues p, which should hold whole lines of plain text, and never
// waits. Its error is always nil: what is lost is noted in the log itself.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing || len(l.queue)+len(p) > logQueue {
		l.lost += int64(len(p))
		return len(p), nil
	}
	l.queue = append(l.queue, p...)
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.flush(l.idle)
	}
	return len(p), nil
}

// Close writes what is queued, waits a moment for a slow disk, and closes the
// file.
func (l *Log) Close() error {
	l.mu.Lock()
	closing := l.closing
	l.closing = true
	idle := l.idle
	l.mu.Unlock()
	if closing {
		return nil
	}
	if idle != nil {
		select {
		case <-idle:
		case <-time.After(logPatient):
			return fmt.Errorf("close log %q: the disk does not answer", l.path)
		}
	}
	return l.file.Close()
}

// flush writes until the queue is empty.
func (l *Log) flush(idle chan struct{}) {
	defer close(idle)
	for {
		chunk, lost := l.take()
		if chunk == nil {
			return
		}
		err := l.append(chunk)
		if err == nil && lost > 0 {
			err = l.append(fmt.Appendf(nil, "... %d bytes lost: the disk was too slow\n", lost))
		}
		if err != nil {
			l.mu.Lock()
			l.lost += lost + int64(len(chunk))
			l.mu.Unlock()
		}
	}
}

// take returns what is queued, or nil and the end of the goroutine.
func (l *Log) take() (chunk []byte, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.idle = nil
		l.queue, l.spare = nil, nil // a quiet log costs nothing
		return nil, 0
	}
	chunk, lost = l.queue, l.lost
	l.queue, l.spare, l.lost = l.spare[:0], chunk, 0
	return chunk, lost
}

// append writes chunk, in pieces of whole lines that fit the files.
func (l *Log) append(chunk []byte) error {
	for len(chunk) > 0 {
		n := l.fit(chunk)
		if n == 0 {
			if err := l.rotate(); err != nil {
				return err
			}
			continue
		}
		written, err := l.file.Write(chunk[:n])
		l.size += int64(written)
		if err != nil {
			return err
		}
		chunk = chunk[n:]
	}
	return nil
}

// fit says how many bytes of chunk go into the file as it is: whole lines, or
// a first line that is too long for any file. 0 means none.
func (l *Log) fit(chunk []byte) int {
	room := l.most - l.size
	if int64(len(chunk)) <= room {
		return len(chunk)
	}
	if n := bytes.LastIndexByte(chunk[:max(room, 0)], '\n') + 1; n > 0 || l.size > 0 {
		return n
	}
	if n := bytes.IndexByte(chunk, '\n') + 1; n > 0 {
		return n
	}
	return len(chunk)
}

// rotate moves the full file aside and begins a new one. If it cannot be
// moved, it is begun anew: a log of bounded size matters more than its past.
func (l *Log) rotate() error {
	err := l.file.Close()
	for i := l.keep; i > 0; i-- {
		if moveErr := os.Rename(l.name(i-1), l.name(i)); moveErr != nil && !errors.Is(moveErr, os.ErrNotExist) {
			err = errors.Join(err, moveErr)
		}
	}
	if l.keep <= 0 || err != nil {
		_ = os.Truncate(l.path, 0) // if this fails too, open will say so
	}
	return l.open()
}

// name is the path of the i-th file, 0 being the current one.
func (l *Log) name(i int) string { return logName(l.path, i) }

func logName(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

func (l *Log) open() error {
	// O_NONBLOCK: a pipe in its place may have nobody at its other end.
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}
