package integration

import (
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

// TestScripts runs testdata/script: what reads as a session at a terminal.
// .github/CONTRIBUTING.md tells the commands added here.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup:               func(e *testscript.Env) error { return setUpScript(t, e) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon": scriptDaemon,
			"halt":   scriptStop,
			"kill9":  scriptKill,
			"until":  scriptUntil,
			"exits":  scriptExits,
			"save":   scriptSave,
			"calm":   scriptCalm,
		},
	})
}

// setUpScript gives a script the environment of a home. Its config is
// harness.toml beside the script's other files, and the runtime directory is
// elsewhere because a socket's path has to be short.
func setUpScript(t *testing.T, e *testscript.Env) error {
	t.Helper()
	run, err := os.MkdirTemp("", "h") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		return err
	}
	e.Defer(func() { os.RemoveAll(run) })
	for k, v := range environment(bin(t), e.WorkDir) {
		e.Setenv(k, v)
	}
	e.Setenv("XDG_RUNTIME_DIR", run)
	e.Setenv("HARNESS_CONFIG", filepath.Join(e.WorkDir, "harness.toml"))
	for _, dir := range []string{"home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(e.WorkDir, dir), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// scripted is the daemon of one script.
type scripted struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// daemonLog is the file, beside the script's own, that has the daemon's log.
const daemonLog = "daemon.log"

// scriptDaemon starts the daemon with the script's environment, its log in
// daemon.log, and waits until it listens.
func scriptDaemon(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("daemon has no !; use exec")
	}
	log, err := os.OpenFile(filepath.Join(ts.Getenv("WORK"), daemonLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	ts.Check(err)
	defer log.Close()
	path, err := programs()
	ts.Check(err)
	d := &scripted{cmd: exec.Command(filepath.Join(path, "harness"), append([]string{"daemon"}, args...)...), exited: make(chan struct{})}
	d.cmd.Dir, d.cmd.Stderr, d.cmd.Stdout = ts.Getenv("WORK"), log, log
	for _, k := range scriptEnv(ts) {
		d.cmd.Env = append(d.cmd.Env, k+"="+ts.Getenv(k))
	}
	ts.Check(d.cmd.Start())
	go func() {
		defer close(d.exited)
		d.cmd.Wait()
	}()
	pid := strconv.Itoa(d.cmd.Process.Pid)
	ts.Setenv("DAEMON", pid)
	ts.Defer(func() { d.end(ts) })
	socket := filepath.Join(ts.Getenv("XDG_RUNTIME_DIR"), "harness/harness.sock")
	poll(ts, "the daemon listens", func() bool {
		select {
		case <-d.exited:
			ts.Fatalf("the daemon exited: %s", ts.ReadFile(filepath.Join(ts.Getenv("WORK"), daemonLog)))
		default:
		}
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// scriptEnv are the variables a daemon of a script gets: those of a home, and
// what the script set that begins with HARNESS_ or TEST_.
func scriptEnv(ts *testscript.TestScript) []string {
	names := []string{"HARNESS_CONFIG", "HARNESS_STATE_DIR", "TEST_VALUE"}
	for name := range environment("", "") {
		names = append(names, name)
	}
	var set []string
	for _, name := range names {
		if ts.Getenv(name) != "" {
			set = append(set, name)
		}
	}
	return set
}

// end stops what a script left running.
func (d *scripted) end(ts *testscript.TestScript) {
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
	case <-time.After(patience):
		d.cmd.Process.Kill()
		<-d.exited
	}
	if log := ts.ReadFile(filepath.Join(ts.Getenv("WORK"), daemonLog)); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic: ") {
		ts.Logf("%s", log)
		ts.Fatalf("the daemon met a data race or a panic")
	}
}

// scriptStop ends the daemon with manners, and waits until it has. It is not
// "stop": that is a word of testscript, and ends the script with success.
func scriptStop(ts *testscript.TestScript, _ bool, _ []string) { endScripted(ts, syscall.SIGTERM) }

// scriptKill ends the daemon without manners.
func scriptKill(ts *testscript.TestScript, _ bool, _ []string) { endScripted(ts, syscall.SIGKILL) }

func endScripted(ts *testscript.TestScript, sig syscall.Signal) {
	pid, err := strconv.Atoi(ts.Getenv("DAEMON"))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, sig))
	poll(ts, "the daemon is gone", func() bool { return !alive(pid) })
}

// scriptUntil runs a command until its stdout matches: until REGEXP COMMAND….
// With ! it waits until stdout matches no longer.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until regexp command...")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	poll(ts, strings.Join(args, " "), func() bool {
		err := ts.Exec(args[1], args[2:]...)
		return re.MatchString(ts.ReadFile("stdout")) != neg && (err == nil || !neg)
	})
}

// scriptExits runs a command that must end with this code: exits CODE COMMAND….
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // testscript hands over what os/exec returned
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, not %s\nstdout: %s\nstderr: %s", code, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// scriptSave replaces a file the way a careful editor does: save TO FROM.
func scriptSave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: save to from")
	}
	to := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(to), 0o700))
	ts.Check(os.WriteFile(to+".new~", []byte(ts.ReadFile(args[1])), 0o600))
	ts.Check(os.Rename(to+".new~", to))
}

// scriptCalm holds a command's stdout to stay as it is for a moment, for what
// must not happen: calm COMMAND….
func scriptCalm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: calm command...")
	}
	ts.Check(ts.Exec(args[0], args[1:]...))
	before := ts.ReadFile("stdout")
	for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); {
		ts.Check(ts.Exec(args[0], args[1:]...))
		if after := ts.ReadFile("stdout"); after != before {
			ts.Fatalf("%s changed from\n%s\nto\n%s", strings.Join(args, " "), before, after)
		}
	}
}

// poll is eventually for scripts, with the 10 s they are promised.
func poll(ts *testscript.TestScript, what string, ok func() bool) {
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			ts.Fatalf("not within 10s: %s\nstdout: %s\nstderr: %s", what, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
		<-tick.C
	}
}
