package adopt

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness/pkg/adapter"
	"harness/pkg/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func env() config.Env {
	vars := map[string]string{"SET": "canary-of-set", "OTHER": "x"}
	return config.Env{Home: "/home/u", Lookup: func(name string) (string, bool) { value, ok := vars[name]; return value, ok }}
}

// planOf is what comes of the files of a home, at /home/u, and a directory.
func planOf(t fataler, files map[string]string) Plan {
	var found []adapter.OwnServer
	for _, agent := range adapter.Agents() {
		own := adapter.ReadOwn(agent, adapter.World{Home: "/home/u", Dir: "/repo", Lookup: env().Lookup, ReadFile: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}})
		if len(own.Faults) > 0 {
			t.Fatalf("%v", own.Faults)
		}
		found = append(found, own.Servers...)
	}
	return Make(found, env())
}

type fataler interface{ Fatalf(string, ...any) }

const (
	claudeFile   = "/home/u/.claude.json"
	sharedFile   = "/repo/.mcp.json"
	codexFile    = "/home/u/.codex/config.toml"
	opencodeFile = "/home/u/.config/opencode/opencode.json"
	geminiFile   = "/home/u/.gemini/settings.json"
)

// homes are settings of agents, each with a golden file of what comes of them.
func homes() map[string]map[string]string {
	return map[string]map[string]string{
		"nothing": {},
		"alike": {
			claudeFile:   `{"mcpServers": {"fs": {"command": "fs", "args": ["/d"], "env": {"T": "canary"}}}}`,
			sharedFile:   `{"mcpServers": {"fs": {"command": "fs", "args": ["/d"], "env": {"T": "canary"}, "disabled": true, "timeout": 90000}}}`,
			codexFile:    "[mcp_servers.fs]\ncommand = 'fs'\nargs = ['/d']\nenv = { T = 'canary' }\nstartup_timeout_sec = 7200",
			opencodeFile: `{"mcp": {"fs": {"type": "local", "command": ["fs", "/d"], "environment": {"T": "canary"}}}}`,
			geminiFile:   `{"mcpServers": {"fs": {"command": "fs", "args": ["/d"], "env": {"T": "canary"}}}}`,
		},
		"different": {
			claudeFile: `{"mcpServers": {"a": {"command": "one"}, "x.y": {"command": "x"}, "x-y": {"command": "y"}, "x_y": {"command": "z"}}}`,
			sharedFile: `{"mcpServers": {"a": {"command": "two"}}}`,
			codexFile:  "[mcp_servers.a]\ncommand = 'three'\n[mcp_servers.a_codex]\ncommand = 'four'",
			geminiFile: `{"mcpServers": {"a": {"command": "three", "includeTools": ["t*", "[u]"]}, "prompts": {"command": "p"}, "harness-x": {"command": "h", "excludeTools": []}}}`,
		},
		"words": {
			claudeFile: `{"mcpServers": {"a": {"command": "./bin/${SET}", "args": ["${SET}", "$SET", "~"], "cwd": "w"}}}`,
			codexFile:  "[mcp_servers.b]\ncommand = 'sub/x'\nargs = ['${SET}', \"\\\"\\u007f\\u202E\\n\", '~/x']\ncwd = '/${x}'",
			geminiFile: `{"mcpServers": {"c": {"command": "x", "args": ["${SET:-canary}", "$SET$OTHER", "${NOT:-d}", "$NOT"]}}}`,
		},
		"secrets": {
			claudeFile: `{"mcpServers": {"a": {"command": "x", "env": {
				"TOKEN": "canary\n\"'#", "LOG": "${SET}", "MIXED": "canary${SET}", "LOST": "canary${NOT}", "A-B": "canary", "HARNESS_NAME": "canary", "DEFAULT": "${NOT:-canary}"}}}}`,
		},
		"refused": {
			claudeFile: `{"mcpServers": {"a": {"command": "x", "args": ["${NOT}", "nul\u0000"], "env": {"T": "canary"}}, "dollar": {"command": "x", "args": ["$${SET}"]}, "b": {"command": " "}, "ok": {"command": "x"}}}`,
		},
		"left out": {
			claudeFile: `{"mcpServers": {"harness": {"command": "/opt/harness", "args": ["mcp", "--socket", "/s"]}, "self": {"command": "env", "args": ["A=1", "harness", "mcp"]}, "not": {"command": "env", "args": ["harness", "serve-mcp"]}, "web": {"type": "http", "url": "x"}, "env": {"command": "env"}}}`,
		},
	}
}

