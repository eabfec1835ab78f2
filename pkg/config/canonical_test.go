package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
)

func TestCanonical_SeesMeaningAndNothingElse(t *testing.T) {
	text := goodFile(t, "everything.toml")
	want := string(config.Canonical(mustLoad(t, text, config.Global)))
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
		if diff := cmp.Diff(want, string(config.Canonical(mustLoad(t, text, config.Global)))); diff != "" {
			t.Errorf("%s changed the canonical form (-want +got):\n%s", what, diff)
		}
	}
	different := map[string]string{
		"the order of args":  strings.Replace(text, `"~/x", "~"`, `"~", "~/x"`, 1),
		"the order of paths": strings.Replace(text, `"prompts", "/srv/prompts"`, `"/srv/prompts", "prompts"`, 1),
		"a value of env":     strings.Replace(text, `DIR = "~/d"`, `DIR = "~/e"`, 1),
		"a name in env":      strings.Replace(text, `DIR = "~/d"`, `DIRS = "~/d"`, 1),
	}
	for what, text := range different {
		if string(config.Canonical(mustLoad(t, text, config.Global))) == want {
			t.Errorf("%s did not change the canonical form", what)
		}
	}
}

func TestCanonical_HoldsNamesButNoValuesOfEnv(t *testing.T) {
	cfg := mustLoad(t, goodFile(t, "everything.toml"), config.Global)
	got := string(config.Canonical(cfg))
	if strings.Contains(got, canary) || !strings.Contains(got, `"TOKEN":"`) {
		t.Errorf("canonical form: %s", got)
	}
	plain, err := json.Marshal(cfg)
	if err != nil || strings.Contains(string(plain), canary) || strings.Contains(string(plain), "TOKEN") {
		t.Errorf("JSON of a Config shows env: %s (%v)", plain, err)
	}
}

// Every field of a definition is in its canonical form, but where it stands:
// a field added later cannot be forgotten.
func TestCanonical_ChangesWithEveryField(t *testing.T) {
	cfg := mustLoad(t, goodFile(t, "everything.toml"), config.Global)
	for _, key := range []any{cfg.Upstreams["gitea"], cfg.Agents["reviewer"], cfg.Profiles["day"], cfg.Server, cfg.Project} {
		typ := reflect.TypeOf(key)
		for i := range typ.NumField() {
			v := reflect.New(typ).Elem()
			v.Set(reflect.ValueOf(key))
			change(t, v.Field(i))
			was, is := canonicalOf(key), canonicalOf(v.Interface())
			if excluded := typ.Field(i).Name == "Line"; (was == is) != excluded {
				t.Errorf("%s.%s: canonical form changed: %v", typ.Name(), typ.Field(i).Name, was != is)
			}
		}
	}
}

// canonicalOf is the canonical form of a file with one table in it.
func canonicalOf(table any) string {
	var c config.Config
	switch table := table.(type) {
	case config.Upstream:
		c.Upstreams = map[string]config.Upstream{"x": table}
	case config.Agent:
		c.Agents = map[string]config.Agent{"x": table}
	case config.Profile:
		c.Profiles = map[string]config.Profile{"x": table}
	case config.Server:
		c.Server = table
	case config.ProjectInfo:
		c.Project = table
	}
	return string(config.Canonical(&c))
}

// change gives a field another value.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{"changed"}))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"changed": "x"}))
	case reflect.Struct:
		change(t, v.Field(0))
	default:
		t.Fatalf("no other value for a %s", v.Type())
	}
}

func TestClone_SharesNothing(t *testing.T) {
	cfg := mustLoad(t, goodFile(t, "everything.toml"), config.Global)
	clone := cfg.Clone()
	if diff := cmp.Diff(cfg, clone); diff != "" {
		t.Fatalf("clone differs (-was +clone):\n%s", diff)
	}
	before := string(config.Canonical(cfg))
	scribble(reflect.ValueOf(clone).Elem())
	if diff := cmp.Diff(before, string(config.Canonical(cfg))); diff != "" {
		t.Errorf("writing to the clone changed the original:\n%s", diff)
	}
	launch := config.Launch{Upstream: cfg.Upstreams["gitea"]}
	scribble(reflect.ValueOf(launch.Clone().Args))
	if diff := cmp.Diff(before, string(config.Canonical(cfg))); diff != "" {
		t.Errorf("writing to the clone of a launch changed the original:\n%s", diff)
	}
}

// scribble overwrites whatever slices and maps can be reached from v.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			scribble(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			v.Index(i).SetString("scribbled")
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			scribble(v.MapIndex(k))
			v.SetMapIndex(k, reflect.Value{})
		}
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
