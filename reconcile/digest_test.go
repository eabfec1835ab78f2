package reconcile

import (
	"crypto/sha256"
	"maps"
	"reflect"
	"slices"
	"testing"

	"harness/pkg/config"
	"harness/pkg/prompt"
)

// full is a desired state with one entry of each kind.
func full() *Desired {
	return &Desired{
		Server:      config.DefaultServer(),
		Upstreams:   map[string]Upstream{"gitea": {Launch: launch(), Enabled: true}},
		Prompts:     []prompt.Prompt{{Name: "review", Digest: sha256.Sum256([]byte("review"))}},
		PromptPaths: []string{"/p", "/q"},
		Agents:      map[string]Agent{"reviewer": agentOf("reviewer", func(l *config.AgentLaunch) { l.Cmd = "claude" })},
		Profiles:    map[string]config.Profile{"day": {Name: "day", Members: []string{"reviewer"}}},
		Projects:    map[string]Project{"shop": {Path: "/shop/harness.toml"}},
	}
}

// agentOf returns a harness that is to run.
func agentOf(name string, changes ...func(*config.AgentLaunch)) Agent {
	var a Agent
	a.Launch.Name, a.Enabled = name, true
	for _, c := range changes {
		c(&a.Launch)
	}
	return a
}

func TestDigest_DependsOnNoOrder(t *testing.T) {
	t.Parallel()
	d := full()
	d.Prompts = append(d.Prompts, prompt.Prompt{Name: "ask"})
	d.Upstreams["other"] = Upstream{Launch: launch()}
	want := d.Digest()
	shuffled := full()
	shuffled.Upstreams = map[string]Upstream{"other": {Launch: launch()}}
	maps.Copy(shuffled.Upstreams, full().Upstreams)
	shuffled.Prompts = append([]prompt.Prompt{{Name: "ask"}}, shuffled.Prompts...)
	before := slices.Clone(shuffled.Prompts)
	if got := shuffled.Digest(); got != want {
		t.Errorf("digest is %s, want %s", got, want)
	}
	if !reflect.DeepEqual(before, shuffled.Prompts) {
		t.Error("the prompts of the receiver were reordered")
	}
}

func TestDigest_TakesAbsentListsForEmptyOnes(t *testing.T) {
	t.Parallel()
	absent, empty := &Desired{}, &Desired{
		Upstreams: map[string]Upstream{}, Prompts: []prompt.Prompt{}, PromptPaths: []string{},
		Agents: map[string]Agent{}, Profiles: map[string]config.Profile{}, Projects: map[string]Project{},
	}
	if absent.Digest() != empty.Digest() {
		t.Error("an absent list and an empty one have different digests")
	}
}

func TestDigest_ChangesOnlyKnowingly(t *testing.T) {
	t.Parallel()
	const want = "6158037234b5a00c19f0869c2fa20a4f6bdd49a9409442a54879b06f58ff54eb"
	if got := full().Digest(); got != want {
		t.Errorf("digest is %s, want %s: it is stored, so an updated daemon counts a new generation where it differs", got, want)
	}
}

// inDigest holds the digest to the fields of one struct inside Desired.
func inDigest[T any](t *testing.T, excluded map[string]string, put func(*Desired, T)) {
	t.Helper()
	digest := func(v T) string {
		d := full()
		put(d, v)
		return d.Digest()
	}
	everyField(t, excluded, func(t *testing.T, field string, a, b T) {
		t.Helper()
		if digest(a) == digest(b) {
			t.Errorf("a change of %s leaves the digest as it is", field)
		}
	})
	var base T
	for _, l := range leaves(reflect.TypeFor[T]()) {
		if _, out := excluded[l.path]; out && digest(base) != digest(altered(t, base, l)) {
			t.Errorf("a change of %s, which is excluded, changes the digest", l.path)
		}
	}
}

func TestDigest_CoversOrExcludesEveryField(t *testing.T) {
	t.Parallel()
	line := "where a table stands has no meaning"
	t.Run("Server", func(t *testing.T) {
		t.Parallel()
		inDigest(t, nil, func(d *Desired, v config.Server) { d.Server = v })
	})
	t.Run("Upstream", func(t *testing.T) {
		t.Parallel()
		inDigest(t, map[string]string{
			"Nonce":                "a request, not a state",
			"Launch.Upstream.Line": line,
			"Launch.ExeErr":        "words about Exe, which is covered",
			"Launch.EnvDigest":     "derived from secrets, with a key of the process",
		}, func(d *Desired, v Upstream) { d.Upstreams["gitea"] = v })
	})
	t.Run("Agent", func(t *testing.T) {
		t.Parallel()
		inDigest(t, map[string]string{
			"Nonce":             "a request, not a state",
			"Launch.Agent.Line": line,
			"Launch.ExeErr":     "words about Exe, which is covered",
			"Launch.EnvDigest":  "derived from secrets, with a key of the process",
		}, func(d *Desired, v Agent) { d.Agents["reviewer"] = v })
	})
	t.Run("Project", func(t *testing.T) {
		t.Parallel()
		inDigest(t, nil, func(d *Desired, v Project) { d.Projects["shop"] = v })
	})
	t.Run("Profile", func(t *testing.T) {
		t.Parallel()
		inDigest(t, map[string]string{"Line": line}, func(d *Desired, v config.Profile) { d.Profiles["day"] = v })
	})
	t.Run("Prompt", func(t *testing.T) {
		t.Parallel()
		inDigest(t, map[string]string{"Body": "Digest stands for it"}, func(d *Desired, v prompt.Prompt) {
			d.Prompts = []prompt.Prompt{v}
		})
	})
	t.Run("Desired", func(t *testing.T) {
		t.Parallel()
		digest := full().Digest()
		for i := range reflect.TypeFor[Desired]().NumField() {
			d := full()
			field := reflect.ValueOf(d).Elem().Field(i)
			field.Set(reflect.Zero(field.Type()))
			if d.Digest() == digest {
				t.Errorf("without %s the digest is the same", reflect.TypeFor[Desired]().Field(i).Name)
			}
		}
	})
}

func TestDigest_DoesNotConfuseNeighbours(t *testing.T) {
	t.Parallel()
	with := func(args ...string) string {
		d := full()
		d.Upstreams["gitea"] = Upstream{Launch: launch(func(l *config.Launch) { l.Args = args })}
		return d.Digest()
	}
	seen := map[string][]string{}
	for _, args := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"abc", ""}, {"", "abc"}, {}} {
		digest := with(args...)
		if other, clash := seen[digest]; clash {
			t.Errorf("%q and %q have one digest", args, other)
		}
		seen[digest] = args
	}
}
