package proc

import (
	"fmt"
	"os"
	"syscall"
)

// pipeRoom bounds what a Host adds to its pipes in bytes. The kernel counts
// pipes per user (pipe-user-pages-soft, 64 MiB): past that, every new pipe of
// the user, in any program, gets one page.
const pipeRoom = 32 << 20

// pipes are the three standard pipes of a child about to be started, or its
// terminal in place of them.
type pipes struct {
	ours, theirs [3]*os.File
	inodes       [3]uint64
	tty          *os.File // our end of the terminal; ours are nil then
}

// openFor makes what a child of spec has as standard files.
func openFor(spec Spec) (*pipes, error) {
	if spec.TTY != nil {
		return openTerminal(*spec.TTY)
	}
	p, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	return p, nil
}

// openPipes makes pipes of which our ends are non-blocking and theirs are not.
func openPipes() (*pipes, error) {
	p := &pipes{}
	for i := range p.ours {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, err
		}
		p.ours[i], p.theirs[i] = r, w
		if i == 0 {
			p.ours[i], p.theirs[i] = w, r
		}
		if p.inodes[i], err = settlePipe(p.theirs[i]); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// settlePipe makes end blocking, as programs expect of their standard files,
// and returns its inode.
func settlePipe(end *os.File) (inode uint64, err error) {
	onFD(end, func(fd int) {
		var stat syscall.Stat_t
		if err = syscall.Fstat(fd, &stat); err == nil {
			inode, err = stat.Ino, syscall.SetNonblock(fd, false)
		}
	})
	return inode, err
}

// onFD calls f with the descriptor of file, which must be open.
func onFD(file *os.File, f func(fd int)) {
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { f(int(fd)) }) // fails on a closed file only
}

// files are the child's ends in the order of its descriptors.
func (p *pipes) files() []uintptr {
	fds := make([]uintptr, len(p.theirs))
	for i, end := range p.theirs {
		onFD(end, func(fd int) { fds[i] = uintptr(fd) })
	}
	return fds
}

// widen enlarges the pipes as far as room and the kernel allow, and returns
// how many bytes of room that took. A child that can put a whole answer into
// its pipe does not have to wait for its reader in the middle of it. Standard
// error is drained at full speed and keeps the capacity it has.
func (p *pipes) widen(room int) (took int) {
	for i, sizes := range [...][]int{{256 << 10}, {1 << 20, 256 << 10}} {
		for _, size := range sizes {
			if size <= room-took && setPipeSize(p.ours[i], size) {
				took += size
				break
			}
		}
	}
	return took
}

// handOver closes the child's ends, which it has by now.
func (p *pipes) handOver() {
	for _, end := range p.theirs {
		if end != nil {
			end.Close() // of a terminal, thrice the same: closed is closed
		}
	}
}

// close closes both ends of all pipes that were made.
func (p *pipes) close() {
	p.handOver()
	if p.tty != nil {
		p.tty.Close()
	}
	for _, end := range p.ours {
		if end != nil {
			end.Close()
		}
	}
}
