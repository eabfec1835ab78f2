package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is how one command line ended.
type outcome struct {
	code     int
	out, err string
}

// invoke runs a command line in an empty home.
func invoke(t *testing.T, args ...string) outcome {
	t.Helper()
	return invokeIn(t, t.TempDir(), args...)
}

// invokeIn runs a command line in a home.
func invokeIn(t *testing.T, home string, args ...string) outcome {
	t.Helper()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, home)
	}
	for _, name := range []string{"HARNESS_CONFIG", "HARNESS_SOCKET", "HARNESS_STATE_DIR"} {
		t.Setenv(name, "")
	}
	var out, errOut bytes.Buffer
	root := newRoot(streams{strings.NewReader(""), &out, &errOut}, nil)
	root.SetArgs(args)
	code := report(&errOut, root.ExecuteContext(t.Context()))
	return outcome{code, out.String(), errOut.String()}
}

func TestRun_UsageErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"reloda", "harness: there is no command \"reloda\" (did you mean reload?); see `harness help`\n"},
		{"status extra", "harness: status takes no arguments; see `harness status --help`\n"},
		{"call", "harness: call takes the name of a tool; see `harness call --help`\n"},
		{"call x y", "harness: \"y\" is neither a JSON object nor KEY=VALUE\n"},
		{"status --jsno", "harness: unknown flag: --jsno; see `harness status --help`\n"},
		{"reload --wait -1s", "harness: --wait must not be negative\n"},
		{"logs mcp.x -n -1", "harness: -n must not be negative\n"},
		{"help nothing", "harness: there is no command or topic \"nothing\"; topics are " + strings.Join(topics(), ", ") + "\n"},
		{"import cursor", "harness: there is no agent \"cursor\"; import knows claude, codex, opencode, gemini\n"},
		{"daemon --log-format xml", "harness: --log-format is text or json, not \"xml\"\n"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			if diff := cmp.Diff(outcome{exitUsage, "", tc.want}, invoke(t, strings.Fields(tc.args)...), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRun_WithoutADaemonSaysHowToStartOne(t *testing.T) {
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"reload"}, {"tools"}, {"call", "x"}, {"prompts"}, {"events"}, {"logs", "mcp.x"}, {"start", "mcp.x"}} {
		got := invoke(t, args...)
		if got.code != exitUnreachable || got.out != "" || !strings.HasSuffix(got.err, "; start it with `harness daemon`\n") || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestInit_WritesAValidFileOnceAndNeverOverAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "harness.toml")
	first := invoke(t, "init", "--config", path)
	if first.code != exitDone {
		t.Fatalf("%+v", first)
	}
	if v := invoke(t, "validate", path); v.code != exitDone || v.out != path+" is valid\n" {
		t.Errorf("what init writes is not valid: %+v", v)
	}
	if err := os.WriteFile(path, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if second := invoke(t, "init", "--config", path); second.code != exitFailed || !strings.Contains(second.err, "is left as it is") {
		t.Errorf("%+v", second)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "# mine\n" {
		t.Errorf("the user's file is %q, %v", data, err)
	}
}

func TestStarter_ItsCommentedExampleIsValidToo(t *testing.T) {
	text := strings.ReplaceAll(string(starter()), "\n# [mcp", "\n[mcp")
	for _, key := range []string{"cmd", "args", "env_file"} {
		text = strings.ReplaceAll(text, "\n# "+key, "\n"+key)
	}
	c, warnings, faults := config.Load(config.Source{Path: "/x/harness.toml", Data: []byte(text)}, config.Env{Home: "/home/x"})
	if len(faults) > 0 || len(warnings) > 0 || len(c.Upstreams) != 1 {
		t.Errorf("faults %v, warnings %v", faults, warnings)
	}
}

func TestValidate_ReportsEveryFaultAndExitsOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "harness.toml")
	if err := os.WriteFile(path, []byte("[mcp.a]\ncmd = \"\"\n\n[mcp.b]\ncmd = \"x\"\nrestart_dely = \"1s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := invoke(t, "validate", "--json", path)
	var v validation
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != exitFailed || got.err != "" {
		t.Fatalf("%+v: %v", got, err)
	}
	var lines []string
	for _, f := range v.Errors {
		lines = append(lines, strings.TrimPrefix(faultText(f), filepath.Dir(path)+"/"))
	}
	want := []string{"harness.toml:2: mcp.a: cmd is empty", `harness.toml:6: mcp.b.restart_dely: unknown key, did you mean "restart_delay"?`}
	if diff := cmp.Diff(want, lines); diff != "" || v.OK {
		t.Error(diff)
	}
	if missing := invoke(t, "validate", path+".not"); missing.code != exitFailed || !strings.Contains(missing.err, "no such file; write one with `harness init`") {
		t.Errorf("%+v", missing)
	}
}

func TestHelp_EveryTopicAndEveryCommandHasAText(t *testing.T) {
	for _, topic := range topics() {
		if got := invoke(t, "help", topic); got.code != exitDone || !strings.HasPrefix(got.out, "# ") && !strings.Contains(got.out, "\n# ") {
			t.Errorf("%s: %+v", topic, got)
		}
	}
	root := newRoot(streams{strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}}, nil)
	for _, c := range root.Commands() {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help is %q", c.Name(), c.Short)
		}
		if got := invoke(t, "help", c.Name()); c.Name() != "help" && (got.code != exitDone || !strings.Contains(got.out, "Usage:")) {
			t.Errorf("help %s: %+v", c.Name(), got)
		}
	}
}

