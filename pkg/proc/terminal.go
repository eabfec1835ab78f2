package proc

import (
	"fmt"
	"os"

	"github.com/creack/pty"
)

// openTerminal makes a pseudo-terminal. The child has its end three times.
func openTerminal(size Size) (*pipes, error) {
	ours, theirs, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	p := &pipes{tty: ours, theirs: [3]*os.File{theirs, theirs, theirs}}
	if _, err := settlePipe(theirs); err != nil {
		p.close()
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	if err := resize(ours, size); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// Resize gives the terminal of p another size, and tells who runs on it.
func (p *Proc) Resize(size Size) error { return resize(p.TTY, size) }

func resize(tty *os.File, size Size) error {
	if err := pty.Setsize(tty, &pty.Winsize{Cols: size.Cols, Rows: size.Rows}); err != nil {
		return fmt.Errorf("size a terminal: %w", err)
	}
	return nil
}
