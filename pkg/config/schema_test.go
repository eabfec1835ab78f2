package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// Every field of every section type has a key in its table and every key has a
// field, by name; so a field added later cannot be left unread.
func TestSchema_EveryFieldHasItsKey(t *testing.T) {
	for _, section := range []struct {
		of   reflect.Type
		keys []string
		// derived are fields that no key of their own fills in.
		derived []string
	}{
		{reflect.TypeFor[Server](), serverFields().names(), nil},
		{reflect.TypeFor[Upstream](), upstreamFields().names(), []string{"Key", "Line"}},
		{reflect.TypeFor[ToolFilter](), toolFields().names(), nil},
		{reflect.TypeFor[Agent](), agentFields().names(), []string{"Name", "EnabledWritten", "Line"}},
		{reflect.TypeFor[Profile](), profileFields().names(), []string{"Name", "Line"}},
		{reflect.TypeFor[ProjectInfo](), projectFields().names(), nil},
	} {
		var fields []string
		for _, f := range reflect.VisibleFields(section.of) {
			if !slices.Contains(section.derived, f.Name) {
				fields = append(fields, snake(f.Name))
			}
		}
		slices.Sort(fields)
		if diff := cmp.Diff(fields, section.keys); diff != "" {
			t.Errorf("%s (-fields +keys):\n%s", section.of.Name(), diff)
		}
	}
}

// snake turns a Go name into a key: RestartDelay is restart_delay, MCPAllow is
// mcp_allow.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		starts := unicode.IsUpper(r) && i > 0 &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if starts {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Each key fills in the field of its name and no other.
func TestSchema_EachKeyFillsItsField(t *testing.T) {
	other := map[string]any{
		"args": []any{"x"}, "env": map[string]any{"A": "x"}, "members": []any{"x"}, "roots": []any{"/x"},
		"tools": map[string]any{"deny": []any{"x"}}, "allow": []any{"x"}, "deny": []any{"x"},
		"mcp_allow": []any{"write"}, "mcp": []any{"x"}, "env_pass": []any{"X"},
		"enabled": true, "prestart": false, "mcp_bridge": false, "autostart": true,
		"keep_runs": int64(3), "max_message": "3MiB", "log_level": "warn",
		"update": "replace", "isolation": "session", "adapter": "codex",
		"settle": "3ms", "stop_grace": "3s", "drain": "3s",
		"restart_delay": "3s", "start_timeout": "3s", "call_timeout": "3s",
	}
	checkKeys(t, serverFields(), DefaultServer(), other)
	checkKeys(t, toolFields(), allTools(), other)
	checkKeys(t, agentFields(), newAgent("a", "/d", 1), other)
	checkKeys(t, profileFields(), Profile{}, other)
	checkKeys(t, projectFields(), ProjectInfo{}, other)
	other["enabled"] = false // an upstream's default is true
	checkKeys(t, upstreamFields(), newUpstream("u", "/d", 1), other)
}

// checkKeys reads each key alone, with a value other than its default, and
// compares which field changed.
func checkKeys[T any](t *testing.T, known fields[T], base T, other map[string]any) {
	t.Helper()
	for _, name := range known.names() {
		raw, ok := other[name]
		if !ok {
			raw = "x"
		}
		l := &loader{dir: "/d", src: Source{Path: "/d/harness.toml"}}
		got := base
		known[name](l, value{place("").key(name), raw}, &got)
		if len(l.faults) > 0 {
			t.Errorf("%s = %v: %v", name, raw, l.faults)
		}
		if diff := cmp.Diff([]string{name}, changedFields(base, got)); diff != "" {
			t.Errorf("%T: %s changed (-want +got):\n%s", base, name, diff)
		}
	}
}

func changedFields(a, b any) []string {
	var changed []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(a)) {
		if f.Name == "EnabledWritten" {
			continue
		}
		was, is := reflect.ValueOf(a).FieldByIndex(f.Index), reflect.ValueOf(b).FieldByIndex(f.Index)
		if !reflect.DeepEqual(was.Interface(), is.Interface()) {
			changed = append(changed, snake(f.Name))
		}
	}
	return changed
}

func TestToolFilter_LetsThroughWhatIsAllowedAndNotDenied(t *testing.T) {
	for _, tt := range []struct {
		f    ToolFilter
		yes  []string
		nope []string
	}{
		{allTools(), []string{"a", "a/b", "ü.x"}, nil},
		{ToolFilter{Allow: []string{"*"}, Deny: []string{"delete_*"}}, []string{"read", "undelete_x"}, []string{"delete_", "delete_a/b"}},
		{ToolFilter{Allow: []string{"read_?", "list"}}, []string{"read_a", "list"}, []string{"read_", "read_ab", "lists"}},
		{ToolFilter{}, nil, []string{"a"}},
	} {
		for _, name := range tt.yes {
			if !tt.f.Offers(name) {
				t.Errorf("%+v keeps %q back", tt.f, name)
			}
		}
		for _, name := range tt.nope {
			if tt.f.Offers(name) {
				t.Errorf("%+v lets %q through", tt.f, name)
			}
		}
	}
}
