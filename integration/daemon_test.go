package integration

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// daemon is a running `harness daemon` of a home.
type daemon struct {
	*home
	cmd    *exec.Cmd
	log    *buffer // its stderr
	exited chan struct{}
	killed bool
}

// run configures a quick daemon, starts it, and waits until its first catalog
// was published with every upstream that comes up in it.
func (h *home) run(tables ...string) *daemon {
	h.t.Helper()
	h.configure(append([]string{quick}, tables...)...)
	d := h.start()
	h.mustReload()
	return d
}

// edit replaces the tables of a quick daemon's config.
func (h *home) edit(tables ...string) {
	h.t.Helper()
	h.configure(append([]string{quick}, tables...)...)
}

// start starts a daemon and waits until it listens. When the test ends it is
// stopped, must exit 0, leave nothing running, and not have met a data race.
func (h *home) start(args ...string) *daemon {
	h.t.Helper()
	d := h.launch(args...)
	eventually(h.t, "the daemon listens", func() bool {
		select {
		case <-d.exited:
			h.t.Fatalf("the daemon exited: %v\n%s", d.cmd.ProcessState, d.log)
		default:
		}
		return d.listens()
	})
	return d
}

// launch starts a daemon and waits for nothing.
func (h *home) launch(args ...string) *daemon {
	h.t.Helper()
	line := slices.Concat(h.wrap, []string{filepath.Join(bin(h.t), "harness"), "daemon"}, args)
	d := &daemon{
		home: h, log: &buffer{}, exited: make(chan struct{}),
		cmd: h.command(context.Background(), line[0], line[1:]...),
	}
	d.cmd.Stderr, d.cmd.Stdout = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		defer close(d.exited)
		d.cmd.Wait()
	}()
	h.t.Cleanup(d.end)
	return d
}

// end is the last thing in a daemon's test.
func (d *daemon) end() {
	d.stop()
	if code := d.cmd.ProcessState.ExitCode(); code != 0 && !d.killed {
		d.t.Errorf("the daemon exited with %v", d.cmd.ProcessState)
	}
	if left := mentioning(d.t, d.dir+"/record-"); len(left) != 0 && !d.killed {
		d.t.Errorf("the daemon left %v", left)
	}
	if strings.Contains(d.log.String(), "DATA RACE") || strings.Contains(d.log.String(), "panic: ") {
		d.t.Error("the daemon met a data race or a panic")
	}
	if d.t.Failed() {
		d.t.Logf("log of the daemon:\n%s", tail(d.log.String(), 120))
	}
}

// stop asks the daemon to end and waits until it has.
func (d *daemon) stop() {
	d.t.Helper()
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
	case <-time.After(patience):
		d.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines, in the log
		<-d.exited
		d.t.Errorf("the daemon did not end on SIGTERM within %v", patience)
	}
}

// kill ends the daemon the way no program survives.
func (d *daemon) kill() {
	d.t.Helper()
	d.killed = true
	d.cmd.Process.Kill()
	<-d.exited
}

// listens reports whether something accepts on the socket.
func (d *daemon) listens() bool {
	c, err := net.DialTimeout("unix", d.socket(), time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

// tail is the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// steps are the steps of all plans so far, as "swap upstream up", whoever
// asked for them: the daemon may have read an edit before the test's reload.
func (d *daemon) steps() []string {
	var all []string
	for _, m := range regexp.MustCompile(`msg=step .*step="([^:"]+)`).FindAllStringSubmatch(d.log.String(), -1) {
		all = append(all, m[1])
	}
	return all
}
