package proc

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal. The child has its end three times.
func openTerminal(size Size) (*pipes, error) {
	blocking, theirs, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	ours, err := unblocked(blocking)
	if err != nil {
		theirs.Close()
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	p := &pipes{tty: ours, theirs: [3]*os.File{theirs, theirs, theirs}}
	if _, err := settlePipe(theirs); err != nil {
		p.close()
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	p.inodes[0] = terminalNumber(theirs.Name())
	if err := resize(ours, size); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// unblocked returns file anew, with deadlines that work and no thread that waits
// in a read, and closes the old one: package pty has made that blocking.
func unblocked(file *os.File) (anew *os.File, err error) {
	defer file.Close()
	onFD(file, func(fd int) {
		var copied int
		if copied, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
		if err = unix.SetNonblock(copied, true); err != nil {
			_ = unix.Close(copied)
			return
		}
		anew = os.NewFile(uintptr(copied), file.Name())
	})
	return anew, err
}

// terminalMark tells the numbers of terminals from the inodes of pipes, which
// have 32 bits. A terminal's number is its own until both ends are closed.
const terminalMark = 1 << 63

// terminalNumber returns what stands for the terminal at path among inodes, 0
// where path names none.
func terminalNumber(path string) uint64 {
	digits, ok := strings.CutPrefix(path, "/dev/pts/")
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil {
		return 0
	}
	return terminalMark | n
}

// onlyPipes returns the inodes in held that are of pipes.
func onlyPipes(held []uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(held), func(inode uint64) bool { return inode == 0 || inode&terminalMark != 0 })
}

// Resize gives the terminal of p another size, and tells who runs on it.
func (p *Proc) Resize(size Size) error { return resize(p.TTY, size) }

func resize(tty *os.File, size Size) error {
	err := os.ErrClosed
	onFD(tty, func(fd int) {
		// Not by package pty, which would make it blocking.
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: size.Cols, Row: size.Rows})
	})
	if err != nil {
		return fmt.Errorf("size a terminal: %w", err)
	}
	return nil
}
