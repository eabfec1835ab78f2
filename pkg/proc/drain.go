package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"
)

const (
	lineLimit = 8 << 10         // longer lines are broken
	drainRead = 32 << 10        // bytes read at once
	drainHold = 8 << 10         // bytes of left-out text kept to be shown after all
	drainHush = 1 * time.Second // quiet time after which text is not held back any more

	// What one source may write to its log: a burst for a start that talks
	// much, and a steady rate that leaves the lines worth reading a while.
	drainBurst  = 2 << 20  // bytes
	drainRate   = 64 << 10 // bytes per second
	drainResume = 64 << 10 // bytes to be free before a flood is logged again
)

// timestamp is the time of a line, as slog writes it.
const timestamp = "2006-01-02T15:04:05.000Z07:00"

// Drain reads r to its end or to an error, at full speed whatever becomes of
// log (LIF-7). Each line is written as "<time> <prefix>: <text>", broken at 8 KiB.
// The text stays as it came: whoever shows it escapes it (CFG-6). Of a flood, only a burst and then a little
// each second is written; how much was left out is noted, and the last of it
// shown when the flood ends. Memory is bounded whatever comes.
//
// While it runs, Drain owns the read deadline of r, if r has one.
func Drain(r io.Reader, log *Log, prefix string) {
	d := drain{log: log, prefix: prefix, bucket: bucket{tokens: drainBurst, at: time.Now()}}
	waits, _ := r.(interface{ SetReadDeadline(time.Time) error })
	buf := make([]byte, drainRead)
	for {
		if waits != nil && waits.SetReadDeadline(d.hush(time.Now())) != nil {
			waits = nil // a file
		}
		n, err := r.Read(buf)
		d.take(buf[:n], time.Now())
		if err == nil {
			continue
		}
		d.release(time.Now())
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// drain turns what was read into lines of the log.
type drain struct {
	log    io.Writer
	prefix string
	bucket bucket

	line []byte // the beginning of a line of which the end is not read yet
	out  []byte // scratch
	skip int64  // bytes left out since the last notice
	tail []byte // whole lines, the last of what was left out
}

// hush is when something held back is to be shown; zero: nothing is.
func (d *drain) hush(now time.Time) time.Time {
	if len(d.line) == 0 && d.skip == 0 {
		return time.Time{}
	}
	return now.Add(drainHush)
}

// take takes in a piece of the stream.
func (d *drain) take(piece []byte, now time.Time) {
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			d.extend(piece, now)
			return
		}
		d.extend(piece[:end], now)
		d.emit(bytes.TrimSuffix(d.line, []byte("\r")), now)
		d.line = d.line[:0]
		piece = piece[end+1:]
	}
}

// extend lengthens the line, and breaks it where it is too long.
func (d *drain) extend(piece []byte, now time.Time) {
	for len(d.line)+len(piece) > lineLimit {
		n := lineLimit - len(d.line)
		d.line, piece = append(d.line, piece[:n]...), piece[n:]
		whole := wholeRunes(d.line)
		d.emit(d.line[:whole], now)
		d.line = append(d.line[:0], d.line[whole:]...)
	}
	d.line = append(d.line, piece...)
}

// wholeRunes is the length of line without a rune that is cut off at its end.
func wholeRunes(line []byte) int {
	for n := len(line) - 1; n >= max(0, len(line)-utf8.UTFMax); n-- {
		if utf8.RuneStart(line[n]) {
			if utf8.FullRune(line[n:]) {
				break
			}
			return n
		}
	}
	return len(line)
}

// emit writes one line, or leaves it out while too much comes.
func (d *drain) emit(line []byte, now time.Time) {
	if !d.bucket.allow(len(line), now) {
		d.leaveOut(line)
		return
	}
	if d.skip > 0 {
		d.note(d.skip, now)
		d.skip, d.tail = 0, nil
	}
	d.write(line, now)
}

func (d *drain) leaveOut(line []byte) {
	d.skip += int64(len(line)) + 1
	d.tail = append(append(d.tail, line...), '\n')
	if len(d.tail) <= 2*drainHold {
		return
	}
	keep := d.tail[len(d.tail)-drainHold:]
	keep = keep[bytes.IndexByte(keep, '\n')+1:]
	d.tail = append(d.tail[:0], keep...)
}

// release shows what is held back: the stream has ended, or is quiet.
func (d *drain) release(now time.Time) {
	if len(d.line) > 0 {
		d.emit(d.line, now)
		d.line = d.line[:0]
	}
	if d.skip == 0 {
		return
	}
	if before := d.skip - int64(len(d.tail)); before > 0 {
		d.note(before, now)
	}
	for line := range bytes.Lines(d.tail) {
		d.write(bytes.TrimSuffix(line, []byte("\n")), now)
	}
	d.skip, d.tail = 0, nil
}

func (d *drain) note(bytes int64, now time.Time) {
	d.write(fmt.Appendf(nil, "... %d bytes left out", bytes), now)
}

// write writes one line, and counts it as it is in the log. The log's error is
// the log's: it must not stop the stream from being read.
func (d *drain) write(line []byte, now time.Time) {
	d.out = now.AppendFormat(d.out[:0], timestamp)
	d.out = append(d.out, ' ')
	if d.prefix != "" {
		d.out = append(append(d.out, d.prefix...), ": "...)
	}
	d.out = append(append(d.out, line...), '\n')
	d.bucket.tokens -= float64(len(d.out))
	_, _ = d.log.Write(d.out)
}

// bucket limits a rate with a burst. Once dry, it stays so until a little has
// come together, so that a flood shows as pieces worth reading.
type bucket struct {
	tokens float64 // bytes that may be written now
	at     time.Time
	dry    bool
}

func (b *bucket) allow(n int, now time.Time) bool {
	elapsed := max(now.Sub(b.at), 0)
	b.tokens = min(b.tokens+elapsed.Seconds()*drainRate, drainBurst)
	b.at = now
	need := float64(n)
	if b.dry {
		need = max(need, drainResume)
	}
	b.dry = b.tokens < need
	return !b.dry
}
