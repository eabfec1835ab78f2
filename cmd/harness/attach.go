package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"harness/pkg/control"
)

// detachKey is Ctrl-]: agents use most others.
const detachKey = 0x1d

func newAttachCmd(g *globals) *cobra.Command {
	var readOnly bool
	cmd := &cobra.Command{
		Use:               "attach NAME",
		Short:             "Look at a harness's terminal and type at it; Ctrl-] detaches",
		Long:              "attach gives the real terminal of a harness: what is on its screen, what comes, and\nwhat you type. Ctrl-] detaches; the harness goes on. Several may attach: the smallest\nof their terminals gives the size.",
		Args:              exactly(1, "the name of one harness"),
		ValidArgsFunction: g.completeHarnesses,
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.attach(cmd, control.AttachRequest{Name: args[0], ReadOnly: readOnly})
		},
	}
	cmd.Flags().BoolVarP(&readOnly, "read-only", "r", false, "only look: nothing is typed, and the size is left alone")
	return cmd
}

// attach connects this terminal to that of a harness until one of them ends.
func (g *globals) attach(cmd *cobra.Command, req control.AttachRequest) error {
	in, isFile := cmd.InOrStdin().(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return errors.New("attach needs a terminal; see `harness logs " + req.Name + "`")
	}
	req.Cols, req.Rows = sizeOf(in)
	a, err := g.dialAttach(cmd.Context(), req)
	if err != nil {
		return err
	}
	defer a.Close()
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("make the terminal raw: %w", err)
	}
	// Whatever the harness has switched on is none of the shell's.
	defer func() {
		_ = term.Restore(int(in.Fd()), before)
		// The cursor goes below all that was drawn: the margins send it home.
		fmt.Fprint(cmd.OutOrStdout(), "\x1b[0m\x1b[r\x1b[999;1H\x1b[?1049l\x1b[?25h\x1b[?1l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\r\n")
	}()
	stop := context.AfterFunc(cmd.Context(), func() { _ = a.Close() })
	defer stop()
	defer followSize(in, a)()
	detached := make(chan struct{})
	go func() {
		defer a.Close()
		if typeUntilDetached(in, a) {
			close(detached)
		}
	}()
	_, err = io.Copy(cmd.OutOrStdout(), a)
	select {
	case <-detached:
		return nil
	default:
	}
	if err != nil && cmd.Context().Err() == nil {
		return err
	}
	return nil
}

// dialAttach attaches at the first socket that has a daemon.
func (g *globals) dialAttach(ctx context.Context, req control.AttachRequest) (*control.Attached, error) {
	var first error
	for _, socket := range g.paths().Sockets() {
		a, err := control.DialAttach(ctx, socket, req)
		if err == nil {
			return a, nil
		}
		if first == nil || !errors.Is(err, control.ErrUnreachable) {
			first = err
		}
	}
	return nil, first
}

// typeUntilDetached sends what is typed, and reports whether the detach key
// ended it.
func typeUntilDetached(in io.Reader, out io.Writer) bool {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		typed, _, detach := bytes.Cut(buf[:n], []byte{detachKey})
		if len(typed) > 0 {
			if _, err := out.Write(typed); err != nil {
				return false
			}
		}
		if detach || err != nil {
			return detach
		}
	}
}

// followSize tells the harness's terminal of this one's size until stop is
// called.
func followSize(in *os.File, a *control.Attached) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-changes:
				a.Resize(sizeOf(in))
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(changes)
		close(done)
	}
}

// sizeOf is the size of a terminal, or that of one that nobody has seen.
func sizeOf(tty *os.File) (cols, rows uint16) {
	c, r, err := term.GetSize(int(tty.Fd()))
	if err != nil || c <= 0 || r <= 0 || c > 1<<15 || r > 1<<15 {
		return 80, 24
	}
	return uint16(c), uint16(r)
}
