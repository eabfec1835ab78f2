package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestUpstreamKey_IsTheNameOrWhatIsNearestToIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, suffix, want string }{
		{"gitea", "", "gitea"},
		{"a_b-C9", "", "a_b-C9"},
		{"My Server!", "", "My-Server"},
		{"io.github/x", "", "io-github-x"},
		{"a__b___c_", "", "a_b_c"},
		{"ünï", "", "n"},
		{"…", "", "server"},
		{"", "_2", "server_2"},
		{"prompts", "", "mcp-prompts"},
		{"harness", "", "mcp-harness"},
		{"harness-x", "_codex", "mcp-harness-x_codex"},
		{"a-name-that-is-too-long-for-a-key", "", "a-name-that-is-too-long"},
		{"a-name-that-is-too_long-for-a-key", "_codex", "a-name-that-is-too_codex"},
	} {
		if got := UpstreamKey(tc.name, tc.suffix); got != tc.want {
			t.Errorf("%q, %q: %q, want %q", tc.name, tc.suffix, got, tc.want)
		}
	}
}

func TestUpstreamKey_CanAlwaysBeOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_-]{0,40}`), rapid.StringMatching(`(harness|prompts|list_trajectories)[-_a-z]{0,3}`)).Draw(t, "name")
		suffix := rapid.SampledFrom([]string{"", "_2", "_codex", "_opencode"}).Draw(t, "suffix")
		key := UpstreamKey(name, suffix)
		if problem := keyProblem(key); problem != "" || key == promptsKey || !strings.HasSuffix(key, suffix) {
			t.Errorf("%q is made %q: %s", name, key, problem)
		}
		if keyProblem(name) == "" && name != promptsKey && suffix == "" && key != name {
			t.Errorf("%q can be a key, and is made %q", name, key)
		}
	})
}

func TestSameKey_FoldsWhatAgentsFold(t *testing.T) {
	t.Parallel()
	if !SameKey("a_b", "a-b") || SameKey("a_b", "ab") {
		t.Error("- and _ are one character, and no other is")
	}
}

func TestLiteral_IsReadBackAsItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[${}A ]{0,8}`).Draw(t, "text")
		if got, problems := (Env{}).expand(Literal(text)); got != text || len(problems) > 0 {
			t.Errorf("%q is read back as %q, %v", text, got, problems)
		}
	})
}

func TestFormatEnvFile_IsReadBackAsItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\\"'n#= \n\r\t$]{0,8}`))
		var vars []EnvVar
		for _, name := range rapid.SliceOfDistinct(rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_]{0,5}`), rapid.ID[string]).Draw(t, "names") {
			v := EnvVar{name, Secret(value.Draw(t, "value"))}
			if EnvProblem(v) == "" {
				vars = append(vars, v)
			}
		}
		got, err := ParseEnvFile(FormatEnvFile(vars))
		if diff := cmp.Diff(vars, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestEnvProblem_SaysWhyNotWithoutTheValue(t *testing.T) {
	t.Parallel()
	for _, v := range []EnvVar{{"A-B", "canary"}, {"", "canary"}, {"HARNESS_NAME", "canary"}, {"A", "canary\x00"}} {
		if problem := EnvProblem(v); problem == "" || strings.Contains(problem, "canary") {
			t.Errorf("%s: %q", v.Name, problem)
		}
	}
	if problem := EnvProblem(EnvVar{"A", "x"}); problem != "" {
		t.Error(problem)
	}
}
