package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/wire"
)

// newDemoCmd makes the command that shows the main job on an empty machine
// (CLI-4). Everything it shows, it checks.
func newDemoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show the main job in half a minute, in a temporary home",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := newDemo(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			err = d.play(cmd.Context())
			if endErr := d.end(); err == nil {
				err = endErr
			}
			if cmd.Context().Err() != nil {
				return errors.New("interrupted")
			}
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "\nThe daemon's log:\n%s\n", d.log.String())
				return fmt.Errorf("the demo failed: %w", err)
			}
			fmt.Fprintln(d.out, "\nEverything above happened. The rest is your own harness.toml: `harness init`.")
			return nil
		},
	}
}

// demo is one run: a home, a daemon, two agents.
type demo struct {
	out    io.Writer
	exe    string
	home   string
	env    []string
	log    *strings.Builder
	daemon *exec.Cmd
	agents []*demoAgent
}

func newDemo(out io.Writer) (*demo, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	home, err := os.MkdirTemp("", "harness-demo")
	if err != nil {
		return nil, fmt.Errorf("make a temporary home: %w", err)
	}
	env := []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "HARNESS_STATE_DIR=" + filepath.Join(home, "state"),
		"HARNESS_CONFIG=" + filepath.Join(home, "harness.toml"), "HARNESS_SOCKET=" + filepath.Join(home, "s"),
	}
	return &demo{out: out, exe: exe, home: home, env: env, log: &strings.Builder{}}, nil
}

// end stops what was started and removes the home.
func (d *demo) end() error {
	var first error
	for _, a := range d.agents {
		if err := a.stop(); err != nil && first == nil {
			first = err
		}
	}
	if d.daemon != nil {
		if err := d.stopDaemon(); err != nil && first == nil {
			first = err
		}
	}
	if err := os.RemoveAll(d.home); err != nil && first == nil {
		first = fmt.Errorf("remove the temporary home: %w", err)
	}
	return first
}

func (d *demo) startDaemon() error {
	d.daemon = exec.Command(d.exe, "daemon")
	d.daemon.Env, d.daemon.Stderr = d.env, d.log
	if err := d.daemon.Start(); err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	return nil
}

func (d *demo) stopDaemon() error {
	cmd := d.daemon
	d.daemon = nil
	// It may have ended by itself; Wait says how.
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the daemon ended badly: %w", err)
	}
	return nil
}

// status asks the daemon what it thinks.
func (d *demo) status(ctx context.Context) (*control.Status, error) {
	c, err := control.Dial(ctx, filepath.Join(d.home, "s"))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx)
}

// save writes the config as an editor does: aside, then renamed over.
func (d *demo) save(name, text string) (time.Time, error) {
	path := filepath.Join(d.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return time.Time{}, fmt.Errorf("save %s: %w", name, err)
	}
	if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
		return time.Time{}, fmt.Errorf("save %s: %w", name, err)
	}
	at := time.Now()
	if err := os.Rename(path+".tmp", path); err != nil {
		return at, fmt.Errorf("save %s: %w", name, err)
	}
	return at, nil
}

// say prints one line: how long it took, what was done, what the agents saw.
func (d *demo) say(took time.Duration, did, saw string) {
	ms := "      "
	if took > 0 {
		ms = fmt.Sprintf("%4d ms", took.Milliseconds())
	}
	fmt.Fprintf(d.out, "%7s  %-44s %s\n", ms, did, saw)
}

// edit saves a file and waits until both agents were told that their lists of
// kind k changed. It returns how long the slower one waited.
func (d *demo) edit(ctx context.Context, k wire.Kind, name, text string) (time.Duration, error) {
	since := make([]int, len(d.agents))
	for i, a := range d.agents {
		since[i] = a.seen()
	}
	saved, err := d.save(name, text)
	if err != nil {
		return 0, err
	}
	var took time.Duration
	for i, a := range d.agents {
		at, err := a.note(ctx, k, since[i])
		if err != nil {
			return 0, err
		}
		took = max(took, at.Sub(saved))
	}
	return took, nil
}

// listed checks that both agents see exactly these names.
func (d *demo) listed(ctx context.Context, k wire.Kind, want ...string) error {
	for _, a := range d.agents {
		got, err := a.list(ctx, k)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s sees the %s %s, not %s", a.name, k, names(got), names(want))
		}
	}
	return nil
}

// silent says that no agent was told anything since.
func (d *demo) silent(since []int) error {
	for i, a := range d.agents {
		if n := a.seen(); n != since[i] {
			return fmt.Errorf("%s was told of %d changes that were none", a.name, n-since[i])
		}
	}
	return nil
}

func (d *demo) counts() []int {
	since := make([]int, len(d.agents))
	for i, a := range d.agents {
		since[i] = a.seen()
	}
	return since
}
