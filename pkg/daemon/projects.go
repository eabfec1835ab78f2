package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness/pkg/config"
)

// withoutClashes returns a project's config without the upstreams whose key the
// global file has too, and a warning for each of those (CFG-4).
func withoutClashes(project, global *config.Config) (*config.Config, []config.Fault) {
	taken := make(map[string]string, len(global.Upstreams))
	for key := range global.Upstreams {
		taken[fold(key)] = key
	}
	var warnings []config.Fault
	own := *project
	own.Upstreams = maps.Clone(project.Upstreams)
	for _, key := range slices.Sorted(maps.Keys(project.Upstreams)) {
		other, clash := taken[fold(key)]
		if !clash {
			continue
		}
		delete(own.Upstreams, key)
		warnings = append(warnings, config.Fault{
			File: project.Path, Line: project.Upstreams[key].Line, Key: "mcp." + key,
			Message: fmt.Sprintf("not run: %s has mcp.%s, which wins; rename this one", global.Path, other),
		})
	}
	return &own, warnings
}

// fold makes keys equal that agents may take for one another (MCP-2).
func fold(key string) string { return strings.ReplaceAll(key, "-", "_") }
