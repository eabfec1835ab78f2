package adapter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ClientOf returns the name of the CLI that calls itself client in initialize,
// "" where none is known by that.
func ClientOf(client string) string {
	for _, c := range clis() {
		if strings.HasPrefix(strings.ToLower(client), c.program) {
			return c.name
		}
	}
	return ""
}

// Lint says why a CLI, or the model behind it, would refuse a whole list for
// the sake of one tool in it, "" where it would not. name is one of [ClientOf]
// or of [Adapter.Name]; nothing is held against any other's tools.
func Lint(name string, tool []byte) (reason string) {
	for _, c := range clis() {
		if c.name != name {
			continue
		}
		for _, rule := range c.rules {
			if reason := rule(tool); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// members are the members of a raw object; ok is false for anything else.
func members(raw json.RawMessage) (all map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &all)
	return all, err == nil && all != nil
}

// sdkList is what the client of the protocol's TypeScript library demands of
// each tool before it takes a list at all; the CLIs that are built on it lose
// every tool of the server for one that is otherwise.
func sdkList(tool []byte) string {
	t, ok := members(tool)
	if !ok {
		return "it is not an object"
	}
	for _, name := range []string{"title", "description"} {
		if raw, there := t[name]; there && !isString(raw) {
			return name + " is not a string"
		}
	}
	if reason := sdkSchema("inputSchema", t["inputSchema"]); reason != "" {
		return reason
	}
	if raw, there := t["outputSchema"]; there {
		if reason := sdkSchema("outputSchema", raw); reason != "" {
			return reason
		}
	}
	for _, name := range []string{"annotations", "_meta", "execution"} {
		if raw, there := t[name]; there {
			if _, ok := members(raw); !ok {
				return name + " is not an object"
			}
		}
	}
	a, _ := members(t["annotations"])
	return lintAnnotations(a)
}

// sdkSchema is what it demands of a schema: an object that says that it is one,
// with a schema of its own for each property.
func sdkSchema(name string, raw json.RawMessage) string {
	s, ok := members(raw)
	if !ok {
		return name + " is not an object"
	}
	if string(s["type"]) != `"object"` {
		return name + `.type is not "object"`
	}
	if raw, there := s["properties"]; there {
		properties, ok := members(raw)
		if !ok {
			return name + ".properties is not an object"
		}
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			if p := properties[key]; len(p) == 0 || p[0] != '{' && p[0] != '[' {
				return fmt.Sprintf("%s.properties.%s is not an object", name, key)
			}
		}
	}
	if raw, there := s["required"]; there {
		var required []*string
		if json.Unmarshal(raw, &required) != nil || required == nil || slices.Contains(required, nil) {
			return name + ".required is not a list of strings"
		}
	}
	return ""
}

// lintAnnotations is what both demand of annotations.
func lintAnnotations(a map[string]json.RawMessage) string {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		value := string(a[name])
		switch {
		case name == "title" && !isString(a[name]):
			return "annotations.title is not a string"
		case slices.Contains(knownHints(), name) && value != "true" && value != "false":
			return "annotations." + name + " is neither true nor false"
		}
	}
	return ""
}

func knownHints() []string {
	return []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

// typedList is what a client demands that reads a list into types: what is there
// has to be of its type, or null.
func typedList(tool []byte) string {
	t, ok := members(tool)
	if !ok {
		return "it is not an object"
	}
	for _, name := range []string{"title", "description"} {
		if raw, there := t[name]; there && !isString(raw) && string(raw) != "null" {
			return name + " is not a string"
		}
	}
	if _, ok := members(t["inputSchema"]); !ok {
		return "inputSchema is not an object"
	}
	for _, name := range []string{"outputSchema", "annotations"} {
		if raw, there := t[name]; there && string(raw) != "null" {
			if _, ok := members(raw); !ok {
				return name + " is not an object"
			}
		}
	}
	a, _ := members(t["annotations"])
	maps.DeleteFunc(a, func(_ string, raw json.RawMessage) bool { return string(raw) == "null" })
	return lintAnnotations(a)
}

// isPropertyName reports whether the Messages API takes a property of that name.
// It is asked of every property at every list.
func isPropertyName(s string) bool {
	return 0 < len(s) && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '.' && r != '-'
	})
}

// anthropicSchema is what the Messages API demands of an input schema; it refuses
// the whole request otherwise.
func anthropicSchema(tool []byte) string {
	t, _ := members(tool)
	s, _ := members(t["inputSchema"])
	for _, name := range []string{"oneOf", "allOf", "anyOf"} {
		if _, there := s[name]; there {
			return "inputSchema has " + name + " at its top level"
		}
	}
	properties, _ := members(s["properties"])
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if !isPropertyName(key) {
			return fmt.Sprintf("inputSchema has a property %.80q, whose name may have letters, digits, _, . and - alone, 64 at most", key)
		}
	}
	return ""
}
