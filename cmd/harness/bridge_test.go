package main

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"harness/pkg/control"
)

func TestBridgeFlags_TakesAPathAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		args   string
		socket string
		help   bool
		err    string
	}{
		{args: ""},
		{args: "--socket /a/b", socket: "/a/b"},
		{args: "--socket=/a/b", socket: "/a/b"},
		{args: "--config x --socket /a", socket: "/a"},
		{args: "--socket /a --help", socket: "/a", help: true},
		{args: "-h --nonsense", help: true},
		{args: "--socket", err: "--socket needs a path"},
		{args: "--socket=", err: "--socket needs a path"},
		{args: "--config", err: "--config needs a path"},
		{args: "--json", err: `mcp takes --socket PATH and nothing else; it was given "--json"`},
		{args: "up", err: `mcp takes --socket PATH and nothing else; it was given "up"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			flags, help, err := bridgeFlags(strings.Fields(c.args))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(c.err, text); diff != "" {
				t.Fatal(diff)
			}
			if err == nil && (help != c.help || flags != control.Flags{Socket: c.socket}) {
				t.Errorf("got %+v, help %t", flags, help)
			}
		})
	}
}

func TestSizes_MakesThePipeLargeOnlyWhileItIsOfUse(t *testing.T) {
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	size := func() int {
		n, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	usual := size()
	tell := sizes(w.Fd())
	tell(true)
	if n := size(); n <= usual {
		t.Errorf("%d bytes while large answers pass, %d before", n, usual)
	}
	tell(false)
	if n := size(); n != usual {
		t.Errorf("%d bytes once things are quiet, %d before", n, usual)
	}
}

func TestSizes_LeavesAloneWhatIsNoPipe(t *testing.T) {
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tell := sizes(f.Fd())
	tell(true)
	tell(false)
}