func TestReadme_NamesEveryCommandAndEveryTopic(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(streams{strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}}, nil)
	root.InitDefaultCompletionCmd()
	_, commands, _ := strings.Cut(string(data), "## Commands")
	for _, c := range root.Commands() {
		if !strings.Contains(commands, "`"+c.Name()+"`") && !strings.Contains(commands, "`"+c.Name()+" ") {
			t.Errorf("the README's table lacks %q", c.Name())
		}
	}
	for _, topic := range topics() {
		if !strings.Contains(commands, fmt.Sprintf("[%s](cmd/harness/help/%s.md)", topic, topic)) {
			t.Errorf("the README does not link the topic %q", topic)
		}
	}
}

func TestReadme_ItsConfigIsValid(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```toml\n")
	text, _, ok := strings.Cut(rest, "```")
	_, warnings, faults := config.Load(config.Source{Path: "/x/harness.toml", Data: []byte(text)}, config.Env{Home: "/home/x"})
	if !ok || len(faults)+len(warnings) > 0 {
		t.Errorf("faults %v, warnings %v", faults, warnings)
	}
}

func TestHelpConfig_HasEveryKeyWithItsDefault(t *testing.T) {
	data, err := helpFiles.ReadFile("help/config.md")
	if err != nil {
		t.Fatal(err)
	}
	d := config.DefaultServer()
	for _, want := range []string{
		"| `log_level` | `\"" + d.LogLevel + "\"`", "| `settle` | `\"" + d.Settle.String() + "\"`", "| `stop_grace` | `\"" + d.StopGrace.String() + "\"`",
		"| `drain` | `\"10m\"`", "| `max_message` | `\"64MiB\"`", fmt.Sprintf("| `keep_runs` | `%d`", d.KeepRuns), "| `roots` |",
		"| `cmd` |", "| `args` |", "| `env_file` |", "| `env` |", "| `workdir` |", "| `restart_delay` |", "| `start_timeout` |", "| `call_timeout` |",
		"| `enabled` |", "| `description` |", "| `update` |", "| `prestart` |", "`isolation`", "`tools`",
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("help config lacks %s", want)
		}
	}
}

func TestCallArguments_TakesJSONAndPairs(t *testing.T) {
	for _, tc := range []struct {
		args     []string
		in, want string
	}{
		{nil, "", `{}`},
		{[]string{`{"a": 9007199254740993}`}, "", `{"a": 9007199254740993}`},
		{[]string{"-"}, "{\n\"a\": 1e400}\n", `{ "a": 1e400}`},
		{[]string{"a=1", "b=x y", "c=", "d={\"e\":[]}", "e=\"q\"", "f=a=b"}, "", `{"a":1,"b":"x y","c":"","d":{"e":[]},"e":"q","f":"a=b"}`},
	} {
		got, err := callArguments(tc.args, strings.NewReader(tc.in))
		if err != nil || string(got) != tc.want {
			t.Errorf("%v: %s, %v", tc.args, got, err)
		}
	}
	for _, bad := range [][]string{{"[]"}, {"{"}, {"=x"}, {"-"}} {
		if _, err := callArguments(bad, strings.NewReader("[]")); !isUsage(err) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func isUsage(err error) bool { _, ok := errors.AsType[usageError](err); return ok }

func TestReportCall_EscapesWhatAChildSaysAndFailsWhereItFailed(t *testing.T) {
	var out, errOut bytes.Buffer
	err := reportCall(&out, &errOut, []byte(`{"content":[{"type":"text","text":"a\u001b[2J\nb"},{"type":"image"}]}`), false)
	if want := "a\\x1b[2J\nb\n(image content; --json shows it)\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v", out.String(), err)
	}
	err = reportCall(&out, &errOut, []byte(`{"isError":true,"content":[{"type":"text","text":"no"}]}`), false)
	if !errors.Is(err, silentError{}) || errOut.String() != "no\n" {
		t.Errorf("%q, %v", errOut.String(), err)
	}
}

