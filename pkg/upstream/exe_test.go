package upstream

import (
	"testing"

	"harness/pkg/config"
)

func TestWithLiveKeys_TakesAnotherWordForTheSameProgram(t *testing.T) {
	spawn := config.Launch{Upstream: config.Upstream{Cmd: "tool", Args: []string{"a"}}, Exe: "/bin/tool"}
	same := config.Launch{Upstream: config.Upstream{Cmd: "/bin/tool", Args: []string{"b"}}, Exe: "/bin/tool"}
	if got := withLiveKeys(spawn, same); got.Cmd != "/bin/tool" || got.Args[0] != "a" {
		t.Errorf("%q %q", got.Cmd, got.Args)
	}
	other := config.Launch{Upstream: config.Upstream{Cmd: "other"}, Exe: "/bin/other"}
	if got := withLiveKeys(spawn, other); got.Cmd != "tool" || got.Exe != "/bin/tool" {
		t.Errorf("%q %q", got.Cmd, got.Exe)
	}
}

func TestSameSpawn_AsksForTheProgramAndNotForItsName(t *testing.T) {
	a := config.Launch{Upstream: config.Upstream{Cmd: "tool"}, Exe: "/bin/tool"}
	b := config.Launch{Upstream: config.Upstream{Cmd: "/bin/tool"}, Exe: "/bin/tool"}
	c := config.Launch{Upstream: config.Upstream{Cmd: "tool"}, Exe: "/usr/bin/tool"}
	missing, gone := config.Launch{Upstream: config.Upstream{Cmd: "x"}}, config.Launch{Upstream: config.Upstream{Cmd: "y"}}
	if !sameSpawn(a, b) || sameSpawn(a, c) || sameSpawn(missing, gone) || !sameSpawn(missing, missing) {
		t.Error("the program is what counts, and its name only where there is none")
	}
}