func TestMake_Golden(t *testing.T) {
	t.Parallel()
	for name, files := range homes() {
		plan := planOf(t, files)
		got := plan.TOML("/conf/${x}")
		for _, s := range plan.Servers {
			if name, text, ok := s.EnvFile(); ok {
				got += "\n== " + name + " (" + fmt.Sprint(len(text)) + " bytes)\n"
			}
		}
		got += "\n== skipped\n" + lines(plan.Skipped) + "\n== notes\n" + lines(plan.Notes)
		golden := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if diff := cmp.Diff(string(want), got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if strings.Contains(got, "canary") {
			t.Errorf("%s: a value of env is in what is shown:\n%s", name, got)
		}
	}
}

func lines(list []Skipped) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "%s %s %q: %s\n", s.Agent, s.File, s.Name, s.Reason)
	}
	return b.String()
}

func TestMake_PutsValuesIntoEnvFilesAsTheyAre(t *testing.T) {
	t.Parallel()
	plan := planOf(t, homes()["secrets"])
	_, text, _ := plan.Servers[0].EnvFile()
	vars, err := config.ParseEnvFile(text)
	want := []config.EnvVar{{Name: "DEFAULT", Value: "canary"}, {Name: "MIXED", Value: "canarycanary-of-set"}, {Name: "TOKEN", Value: "canary\n\"'#"}}
	if diff := cmp.Diff(want, vars); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"DEFAULT", "LOG", "MIXED", "TOKEN"}, plan.Servers[0].Variables()); diff != "" {
		t.Error(diff)
	}
}

// entry is an entry of any agent, with words that are hard to spell.
func entry(t *rapid.T, name string) string {
	word := rapid.OneOf(rapid.StringMatching(`[${}:~/"\\a-]{0,6}(SET|NOT)?[}a]?`), rapid.String())
	text, err := json.Marshal(map[string]any{
		"command": word.Draw(t, name+" command"), "args": rapid.SliceOfN(word, 0, 3).Draw(t, name+" args"), "cwd": word.Draw(t, name+" cwd"),
		"env": rapid.MapOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Z_]{1,8}`)), word, 0, 3).Draw(t, name+" env"),
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(text)
}

// Whatever agents say, the file that comes of it is valid, its servers are
// those of the plan, and their words those of the agents.
func TestMake_WhatComesOutIsAlwaysValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		servers := func(agent string) string {
			var all []string
			for _, name := range rapid.SliceOfNDistinct(rapid.OneOf(rapid.String(), rapid.StringMatching(`[ab_-]{1,3}`)), 0, 4, rapid.ID[string]).Draw(t, agent) {
				key, err := json.Marshal(name)
				if err != nil {
					t.Fatalf("%v", err)
				}
				all = append(all, string(key)+":"+entry(t, agent+" "+name))
			}
			return `{"mcpServers": {` + strings.Join(all, ",") + `}}`
		}
		plan := planOf(t, map[string]string{claudeFile: servers("claude"), geminiFile: servers("gemini"), sharedFile: servers("shared")})
		text := plan.TOML(rapid.StringMatching(`/[a${}" ]{0,5}`).Draw(t, "dir"))
		c, _, faults := config.Load(config.Source{Path: "/x/harness.toml", Data: []byte(text)}, env())
		if len(faults) > 0 {
			t.Fatalf("%v\n%s", faults, text)
		}
		for _, s := range plan.Servers {
			u, there := c.Upstreams[s.Key]
			if there != (s.Held == "") {
				t.Fatalf("%s is in the file: %t, and held: %q", s.Key, there, s.Held)
			}
			if _, data, ok := s.EnvFile(); ok {
				if vars, err := config.ParseEnvFile(data); err != nil || len(vars) != len(s.Secrets) {
					t.Fatalf("its env_file is read as %v, %v", vars, err)
				}
				if there && u.EnvFile == "" {
					t.Fatalf("%s has no env_file", s.Key)
				}
			}
		}
	})
}

func TestTranslate_SpellsWordsThatAreReadBackAsTheyAre(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var word adapter.Text
		want := ""
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			switch n := len(word); {
			case rapid.Bool().Draw(t, "variable"):
				word = append(word, adapter.Part{Text: "SET", Variable: true})
				want += "canary-of-set"
			case n == 0 || word[n-1].Variable:
				text := rapid.StringMatching(`[${}SET]{1,5}`).Draw(t, "text")
				word = append(word, adapter.Part{Text: text})
				want += text
			}
		}
		tr := translator{env: env()}
		text := tr.spell("args", word)
		c, _, faults := config.Load(config.Source{Path: "/x/harness.toml", Data: []byte("[mcp.a]\ncmd = 'x'\nargs = [" + quote(text) + "]")}, env())
		if tr.problem == "" && (len(faults) > 0 || c.Upstreams["a"].Args[0] != want) {
			t.Errorf("%v is spelled %q: %v", word, text, faults)
		}
	})
}
