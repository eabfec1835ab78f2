package contract

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hostile is one thing that a contract must not be able to do. Each is run on a
// machine of its own: a root, a secret beside it, and a listener.
type hostile struct {
	name   string
	text   string // the contract; %s is the directory beside the root
	before func(t *testing.T, b *bench, beside string)
	// after tells whether it got what it wanted.
	after   func(t *testing.T, b *bench, a Answer, beside string) bool
	invalid bool   // it must not even validate
	outcome string // the verdict; "" means any
}

// leaked is whether the secret is in what the check said.
func leaked(t *testing.T, b *bench, a Answer, _ string) bool {
	out, stderr, _ := b.evidence(t, a.Session)
	return strings.Contains(out+stderr, "s3cr3t")
}

// written is whether something was written beside the root.
func written(t *testing.T, _ *bench, _ Answer, beside string) bool {
	found, err := os.ReadDir(beside)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(beside, "secret"))
	return err != nil || len(found) != 1 || !strings.HasPrefix(string(data), "s3cr3t")
}

// linkTo puts a link of that name into the root.
func linkTo(target string) func(*testing.T, *bench, string) {
	return func(t *testing.T, b *bench, beside string) {
		if err := os.Symlink(filepath.Join(beside, target), filepath.Join(b.root, "link")); err != nil {
			t.Fatal(err)
		}
	}
}

