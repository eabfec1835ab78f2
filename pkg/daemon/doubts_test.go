package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
)

func TestDoubts_NameWhatWillNotComeUpAndNoValue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good.env"), "A=1\n")
	write(t, filepath.Join(dir, "bad.env"), "TOKEN=xyzzy\nno equals sign xyzzy\n")
	text := `
[mcp.fine]
cmd = "sh"
env_file = "good.env"
[mcp.words]
cmd = "sh -c true"
[mcp.gone]
cmd = "/nowhere/server"
workdir = "nowhere"
env_file = "nowhere.env"
[mcp.odd]
cmd = "sh"
workdir = "good.env"
env_file = "bad.env"
[harness.agent]
cmd = "no-such-agent"
[mcp.prompts]
paths = ["later", ".",
 "good.env"]
`
	c, _, faults := config.Load(config.Source{Path: filepath.Join(dir, "harness.toml"), Data: []byte(text)}, config.Env{Home: dir, Lookup: os.LookupEnv})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var got []string
	for _, w := range Doubts(c) {
		if strings.Contains(w.String(), "xyzzy") {
			t.Errorf("a value of an env_file is told: %s", w)
		}
		if w.File != c.Path || w.Line == 0 || w.Message == "" {
			t.Errorf("it does not say where or what: %+v", w)
		}
		got = append(got, fmt.Sprintf("%d: %s", w.Line, w.Key))
	}
	want := []string{
		"8: mcp.gone.cmd", "9: mcp.gone.workdir", "10: mcp.gone.env_file", "13: mcp.odd.workdir", "14: mcp.odd.env_file", "6: mcp.words.cmd",
		"16: harness.agent.cmd", "18: mcp.prompts.paths", "19: mcp.prompts.paths",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("doubts (-want +got):\n%s", diff)
	}
	if w := Doubts(c)[7]; w.String() != c.Path+":18: mcp.prompts.paths: "+dir+"/later: there is no such directory" {
		t.Errorf("a directory yet to appear: %s", w)
	}
	for i, want := range map[int]string{
		1: dir + "/nowhere: there is no such directory", 2: dir + "/nowhere.env: there is no such file", 3: dir + "/good.env: is not a directory",
		4: dir + "/bad.env: line 2: no = in the line, expected NAME=value",
	} {
		if w := Doubts(c)[i]; w.Message != want {
			t.Errorf("%s: %q, want %q", w.Key, w.Message, want)
		}
	}
	if w := Doubts(c)[5]; !strings.Contains(w.Message, `the words after "sh" belong in args`) {
		t.Errorf("words in cmd: %s", w.Message)
	}
}
