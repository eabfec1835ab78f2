package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// schemaOf is the schema of the envelopes of a kind, as it is kept.
func schemaOf(t testing.TB, kind string) *jsonschema.Resolved {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../pkg/facade/schemas", kind+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return r
}

// misfits are copies of a value, each with one member less, one more, or one of
// another type: what a schema that is worth its name does not let pass.
func misfits(v any) (all []any) {
	switch v := v.(type) {
	case map[string]any:
		more := maps.Clone(v)
		more["surplus"] = 1
		all = append(all, more)
		for k, one := range v {
			less, other := maps.Clone(v), maps.Clone(v)
			delete(less, k)
			other[k] = []any{[]any{}}
			all = append(all, less, other)
			for _, bad := range misfits(one) {
				within := maps.Clone(v)
				within[k] = bad
				all = append(all, within)
			}
		}
	case []any:
		for i, one := range v[:min(1, len(v))] {
			for _, bad := range misfits(one) {
				list := slices.Clone(v)
				list[i] = bad
				all = append(all, list)
			}
		}
	}
	return all
}

// Every resource is an envelope of its schema: over a fleet in which each has
// something to show, and by page. The schemas let nothing else pass (RES-1).
func TestResources_AreOfTheirSchemas(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.plainTree("roots")
	more, flow := h.flaky()
	h.configure(append(h.workers(), append(more, h.upstream("up"))...)...)
	h.start()
	s, boss := h.official(""), h.boss()
	id := runOf(t, structured(t, boss.call("harness_run_launch", map[string]any{"name": "slow", "role": "review", "idempotency_key": "k1"}))).ID
	steer := answered(t, structured(t, boss.call("harness_message_steer", map[string]any{"run": id, "body": "left", "idempotency_key": "k2"})))
	structured(t, boss.call("harness_message_ack", map[string]any{"run": id, "correlation_id": steer.Message.CorrelationID, "idempotency_key": "k3"}))
	h.must("message", "progress", id, "half")
	structured(t, boss.call("harness_worktree_create", map[string]any{"repo": h.path("roots/repo"), "name": "w", "idempotency_key": "k4"}))
	h.awaitFlow(answered(t, structured(t, boss.call("harness_workflow_start", map[string]any{"file": flow, "idempotency_key": "k5"}))).Workflow.ID, "failed")
	kinds := map[string]string{
		"capabilities": "capabilities", "commands": "commands", "state": "state", "runs": "runs", "runs/" + id + "/status": "status", "runs/" + id + "/messages": "messages",
		"runs/" + id + "/receipts": "receipts", "runs/" + id + "/command-context": "command-context", "runs/" + id + "/command-card": "command-card",
		"repositories": "repositories", "packs": "packs", "worktrees": "worktrees", "commands/review": "commands",
	}
	files, err := filepath.Glob("../pkg/facade/schemas/*.json")
	if err != nil || len(files) != len(kinds)-1 {
		t.Errorf("%d schemas of %d kinds, %v", len(files), len(kinds)-1, err)
	}
	for uri, kind := range kinds {
		schema := schemaOf(t, kind)
		seen, pages := 0, 0
		for at := "harness://" + uri; at != ""; pages++ {
			text := s.shown(at)
			var v any
			var e struct {
				Items     []json.RawMessage
				NextAfter *string `json:"next_after"`
			}
			if err := errors.Join(json.Unmarshal([]byte(text), &v), json.Unmarshal([]byte(text), &e)); err != nil {
				t.Fatalf("%s: %s: %v", at, text, err)
			}
			if err := schema.Validate(v); err != nil {
				t.Errorf("%s: %v", at, err)
			}
			if pages == 0 {
				for _, bad := range misfits(v) {
					if len(e.Items) > 0 && schema.Validate(bad) == nil && !lawful(v, bad) {
						t.Errorf("%s: the schema lets pass %.300s", uri, marshal(t, bad))
					}
				}
			}
			if len(text) > 256<<10 {
				t.Errorf("%s has %d bytes", at, len(text))
			}
			seen += len(e.Items)
			at = ""
			if e.NextAfter != nil {
				at = "harness://" + uri + "?limit=1&after=" + strings.ReplaceAll(*e.NextAfter, " ", "%20")
			} else if pages == 0 && slices.Contains([]string{"state", "runs", "runs/" + id + "/receipts", "runs/" + id + "/messages", "repositories"}, uri) {
				// Over again, one by one: it is the same in the end.
				at, pages, seen = "harness://"+uri+"?limit=1", 1, -len(e.Items)
			}
		}
		if pages <= 1 && seen == 0 || pages > 1 && seen != 0 {
			t.Errorf("%s: nothing is shown, or other items by page: %d after %d pages", uri, seen, pages)
		}
	}
}

// lawful reports whether what was made of an envelope differs from it only by
// the run of an actor, which not every one has.
func lawful(v, bad any) bool {
	return cmp.Equal(v, bad, cmp.FilterPath(func(p cmp.Path) bool {
		last, ok := p.Last().(cmp.MapIndex)
		return ok && last.Key().String() == "run" && strings.Contains(p.GoString(), `["actor"]`)
	}, cmp.Ignore()))
}

