package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"harness/pkg/contract"
)

// contractGuard is the hidden command that outlives a killed runner of contracts
// by the moment it takes to end what that ran.
const contractGuard = "contract-guard"

// runGuard guards what is recorded in the directory that it is given.
func runGuard(args []string, in io.Reader) int {
	// Whoever interrupts the runner does not mean this, and it ends with that.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if len(args) != 1 || contract.Guard(context.Background(), args[0], in, slog.New(slog.DiscardHandler)) != nil {
		return exitFailed
	}
	return exitDone
}

// waitForEnd reads until the process that holds the other end is gone, and becomes
// its arguments. Whoever interrupts the runner does not mean this.
const waitForEnd = `trap '' INT TERM HUP QUIT; read -r never; exec "$0" "$@"`

// startGuard has another process end what is recorded in dir once this one is
// gone, however that comes to be. stop is for when nothing is left.
func startGuard(dir string) (stop func(), err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard of a contract: %w", err)
	}
	defer theirs.Close()
	// A shell waits: it starts in a fifth of the time, and most of them wait in vain.
	cmd := exec.Command("/bin/sh", "-c", waitForEnd, exe, contractGuard, dir)
	// Not in a session of its own, by which a host knows what is not its own, but
	// out of the reach of the keyboard.
	cmd.Stdin, cmd.Dir, cmd.Env, cmd.SysProcAttr = theirs, "/", []string{}, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the guard of a contract: %w", err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		ours.Close()
	}, nil
}
