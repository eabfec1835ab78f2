package agent

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"

	"harness/pkg/proc"
)

const (
	// lag bounds what the screen has yet to draw, in bytes.
	lag = 64 << 10
	// rest is what it goes on with when it has fallen behind.
	rest = 32 << 10
)

// screen is what a terminal shows. It is written to at any speed, and draws
// when it is looked at or has the time. Its owner has two locks for it: one for
// all of it, and one for what is due alone, which is never held for long.
type screen struct {
	emulator *vt.Emulator
	size     proc.Size
	due      []byte        // not drawn yet
	modes    map[int]bool  // private modes that are on
	answer   func([]byte)  // takes what the terminal would answer; never blocks
	replies  chan struct{} // closed when its answers have ended
}

// calm returns what takes back whatever a program has switched on, for the
// screen and for the terminals of those who look at it.
func calm() []byte {
	b := []byte("\x1b[0m\x1b[r\x1b[?1049l\x1b[?25h")
	for _, mode := range told() {
		b = fmt.Appendf(b, "\x1b[?%dl", mode)
	}
	return b
}

// told are the private modes that a viewer's terminal has to be told of: cursor
// keys, mouse, focus and bracketed paste.
func told() []int { return []int{1, 1000, 1002, 1003, 1004, 1006, 2004} }

func newScreen(size proc.Size, answer func([]byte)) *screen {
	s := &screen{size: size, answer: answer}
	s.reset()
	return s
}

// reset makes an empty screen.
func (s *screen) reset() {
	s.close()
	e := vt.NewEmulator(int(s.size.Cols), int(s.size.Rows))
	e.SetScrollbackSize(1)
	modes := map[int]bool{}
	note := func(m ansi.Mode, on bool) {
		if m, private := m.(ansi.DECMode); private {
			modes[m.Mode()] = on
		}
	}
	e.SetCallbacks(vt.Callbacks{
		EnableMode:  func(m ansi.Mode) { note(m, true) },
		DisableMode: func(m ansi.Mode) { note(m, false) },
	})
	s.emulator, s.modes, s.replies = e, modes, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		buf := make([]byte, 256)
		for {
			n, err := e.Read(buf)
			if n > 0 {
				s.answer(bytes.Clone(buf[:n]))
			}
			if err != nil {
				return
			}
		}
	}(s.replies)
}

// close ends the emulator.
func (s *screen) close() {
	if s.emulator == nil {
		return
	}
	// Its answers come out of a pipe that ends with this.
	if in, ok := s.emulator.InputPipe().(io.Closer); ok {
		_ = in.Close()
	}
	<-s.replies // its Read and its Close must not meet
	_ = s.emulator.Close()
}

// write takes what was printed. What cannot be drawn in time is left out, to
// the last line that fits.
func (s *screen) write(p []byte) {
	s.due = append(s.due, p...)
	if len(s.due) <= lag {
		return
	}
	tail := s.due[len(s.due)-rest:]
	if i := bytes.IndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	s.due = append(s.due[:0], tail...)
}

// take returns a copy of at most n bytes of what is due, and how much is left.
func (s *screen) take(n int) (part []byte, left int) {
	n = min(n, len(s.due))
	part = bytes.Clone(s.due[:n])
	s.due = s.due[:copy(s.due, s.due[n:])]
	return part, len(s.due)
}

// draw draws what was taken. It writes to memory: there is no error to have.
func (s *screen) draw(part []byte) { _, _ = s.emulator.Write(part) }

// finish draws all that is due.
func (s *screen) finish() {
	part, _ := s.take(len(s.due))
	s.draw(part)
}

// resize gives the screen another size.
func (s *screen) resize(size proc.Size) {
	s.finish()
	s.size = size
	s.emulator.Resize(int(size.Cols), int(size.Rows))
}

// paint returns what draws the screen on another terminal, whatever was there.
func (s *screen) paint() []byte {
	s.finish()
	var b strings.Builder
	b.WriteString("\x1b[0m\x1b[?25l")
	if s.emulator.IsAltScreen() {
		b.WriteString("\x1b[?1049h")
	} else {
		b.WriteString("\x1b[?1049l")
	}
	b.WriteString("\x1b[r\x1b[H\x1b[2J")
	b.WriteString(strings.ReplaceAll(strings.TrimRight(s.emulator.Render(), "\n"), "\n", "\r\n"))
	b.WriteString("\x1b[0m")
	for _, mode := range told() {
		fmt.Fprintf(&b, "\x1b[?%d%c", mode, map[bool]byte{true: 'h', false: 'l'}[s.modes[mode]])
	}
	at := s.emulator.CursorPosition()
	fmt.Fprintf(&b, "\x1b[%d;%dH", at.Y+1, at.X+1)
	if !s.emulator.CursorHidden() {
		b.WriteString("\x1b[?25h")
	}
	return []byte(b.String())
}

// text returns what is on the screen as plain lines.
func (s *screen) text() []string {
	s.finish()
	lines := strings.Split(s.emulator.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return slices.Clip(lines)
}