func TestBridgeFlags_TakeASocketAndNothingElse(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want control.Flags
		help bool
		bad  bool
	}{
		{nil, control.Flags{}, false, false},
		{[]string{"--socket", "/s"}, control.Flags{Socket: "/s"}, false, false},
		{[]string{"--socket=/s"}, control.Flags{Socket: "/s"}, false, false},
		{[]string{"--config", "/c"}, control.Flags{}, false, false},
		{[]string{"-h"}, control.Flags{}, true, false},
		{[]string{"--socket"}, control.Flags{}, false, true},
		{[]string{"--token=x"}, control.Flags{}, false, true},
		{[]string{"extra"}, control.Flags{}, false, true},
	} {
		flags, help, err := bridgeFlags(tc.args)
		if flags != tc.want || help != tc.help || isUsage(err) != tc.bad {
			t.Errorf("%v: %+v, %t, %v", tc.args, flags, help, err)
		}
	}
}

func TestTable_MakesEveryCellSafe(t *testing.T) {
	var out bytes.Buffer
	if err := table(&out, []string{"A", "B"}, [][]string{{"x\x1b[31m", "\u202e"}, {"y", ""}}); err != nil {
		t.Fatal(err)
	}
	if want := "A          B\nx\\x1b[31m  \\u202e\ny\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}

func TestTable_WithoutRowsIsNothing(t *testing.T) {
	var out bytes.Buffer
	if err := table(&out, []string{"A"}, nil); err != nil || out.Len() > 0 {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestStatus_SaysWhyAnUpstreamIsStopped(t *testing.T) {
	problem, pending := "exited (code 1)", "the changed definition is starting"
	for _, tc := range []struct {
		u    control.UpstreamStatus
		want string
	}{
		{control.UpstreamStatus{State: "running", Enabled: true}, ""},
		{control.UpstreamStatus{State: "restarting", Enabled: true, Error: &problem}, problem},
		{control.UpstreamStatus{State: "running", Enabled: true, Error: &problem, Pending: &pending}, "pending: " + pending},
		{control.UpstreamStatus{State: "stopped", Enabled: true}, "starts at its first use"},
		{control.UpstreamStatus{Name: "x", State: "stopped"}, "not enabled, in the file or by hand; `harness start mcp.x` starts it"},
		{control.UpstreamStatus{State: "stopping"}, ""},
	} {
		if got := note(tc.u); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.u, got, tc.want)
		}
	}
}

func TestCleaner_EscapesLinesAndKeepsThem(t *testing.T) {
	var out bytes.Buffer
	c := newCleaner(&out, plainLine)
	if _, err := c.Write([]byte("a\x1bb\nhalf")); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil || out.String() != "a\\x1bb\nhalf" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestDemoServer_AnswersWhatTheDemoAsks(t *testing.T) {
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}
not json
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"made/up"}
`)
	var out bytes.Buffer
	if code := runDemoServer([]string{"v9"}, in, &out); code != exitDone {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{`"protocolVersion":"` + wire.Latest, `Says which version answers: v9.`, `"id":3,"error":{"code":-32601`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

func TestProgramVersion_IsNeverEmpty(t *testing.T) {
	got := invoke(t, "version")
	if want := "harness " + programVersion() + "\n"; got != (outcome{exitDone, want, ""}) || programVersion() == "" {
		t.Errorf("%+v", got)
	}
	if got, want := invoke(t, "version", "--json"), fmt.Sprintf("{\"version\":%q,\"api\":%q}\n", programVersion(), control.APIVersion()); got != (outcome{exitDone, want, ""}) {
		t.Errorf("%+v, want %s", got, want)
	}
}

// didYouMean is tested through run; here only that a tree can be built twice,
// since nothing of it is global.
func TestNewRoot_CanBeBuiltTwice(t *testing.T) {
	for range 2 {
		root := newRoot(streams{strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}}, nil)
		if _, _, err := root.Find([]string{"status"}); err != nil {
			t.Error(err)
		}
		root.SetArgs([]string{"version"})
		if err := root.ExecuteContext(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