// survives is whether the process lives whose number is in the file pid.
func survives(t *testing.T, b *bench, _ Answer, _ string) bool {
	data, err := os.ReadFile(filepath.Join(b.root, "pid"))
	if err != nil {
		t.Fatal("it did not get as far as that: ", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return syscall.Kill(pid, 0) == nil
}

func said(want string) func(*testing.T, *bench, Answer, string) bool {
	return func(t *testing.T, b *bench, a Answer, _ string) bool {
		out, _, _ := b.evidence(t, a.Session)
		return strings.Contains(out, want)
	}
}

func fileCheck(name, more string) string {
	return "[contract]\nname='x'\n[[check]]\nname='it'\nfile='" + name + "'\n" + more
}

func hostiles() []hostile {
	digest := "sha256='" + strings.Repeat("0", 64) + "'\n"
	return []hostile{
		// Paths of the contract itself.
		{name: "a workdir above the root", text: "[contract]\nname='x'\nworkdir='..'\n[[check]]\nname='it'\ncmd='true'\n", invalid: true},
		{name: "an absolute workdir", text: "[contract]\nname='x'\nworkdir='/'\n[[check]]\nname='it'\ncmd='true'\n", invalid: true},
		{name: "a file above the root", text: fileCheck("../secret", ""), invalid: true},
		{name: "a file above the root, hidden", text: fileCheck("a/../../secret", ""), invalid: true},
		{name: "an absolute file", text: fileCheck("/etc/passwd", ""), invalid: true},
		{name: "a command above the root", text: "[contract]\nname='x'\n[[check]]\nname='it'\ncmd='../tool'\n", invalid: true},
		{name: "a prompt above the root", text: "[contract]\nname='x'\n[work]\ncmd='cat'\nprompt_file='../secret'\n[[check]]\nname='it'\ncmd='true'\n", invalid: true},
		{name: "a NUL in a path", text: "[contract]\nname='x'\n[[check]]\nname='it'\nfile=\"a\\u0000b\"\n", invalid: true},
		{name: "a variable of harness", text: "[contract]\nname='x'\nenv=['HARNESS_MCP_TOKEN']\n[[check]]\nname='it'\ncmd='env'\n", invalid: true},
		// Links.
		{name: "a file that is a link", text: fileCheck("link", digest), before: linkTo("secret"), outcome: Error},
		{name: "a file behind a linked directory", text: fileCheck("link/secret", digest), before: linkTo(""), outcome: Error},
		{name: "nothing behind a linked directory", text: fileCheck("link/none", "exists=false\n"), before: linkTo(""), outcome: Error},
		{name: "a link to nothing", text: fileCheck("link", "exists=false\n"), before: linkTo("none"), outcome: Error},
		{name: "a link that is there", text: fileCheck("link", "exists=true\n"), before: linkTo("secret"), outcome: Error},
		{name: "a command behind a linked directory", text: "[contract]\nname='x'\n[[check]]\nname='it'\ncmd='link/secret'\n", before: linkTo(""), outcome: Error},
		{name: "a workdir that is a link", text: "[contract]\nname='x'\nworkdir='link'\n[[check]]\nname='it'\ncmd='true'\n", before: linkTo(""), outcome: Error},
		{name: "a prompt that is a link", text: "[contract]\nname='x'\n[work]\ncmd='cat'\nprompt_file='link'\n[[check]]\nname='it'\ncmd='true'\n", before: linkTo("secret"), outcome: Error},
		{name: "a command that is a link", text: "[contract]\nname='x'\n[[check]]\nname='it'\ncmd='./link'\n", before: linkTo("secret"), outcome: Error},
		{name: "work that puts a link in the workdir's place", text: "[contract]\nname='x'\nworkdir='w'\n[work]\ncmd='sh'\nargs=['-c', 'cd ..; rm -rf w; ln -s %s w']\n[[check]]\nname='it'\ncmd='cat'\nargs=['secret']\n", before: func(t *testing.T, b *bench, _ string) { b.file(t, "w/x", "") }, after: func(t *testing.T, b *bench, a Answer, beside string) bool {
			return a.Verdict.Checks[0].Outcome == Pass
		}},
		{name: "a FIFO as a file", text: fileCheck("fifo", digest), before: func(t *testing.T, b *bench, _ string) {
			if err := syscall.Mkfifo(filepath.Join(b.root, "fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "JSON without end", text: fileCheck("deep", "json={pointer='/a',equals=1}\n"), before: func(t *testing.T, b *bench, _ string) { b.file(t, "deep", strings.Repeat("[", 1<<20)) }, outcome: Fail},
		{name: "a number that takes a gigabyte", text: fileCheck("n", "json={pointer='',equals=0}\n"), before: func(t *testing.T, b *bench, _ string) { b.file(t, "n", "1e-999999999") }, outcome: Fail},
		// Reading and writing elsewhere.
		{name: "read beside the root", text: sh("cat %s/secret"), after: leaked},
		{name: "read by way of a link", text: sh("cat link"), before: linkTo("secret"), after: leaked},
		{name: "read what root alone may read", text: sh("cat /etc/shadow && echo s3cr3t"), after: leaked},
		{name: "read the environment of the runner", text: sh("cat /proc/$PPID/environ /proc/*/environ | tr '\\0' '\\n'"), after: leaked},
		{name: "write beside the root", text: sh("echo x > %s/new; echo x >> %s/secret"), after: written},
		{name: "truncate beside the root", text: sh(": > %s/secret"), after: written},
		{name: "remove beside the root", text: sh("rm -f %s/secret; mv %s/secret ."), after: written},
		{name: "link out and write", text: sh("ln -s %s out; echo x > out/new"), after: written},
		{name: "write by the work", text: "[contract]\nname='x'\n[work]\ncmd='sh'\nargs=['-c', 'echo x > %s/new']\n[[check]]\nname='it'\ncmd='true'\n", after: written},
		{name: "write in the root, outside the workdir", text: sh("echo x > ../up", "workdir='w'"), before: func(t *testing.T, b *bench, _ string) { b.file(t, "w/x", "") }, after: func(_ *testing.T, b *bench, _ Answer, _ string) bool { return exists(b.root, "up") }},
		{name: "write to /tmp", text: sh("t=$(mktemp) && echo s3cr3t"), after: leaked},
		{name: "mount", text: sh("mount -t tmpfs none . && echo s3cr3t"), after: leaked},
		{name: "become more by a setuid program", text: sh("grep NoNewPrivs /proc/self/status"), after: said("NoNewPrivs:\t0")},
		// Environment and network.
		{name: "a variable that was not listed", text: sh("env"), after: leaked},
		{name: "the network", text: sh("exec 3<>/dev/tcp/127.0.0.1/$(cat port) && echo s3cr3t", "#"), after: leaked, before: func(t *testing.T, b *bench, _ string) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			b.file(t, "port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
		}},
		{name: "other interfaces", text: sh("cat /proc/net/dev"), after: said("eth0")},
		// Limits.
		{name: "output without end", text: sh("exec yes", "max_output='64KiB'"), outcome: Error, after: func(t *testing.T, b *bench, a Answer, _ string) bool {
			out, stderr, _ := b.evidence(t, a.Session)
			return len(out)+len(stderr) > 64<<10
		}},
		{name: "output on stderr", text: sh("exec yes >&2", "max_output='64KiB'"), outcome: Error},
		{name: "time without end", text: sh("trap '' TERM INT HUP; while :; do sleep 1; done", "timeout='300ms'"), outcome: Timeout},
		{name: "processor time without end", text: sh("while :; do :; done", "max_cpu='1s'"), outcome: Fail},
		{name: "memory without end", text: sh("head -c 300000000 /dev/zero | tail -c 250000000 | wc -c", "max_memory='64MiB'"), after: said("250000000")},
		{name: "a limit that is raised", text: sh("ulimit -t unlimited; ulimit -t", "max_cpu='5s'"), after: said("unlimited")},
		{name: "a core file", text: sh("ulimit -c"), after: func(t *testing.T, b *bench, a Answer, _ string) bool { return !said("0\n")(t, b, a, "") }},
		// Processes.
		{name: "a process in the background", text: sh("sleep 300 & echo $! > pid"), after: survives, outcome: Pass},
		{name: "a process without pipes", text: sh("sleep 300 > /dev/null 2>&1 < /dev/null & echo $! > pid"), after: survives, outcome: Pass},
		{name: "a process in a session of its own", text: sh("setsid sh -c 'echo $$ > pid; exec sleep 300' > /dev/null 2>&1 < /dev/null & while [ ! -s pid ]; do sleep 0.01; done"), after: survives, outcome: Pass},
		{name: "a process that daemonised itself", text: sh("(setsid sh -c '(trap \"\" HUP TERM; sh -c \"echo \\$PPID > pid\"; sleep 300) &' &) > /dev/null 2>&1 < /dev/null; while [ ! -s pid ]; do sleep 0.01; done; sleep 0.1"), after: survives, outcome: Pass},
		{name: "kill the runner", text: sh("kill -9 $PPID; kill -9 -1; echo done")},
		// Words.
		{name: "words like the runner's own", text: sh("echo 'harness: cannot' >&2; exit 125"), outcome: Fail},
		{name: "a pattern that takes for ever", text: sh("head -c 50000 /dev/zero | tr '\\0' a") + "stdout='(a*)*(a*)*$x'\n", outcome: Fail},
	}
}

func TestHostile_AContractGetsNothingButWhatItWasGiven(t *testing.T) {
	t.Setenv("S3CR3T", "s3cr3t")
	cases := hostiles()
	if len(cases) < 25 {
		t.Errorf("%d cases", len(cases))
	}
	for _, tc := range cases {
		t.Run(strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
			b := newBench(t)
			beside := t.TempDir()
			if err := os.WriteFile(filepath.Join(beside, "secret"), []byte("s3cr3t"), 0o755); err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(tc.text, "%s", beside)
			if strings.Contains(text, "/dev/tcp") {
				text = strings.Replace(text, "cmd = 'sh'", "cmd = 'bash'", 1)
			}
			if tc.before != nil {
				tc.before(t, b, beside)
			}
			if _, faults := Parse("c.toml", []byte(text)); tc.invalid != (len(faults) > 0) {
				t.Fatalf("faults: %v", faults)
			}
			if tc.invalid {
				return
			}
			began := time.Now()
			a := b.run(t, text)
			if tc.outcome != "" && a.Verdict.Outcome != tc.outcome {
				out, stderr, problem := b.evidence(t, a.Session)
				t.Errorf("%s\n%s%s%s", outcomes(a), out, stderr, problem)
			}
			if tc.after != nil && tc.after(t, b, a, beside) {
				t.Error("it got what it wanted")
			}
			if written(t, b, a, beside) {
				t.Error("something beside the root was changed")
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}