// What a session is listed is what the capabilities say, byte for byte; and of
// these no tool takes a command, a signal or a file to write to (MUT-4).
func TestResources_CapabilitiesAreWhatIsListed(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(append(h.workers(), h.upstream("up"))...)
	h.start()
	for _, write := range []bool{false, true} {
		o, want := h.official(""), slices.Clone(readTools)
		if write {
			o, want = h.boss(), append(want, writeTools...)
		}
		slices.Sort(want)
		var e struct {
			Items []struct {
				Tools, Resources, Excluded json.RawMessage
				Templates                  json.RawMessage `json:"resource_templates"`
			}
		}
		if err := json.Unmarshal([]byte(o.shown("harness://capabilities")), &e); err != nil || len(e.Items) != 1 {
			t.Fatal(err)
		}
		var tools, takes, uris, templates []string
		for tool, err := range o.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(tool.Name, "up__") {
				continue
			}
			tools = append(tools, tool.Name)
			schema := tool.InputSchema.(map[string]any)
			for name := range schema["properties"].(map[string]any) {
				takes = append(takes, name)
			}
			if schema["additionalProperties"] != false {
				t.Errorf("%s takes anything", tool.Name)
			}
		}
		for one, err := range o.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(one.URI, "harness://") {
				uris = append(uris, one.URI)
			}
		}
		for one, err := range o.ResourceTemplates(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(one.URITemplate, "harness://") {
				templates = append(templates, one.URITemplate)
			}
		}
		for what, pair := range map[string][2]string{
			"tools": {marshal(t, sorted(tools)), string(e.Items[0].Tools)}, "resources": {marshal(t, sorted(uris)), string(e.Items[0].Resources)},
			"templates": {unescaped(marshal(t, sorted(templates))), unescaped(string(e.Items[0].Templates))}, "what there is at all": {marshal(t, want), string(e.Items[0].Tools)},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s (write %v):\n%s listed\n%s in the capabilities", what, write, pair[0], pair[1])
			}
		}
		slices.Sort(takes)
		known := []string{"after", "arguments", "dir", "file", "id", "limit", "lines", "name", "offset"}
		if write {
			known = sorted(append(known, "base", "body", "branch", "correlation_id", "idempotency_key", "prompt_file", "repo", "role", "run", "timeout"))
		}
		if diff := cmp.Diff(known, slices.Compact(takes)); diff != "" {
			t.Errorf("what tools take (write %v, -known +is):\n%s", write, diff)
		}
	}
	boss := h.boss()
	for i, arguments := range []map[string]any{{"args": []string{"-c", "id"}}, {"argv": []string{"id"}}, {"cmd": "id"}, {"env": map[string]string{"A": "b"}}, {"workdir": "/"}, {"model": "m"}, {"shell": true}, {"output": "/tmp/x"}, {"signal": "KILL"}} {
		arguments["name"], arguments["idempotency_key"] = "quick", fmt.Sprint("k", i)
		if r := boss.call("harness_run_launch", arguments); r.code() != "invalid_argument" {
			t.Errorf("a launch with %v: %s", arguments, r)
		}
	}
	id := runOf(t, h.must("run", "slow", "-d", "--json")).ID
	for _, verb := range []string{"cancel", "verify", "wait", "run", "runs", "worktree_remove", "harness_run_cancel", "harness_run_kill", "harness_worktree_remove", "harness_shell", "harness_attach"} {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		if res, err := boss.CallTool(ctx, &mcp.CallToolParams{Name: verb, Arguments: map[string]any{"run": id, "name": "w"}}); err == nil && !res.IsError {
			t.Errorf("%s was called: %+v", verb, res)
		}
		stop()
	}
	if r := runOf(t, h.must("runs", id, "--json")); r.State != "running" {
		t.Errorf("it was ended: %+v", r)
	}
}

// unescaped is JSON without the escapes that are for HTML.
func unescaped(s string) string { return strings.ReplaceAll(s, `\u0026`, "&") }

// The catalog is the tree that --help of the program shows, command by command
// and flag by flag (RES-2).
func TestResources_TheCatalogIsWhatHelpShows(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	o := h.official("")
	listed := map[string][]string{}
	for at := "harness://commands"; at != ""; {
		var e struct {
			Items []struct {
				Path  string
				Flags []struct{ Name string }
			}
			NextAfter *string `json:"next_after"`
		}
		if err := json.Unmarshal([]byte(o.shown(at)), &e); err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Items {
			names := []string{}
			for _, f := range c.Flags {
				names = append(names, f.Name)
			}
			listed[c.Path] = sorted(names)
		}
		at = ""
		if e.NextAfter != nil {
			at = "harness://commands?after=" + strings.ReplaceAll(*e.NextAfter, " ", "%20")
		}
	}
	shown := map[string][]string{}
	h.helps(nil, shown)
	if diff := cmp.Diff(shown, listed); diff != "" {
		t.Errorf("commands (-help +catalog):\n%s", diff)
	}
}

// helps collects the commands that --help shows below one, and their flags.
func (h *home) helps(path []string, shown map[string][]string) {
	h.t.Helper()
	below, flags, part := []string{}, []string{}, ""
	for line := range strings.Lines(h.must(append(slices.Clone(path), "--help")...)) {
		switch fields := strings.Fields(line); {
		case len(fields) == 0:
		case !strings.HasPrefix(line, " "):
			part = strings.TrimSpace(line)
		case strings.HasSuffix(part, "Flags:"):
			for _, word := range fields[:min(2, len(fields))] {
				if name, is := strings.CutPrefix(word, "--"); is {
					flags = append(flags, name)
				}
			}
		case strings.HasSuffix(part, "Commands:") && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   "):
			below = append(below, fields[0])
		}
	}
	if len(below) == 0 {
		shown[strings.Join(append([]string{"harness"}, path...), " ")] = sorted(flags)
	}
	for _, one := range below {
		h.helps(append(slices.Clone(path), one), shown)
	}
}
