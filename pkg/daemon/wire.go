package daemon

import (
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"harness/pkg/adapter"
	"harness/pkg/agent"
	"harness/pkg/config"
	"harness/pkg/durable"
	"harness/pkg/identity"
)

// wiredDir is the directory, under the state's, of what wired agents read.
const wiredDir = "wired"

// wiring says how a harness is spawned beyond its definition.
type wiring struct {
	ids    *identity.Store
	exe    string // the program of harness, an absolute path
	socket string
	dir    string // of the files of all that are wired
	log    *slog.Logger
}

// wire says how a harness is started, in that environment, so that its agent
// has the endpoint (WHO-4). slot names the place of its files, of which each
// process that runs has its own. It starts and writes nothing.
func (w wiring) wire(l config.AgentLaunch, slot string, env []string) adapter.Wiring {
	if !l.MCPBridge {
		return adapter.Wiring{Args: l.Args, How: "not wired: mcp_bridge = false"}
	}
	vars := make(map[string]string, len(env))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	return adapter.Find(l.Adapter, l.Cmd, l.Args).Wire(adapter.Launch{
		Name: l.Name, Env: vars, Workdir: l.Workdir, Bridge: []string{w.exe, "mcp", "--socket", w.socket},
		Dir: w.private(slot), ReadFile: ReadRegular, RootOnly: adapter.RootOnly,
	})
}

// plan is how a spawn would be wired now, for who wants to know without one. An
// env_file that cannot be read counts as empty: it fails the start before this.
func (w wiring) plan(l config.AgentLaunch) adapter.Wiring {
	file, err := config.ReadEnvFile(l.EnvFile, ReadRegular)
	if err != nil {
		file = nil
	}
	return w.wire(l, l.Name, agent.Environment(environment(), file, l.Env))
}

// private is the directory of one process's files, while it runs.
func (w wiring) private(slot string) string {
	return filepath.Join(w.dir, url.PathEscape(slot))
}

// prepare wires a spawn and gives it its identity (WHO-1). The token is in its
// environment and nowhere else.
func (w wiring) prepare(l config.AgentLaunch, runID string, env []string) (agent.Spawn, error) {
	return w.prepareIn(l, l.Name, runID, env)
}

// prepareIn is prepare of a process that may be one of several of its harness.
func (w wiring) prepareIn(l config.AgentLaunch, slot, runID string, env []string) (agent.Spawn, error) {
	how := w.wire(l, slot, env)
	if err := w.write(slot, how.Files); err != nil {
		w.clear(slot)
		return agent.Spawn{}, err
	}
	badge := w.ids.Begin(l.Name, runID)
	vars := make(map[string]string, len(how.Env)+4)
	for _, entry := range how.Env {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	maps.Copy(vars, map[string]string{
		"HARNESS_NAME": l.Name, "HARNESS_SOCKET": w.socket, "HARNESS_RUN_ID": runID, "HARNESS_MCP_TOKEN": badge.Token().Reveal(),
	})
	return agent.Spawn{
		Args: how.Args, Env: vars,
		Bound: func(pid int, start uint64) { badge.Bind(identity.Process{PID: pid, Start: start}) },
		Ended: func() { badge.End(); w.clear(slot) },
	}, nil
}

// write puts the files of a wiring where it says that they are.
func (w wiring) write(slot string, files []adapter.File) error {
	for _, f := range files {
		if err := durable.Write(filepath.Join(w.private(slot), f.Name), f.Data); err != nil {
			return fmt.Errorf("write what its agent reads: %w", err)
		}
	}
	return nil
}

// clear removes the files of one process: each spawn makes its own.
func (w wiring) clear(slot string) {
	if err := os.RemoveAll(w.private(slot)); err != nil {
		w.log.Warn("files of a wiring not removed", "of", slot, "error", err)
	}
}

// clearAll removes what an earlier daemon left that was killed.
func (w wiring) clearAll() {
	if err := os.RemoveAll(w.dir); err != nil {
		w.log.Warn("files of wirings not removed", "error", err)
	}
}
