package bench

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"harness/integration/bench/baseline"
)

// floorDaemon is a running floor over one echo server.
type floorDaemon struct {
	socket string
	pid    int
	bridge []string // the command of a client
	giver  []string // of one that hands its descriptors over
}

// startFloor starts the floor's daemon and returns when it listens.
func startFloor(tb testing.TB) *floorDaemon {
	tb.Helper()
	f := &floorDaemon{socket: filepath.Join(shortDir(tb), "s")}
	f.bridge, f.giver = against(tb, baseline.FloorBridge, f.socket), against(tb, baseline.FloorGiver, f.socket)
	argv := against(tb, baseline.FloorDaemon, append([]string{f.socket}, direct(tb)...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	f.pid = cmd.Process.Pid
	tb.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // it ends with its input, and has nothing to say
	})
	(&daemon{home: &home{tb: tb}}).poll("the floor listens", func() bool {
		conn, err := net.Dial("unix", f.socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return f
}
