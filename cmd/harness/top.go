package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"harness/pkg/control"
)

// leastDelay bounds how often the process table is read.
const leastDelay = 100 * time.Millisecond

func newTopCmd(g *globals) *cobra.Command {
	var asJSON bool
	order, delay := string(byCPU), 2*time.Second
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what the daemon, harnesses and servers use: processes, CPU and memory",
		Long: "top shows, again and again, what the daemon and everything that it runs use, each\nwith all that descends from it. Memory is what is resident; what processes share\n" +
			"counts for each. Bounded runs count for the daemon. Where the output is no\nterminal it prints one table: what was used so far.",
		Args: exactly(0, "no arguments"),
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, _ []string) error {
			if !slices.Contains([]topOrder{byCPU, byMemory, byName}, topOrder(order)) {
				return usagef("--sort is %q; take cpu, memory or name", order)
			}
			if delay < leastDelay {
				return usagef("--delay is %s; take at least %s", delay, leastDelay)
			}
			in, out := terminalOf(cmd)
			if in != nil && out != nil && !asJSON {
				return watchTop(cmd.Context(), c, in, out, topOrder(order), delay)
			}
			now, err := c.Usage(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), now)
			}
			for _, line := range topTable(topRows(nil, now, topOrder(order)), false) {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&order, "sort", order, "by cpu, memory or name")
	cmd.Flags().DurationVarP(&delay, "delay", "d", delay, "the time between two looks")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// terminalOf returns the terminals that a command reads and writes, each nil
// where it is none.
func terminalOf(cmd *cobra.Command) (in, out *os.File) {
	terminal := func(of any) *os.File {
		if f, ok := of.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return f
		}
		return nil
	}
	return terminal(cmd.InOrStdin()), terminal(cmd.OutOrStdout())
}

// watchTop draws until a key or the context ends it, and leaves the terminal as
// it was.
func watchTop(ctx context.Context, c *control.Client, in, out *os.File, order topOrder, delay time.Duration) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("make the terminal raw: %w", err)
	}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l")
	defer func() {
		fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
		_ = term.Restore(int(in.Fd()), before)
	}()
	keys := make(chan byte)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go readKeys(ctx, in, keys, cancel)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ticks := time.NewTicker(delay)
	defer ticks.Stop()
	var last, now *control.Usage
	for due := true; ; {
		if due {
			next, err := c.Usage(ctx)
			if err != nil && !cancelled(ctx) {
				return err
			}
			last, now = now, next
		}
		if cancelled(ctx) {
			return nil
		}
		drawTop(out, last, now, order)
		select {
		case key := <-keys:
			due = false
			if named, ok := map[byte]topOrder{'c': byCPU, 'm': byMemory, 'n': byName}[key]; ok {
				order = named
			}
		case <-resized:
			due = false
		case <-ticks.C:
			due = true
		case <-ctx.Done():
		}
	}
}

// readKeys passes on what is typed, and ends everything at q, Ctrl-C or the end
// of the terminal.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte, end func()) {
	defer end()
	buf := make([]byte, 16)
	for {
		n, err := in.Read(buf)
		for _, key := range buf[:n] {
			if key == 'q' || key == 'Q' || key == 0x03 {
				return
			}
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// drawTop draws over what was drawn before, in one write: no line flickers.
func drawTop(out *os.File, last, now *control.Usage, order topOrder) {
	rows := topRows(last, now, order)
	cols, height := sizeOf(out)
	var b bytes.Buffer
	b.WriteString("\x1b[H")
	for i, line := range topScreen(topTotal(rows), topTable(rows, last != nil), int(cols), int(height)) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, _ = out.Write(b.Bytes()) // a terminal that went away ends the reading too
}
