package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/broker"
	"harness/pkg/control"
	"harness/pkg/run"
	"harness/pkg/wire"
)

// shelf is a fleet of n runs and as many harnesses.
type shelf struct{ n int }

func (s shelf) Knowledge() *run.Knowledge {
	k, err := run.NewKnowledge(run.Catalog{Version: "1", Commands: []run.Command{
		{Path: "harness b", Roles: []string{run.Review}, Effect: run.Read}, {Path: "harness a", Roles: run.Roles(), Effect: run.Write},
	}})
	if err != nil {
		panic(err)
	}
	return k
}

func (shelf) Identify() Identity {
	return Identity{Version: "1", Instance: "i", API: control.APIVersion()}
}

func (s shelf) State() []StateItem {
	var list []StateItem
	for i := range s.n {
		list = append(list, StateItem{Kind: "harness", Name: fmt.Sprintf("h%03d", i)})
	}
	return list
}

func (s shelf) Runs(_, after string, n int) ([]run.Info, string, error) {
	return []run.Info{{ID: fmt.Sprintf("%s|%d", after, n)}}, "", nil
}

func (shelf) Run(id string) (run.Info, error) {
	switch id {
	case "none":
		return run.Info{}, &control.Problem{Code: wire.UnknownRun, Message: "none"}
	case "bad":
		return run.Info{}, &control.Problem{Code: wire.InvalidEvidence, Message: "runs/bad/x: changed"}
	case "broken":
		return run.Info{}, errors.New("secret path")
	}
	return run.Info{ID: id}, nil
}

func (s shelf) Messages(string) ([]run.Message, error) {
	list := make([]run.Message, s.n)
	for i := range list {
		list[i].ID = fmt.Sprint("m", i)
	}
	return list, nil
}

func (shelf) Receipts(string) ([]run.Receipt, error) {
	return []run.Receipt{{N: 1}, {N: 2}, {N: 3}}, nil
}
func (shelf) Context(id string) (run.Context, error) { return run.Context{Run: id}, nil }
func (s shelf) Card(string) (string, error)          { return strings.Repeat("x", s.n), nil }

func (shelf) Repositories(context.Context, string, int) ([]Repository, string, error) {
	return nil, "", nil
}
func (shelf) Packs(context.Context, string, int) ([]Pack, string, error) { return nil, "", nil }
func (shelf) Worktrees(string, int) ([]Worktree, string, error)          { return nil, "", nil }

// opened is an envelope as a client reads it.
type opened struct {
	Schema    string
	Items     []json.RawMessage
	Count     int
	NextAfter *string `json:"next_after"`
}

func readURI(t *testing.T, from Sources, uri string) (opened, error) {
	t.Helper()
	text, mime, err := Resources(from, Tools(&paper{})).Read(t.Context(), broker.Unattributed(), uri)
	var e opened
	if err == nil {
		if uerr := json.Unmarshal([]byte(text), &e); uerr != nil || mime != "application/json" || e.Count != len(e.Items) {
			t.Errorf("%s: %s, %v", uri, text, uerr)
		}
	}
	return e, err
}

func TestResources_AreEnvelopesByPage(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"harness://capabilities":                 "harness/capabilities/v1 1 -",
		"harness://commands":                     "harness/commands/v1 2 -",
		"harness://commands/implementation":      "harness/commands/v1 1 -",
		"harness://state":                        "harness/state/v1 100 harness:h099",
		"harness://state?after=harness:h099":     "harness/state/v1 50 -",
		"harness://state?limit=7":                "harness/state/v1 7 harness:h006",
		"harness://runs?limit=7&after=x":         "harness/runs/v1 1 -",
		"harness://runs/r/status":                "harness/status/v1 1 -",
		"harness://runs/r/messages?after=m148":   "harness/messages/v1 1 -",
		"harness://runs/r/receipts?after=1":      "harness/receipts/v1 2 -",
		"harness://runs/r/command-context":       "harness/command-context/v1 1 -",
		"harness://runs/r/command-card":          "harness/command-card/v1 1 -",
		"harness://repositories":                 "harness/repositories/v1 0 -",
		"harness://packs":                        "harness/packs/v1 0 -",
		"harness://worktrees":                    "harness/worktrees/v1 0 -",
		"harness://commands/review?limit=1":      "harness/commands/v1 1 harness a",
		"harness://commands?after=harness%20a":   "harness/commands/v1 1 -",
		"harness://runs/r/receipts?limit=2":      "harness/receipts/v1 2 2",
		"harness://runs/r/messages?limit=100":    "harness/messages/v1 100 m99",
		"harness://commands/orchestrator?after=": "harness/commands/v1 1 -",
	} {
		e, err := readURI(t, shelf{150}, uri)
		next := "-"
		if e.NextAfter != nil {
			next = *e.NextAfter
		}
		if got := fmt.Sprint(e.Schema, " ", e.Count, " ", next); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", uri, got, err, want)
		}
	}
}

