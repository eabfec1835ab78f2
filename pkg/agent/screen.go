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

// widest and tallest bound a screen: every cell of it costs memory, twice, and
// time whenever it scrolls.
const (
	widest  = 500
	tallest = 200
)

// screen is what a terminal shows. It is not safe for concurrent use.
type screen struct {
	emulator *vt.Emulator
	size     proc.Size
	modes    map[int]bool  // private modes that are on
	answer   func([]byte)  // takes what the terminal would answer; never blocks
	replies  chan struct{} // closed when its answers have ended
}

// calm returns what takes back whatever a program has switched on, for the
// screen and for the terminals of those who look at it. The cursor stays where
// it is, or where it was before the program filled the screen: leaving that and
// ending the scrolling region would move it.
func calm() []byte {
	b := []byte("\x18\x1b7\x1b[?1049l\x1b[r\x1b8\x1b[0m\x1b[?25h")
	for _, mode := range told() {
		b = fmt.Appendf(b, "\x1b[?%dl", mode)
	}
	return b
}

// told are the private modes that a viewer's terminal has to be told of: cursor
// keys, mouse, focus and bracketed paste.
func told() []int { return []int{1, 1000, 1002, 1003, 1004, 1006, 2004} }

// altScreen is the mode of programs that fill the screen.
const altScreen = 1049

func newScreen(size proc.Size, answer func([]byte)) *screen {
	s := &screen{size: size, answer: answer, modes: map[int]bool{}}
	s.reset()
	return s
}

// reset makes an empty screen, with the modes that the last one had.
func (s *screen) reset() {
	s.close()
	e := vt.NewEmulator(int(s.size.Cols), int(s.size.Rows))
	e.SetScrollbackSize(1)
	note := func(m ansi.Mode, on bool) {
		if m, private := m.(ansi.DECMode); private {
			s.modes[m.Mode()] = on
		}
	}
	e.SetCallbacks(vt.Callbacks{
		EnableMode:  func(m ansi.Mode) { note(m, true) },
		DisableMode: func(m ansi.Mode) { note(m, false) },
	})
	// A few bytes that repeat a character a million times would hold up whoever
	// wants to look. Programs repeat within a line.
	e.RegisterCsiHandler('b', func(params ansi.Params) bool {
		if n, _, ok := params.Param(0, 1); ok && n > e.Width() {
			params[0] = ansi.Param(e.Width())
		}
		return false // the emulator does the rest
	})
	s.emulator, s.replies = e, make(chan struct{})
	go s.pass(e, s.replies)
	if s.modes[altScreen] {
		_, _ = fmt.Fprintf(e, "\x1b[?%dh", altScreen)
	}
}

// pass passes on what e answers, until it is closed.
func (s *screen) pass(e *vt.Emulator, done chan<- struct{}) {
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
}

// survive does what the emulator may panic at: what a program prints can be
// anything. The screen is empty then, and the next output draws on it.
func (s *screen) survive(do func()) {
	defer func() {
		if recover() != nil {
			s.reset()
		}
	}()
	do()
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

// draw draws what was printed. It writes to memory: there is no error to have.
func (s *screen) draw(p []byte) {
	s.survive(func() { _, _ = s.emulator.Write(p) })
}

// resize gives the screen another size.
func (s *screen) resize(size proc.Size) {
	s.size = size
	s.survive(func() { s.emulator.Resize(int(size.Cols), int(size.Rows)) })
}

// paint returns what draws the screen on another terminal, whatever was there.
func (s *screen) paint() (painted []byte) {
	s.survive(func() { painted = s.render() })
	if painted == nil { // it is empty now
		s.survive(func() { painted = s.render() })
	}
	return painted
}

func (s *screen) render() []byte {
	var b strings.Builder
	b.WriteString("\x18\x1b[0m\x1b[?25l") // CAN ends what was cut in the middle
	if s.emulator.IsAltScreen() {
		fmt.Fprintf(&b, "\x1b[?%dh", altScreen)
	} else {
		fmt.Fprintf(&b, "\x1b[?%dl", altScreen)
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
	var lines []string
	s.survive(func() { lines = strings.Split(s.emulator.String(), "\n") })
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return slices.Clip(lines)
}
