package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
)

// meaning leaves out of a comparison where things stand in their file.
func meaning() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Line" }, cmp.Ignore())
}

func TestLoad_SeesMeaningAndNothingElse(t *testing.T) {
	text := goodFile(t, "everything.toml")
	want := mustLoad(t, text, config.Global)
	same := map[string]string{
		"a comment":          "# hello\n" + strings.Replace(text, "[mcp.gitea]", "[mcp.gitea] # there", 1),
		"white space":        strings.ReplaceAll(text, " = ", "   =\t"),
		"order of keys":      strings.Replace(text, "settle = \"100ms\"\nstop_grace = \"7s\"\n", "stop_grace = \"7s\"\nsettle = \"100ms\"\n", 1),
		"order of a set":     strings.Replace(text, `["reviewer", "plain"]`, `["plain", "reviewer"]`, 1),
		"another spelling":   strings.Replace(text, `"1m30s"`, `"90s"`, 1),
		"read written out":   strings.Replace(text, `["write"]`, `["write", "read"]`, 1),
		"a default left out": strings.Replace(text, "isolation = \"shared\"\n", "", 1),
	}
	for what, text := range same {
		if diff := cmp.Diff(want, mustLoad(t, text, config.Global), meaning()); diff != "" {
			t.Errorf("%s changed what the file means (-want +got):\n%s", what, diff)
		}
	}
	different := map[string]string{
		"the order of args":  strings.Replace(text, `"~/x", "~"`, `"~", "~/x"`, 1),
		"the order of paths": strings.Replace(text, `"prompts", "/srv/prompts"`, `"/srv/prompts", "prompts"`, 1),
		"a value of env":     strings.Replace(text, `DIR = "~/d"`, `DIR = "~/e"`, 1),
		"a name in env":      strings.Replace(text, `DIR = "~/d"`, `DIRS = "~/d"`, 1),
	}
	for what, text := range different {
		if cmp.Equal(want, mustLoad(t, text, config.Global), meaning()) {
			t.Errorf("%s did not change what the file means", what)
		}
	}
}

func TestConfig_HoldsNoEnvInItsJSON(t *testing.T) {
	cfg := mustLoad(t, goodFile(t, "everything.toml"), config.Global)
	plain, err := json.Marshal(cfg)
	if err != nil || strings.Contains(string(plain), canary) || strings.Contains(string(plain), "TOKEN") {
		t.Errorf("JSON of a Config shows env: %s (%v)", plain, err)
	}
}

func TestDefinitions_PrintTheirNameAlone(t *testing.T) {
	cfg := mustLoad(t, goodFile(t, "everything.toml"), config.Global)
	u, a := cfg.Upstreams["gitea"], cfg.Agents["reviewer"]
	a.Env = map[string]string{"TOKEN": canary}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("definitions", "upstream", u, "launch", config.Launch{Upstream: u}, "agent", a)
	out := log.String() + fmt.Sprintf("%v %+v %#v %s %v %+v %#v", u, u, u, config.Launch{Upstream: u}, a, a, a)
	if strings.Contains(out, canary) {
		t.Errorf("a value of env was printed: %s", out)
	}
	if !strings.Contains(out, "mcp.gitea") || !strings.Contains(out, "harness.reviewer") {
		t.Errorf("definitions are not named: %s", out)
	}
}

func TestSecret_IsNeverPrinted(t *testing.T) {
	v := config.EnvVar{Name: "TOKEN", Value: canary}
	encoded, err := json.Marshal(map[string]any{"value": v.Value, "var": v})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("secret", "value", v.Value, "var", v)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("secret", "value", v.Value, "var", v)
	out := fmt.Sprintf("%s %v %q %#v %x %v %+v %#v", v.Value, v.Value, v.Value, v.Value, v.Value, v, &v, v) + string(encoded) + log.String()
	if strings.Contains(out, canary) || strings.Contains(out, fmt.Sprintf("%x", canary)) {
		t.Errorf("the secret was printed: %s", out)
	}
	if v.Value.Reveal() != canary {
		t.Error("Reveal does not give the text")
	}
}
