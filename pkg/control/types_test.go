package control

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestTypes_SayNullForWhatIsAbsentAndAnEmptyListForNone(t *testing.T) {
	t.Parallel()
	golden(t, "empty.json", map[string]any{
		"status": Status{LastReload: &LastReload{}}, "reload": ReloadResult{}, "event": Event{},
		"upstream": UpstreamStatus{}, "session": SessionStatus{}, "fault": Fault{}, "change": Change{},
		"prompts": PromptList{}, "prompt": PromptInfo{}, "argument": PromptArgument{},
		"units": UnitStates{}, "unit": UnitState{}, "version": VersionInfo{},
		"usage": Usage{}, "unit_usage": UnitUsage{},
	})
}

func TestTypes_SayWhatIsThere(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 1, 31, 33, 5e8, time.UTC)
	fault := Fault{File: "/h.toml", Line: OrNull(12), Key: OrNull("mcp.broken"), Message: "cmd is empty"}
	golden(t, "full.json", map[string]any{
		"status": Status{
			Version: "1.2.3", PID: 7, UptimeMS: 1500, Config: "/h.toml", Generation: 3, Digest: OrNull("ab"), Watch: "inotify",
			LastReload: &LastReload{At: at, OK: false, Errors: List[Fault]{fault}},
			Upstreams: List[UpstreamStatus]{{
				Name: "gitea", State: "running", Enabled: true, PID: OrNull(8), Restarts: 2, Tools: 40,
				Error: OrNull("exit 1"), Pending: OrNull("args changed"), NextRetryMS: OrNull(int64(250)), Instances: 2,
			}},
			Sessions: List[SessionStatus]{{ID: "s1", Client: OrNull("claude-code"), Since: at}},
			Prompts:  4,
		},
		"reload": ReloadResult{OK: true, Generation: 3, Changed: List[Change]{
			{Kind: "upstream", Name: "gitea", Action: "swap", Reason: "args changed", State: OrNull("running")},
		}},
		"event": Event{At: at, Kind: "state", Name: OrNull("mcp.gitea"), Generation: OrNull(uint64(3)), Message: "running"},
		"prompts": PromptList{Prompts: List[PromptInfo]{{
			Name: "review", Title: OrNull("Review"), File: "/p/review.md",
			Arguments: List[PromptArgument]{{Name: "topic", Required: true}},
		}}},
	})
}

func TestReloadRequest_CountsItsWaitInMilliseconds(t *testing.T) {
	t.Parallel()
	if got := (ReloadRequest{WaitMS: 1500}).Wait(); got != 1500*time.Millisecond {
		t.Errorf("wait is %v", got)
	}
}