func TestResources_RefuseWhatIsNone(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]error{
		"harness://":                        broker.ErrNoResource,
		"harness://nothing":                 broker.ErrNoResource,
		"harness://runs/":                   broker.ErrNoResource,
		"harness://runs//status":            broker.ErrNoResource,
		"harness://runs/a/b/status":         broker.ErrNoResource,
		"harness://runs/../status":          nil, // an id like any other, for who knows them
		"harness://commands/king":           broker.ErrNoResource,
		"harness://state?limit=0":           wire.ErrInvalidArgument,
		"harness://state?limit=101":         wire.ErrInvalidArgument,
		"harness://state?limit=x":           wire.ErrInvalidArgument,
		"harness://state?limit=1&limit=2":   wire.ErrInvalidArgument,
		"harness://state?before=1":          wire.ErrInvalidArgument,
		"harness://state?after=nobody":      wire.ErrInvalidArgument,
		"harness://state?%zz":               wire.ErrInvalidArgument,
		"harness://capabilities?limit=1":    wire.ErrInvalidArgument,
		"harness://runs/none/status":        wire.ErrUnknownRun,
		"harness://runs/bad/status":         wire.ErrInvalidEvidence,
		"harness://runs/large/command-card": wire.ErrOutputLimit,
	} {
		n := 3
		if strings.Contains(uri, "large") {
			n = 256 << 10
		}
		if _, err := readURI(t, shelf{n}, uri); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", uri, err, want)
		}
	}
}

// What the capabilities list is what there is, as it is listed.
func TestResources_CapabilitiesListWhatThereIs(t *testing.T) {
	t.Parallel()
	tools := Tools(&paper{})
	all := Resources(shelf{}, tools)
	for _, write := range []bool{true, false} {
		text, _, err := all.Read(t.Context(), broker.NewScope("a", "", nil, write), "harness://capabilities")
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Items []struct {
				Tools, Resources []string
				Templates        []string `json:"resource_templates"`
				LeafCount        int      `json:"leaf_count"`
				CatalogSHA256    string   `json:"catalog_sha256"`
			}
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		var names, uris, templates []string
		for _, tool := range tools {
			if write || !tool.Write {
				names = append(names, tool.Tool.Name)
			}
		}
		for _, r := range all.List() {
			if r.Template {
				templates = append(templates, r.URI)
			} else {
				uris = append(uris, r.URI)
			}
		}
		for _, list := range [][]string{names, uris, templates} {
			slices.Sort(list)
		}
		c := e.Items[0]
		if diff := cmp.Diff([][]string{names, uris, templates}, [][]string{c.Tools, c.Resources, c.Templates}); diff != "" || c.LeafCount != 2 || c.CatalogSHA256 != (shelf{}).Knowledge().CatalogSHA256 {
			t.Errorf("%+v\n%s", c, diff)
		}
	}
}

func FuzzReadURI(f *testing.F) {
	for _, uri := range []string{"harness://state?limit=1", "harness://runs/r/status", "harness://commands/review?after=x", "harness://runs/a%2fb/messages"} {
		f.Add(uri)
	}
	all := Resources(shelf{3}, nil)
	f.Fuzz(func(t *testing.T, uri string) {
		text, _, err := all.Read(t.Context(), broker.Unattributed(), uri)
		if err == nil && !json.Valid([]byte(text)) {
			t.Fatalf("%q: %s", uri, text)
		}
		if _, could := all.Operation(uri); !could && err == nil {
			t.Fatalf("%q is read and has no operation", uri)
		}
	})
}
