package reconcile

import (
	"maps"
	"slices"

	"harness/pkg/config"
	"harness/pkg/prompt"
)

// Change is how two definitions of one name differ.
type Change int

const (
	// Same means that there is nothing to do.
	Same Change = iota
	// Live means that what differs applies in place (HOT-4).
	Live
	// Respawn means that another process would be spawned.
	Respawn
)

// String names the change as a test failure shows it.
func (c Change) String() string {
	switch c {
	case Same:
		return "same"
	case Live:
		return "live"
	case Respawn:
		return "respawn"
	}
	return "unknown"
}

// keys gathers the names of keys that differ.
type keys []string

// note adds key unless its values are the same.
func (k *keys) note(key string, same bool) {
	if !same {
		*k = append(*k, key)
	}
}

// CompareLaunch says what it takes to get from a to b, and which keys of the
// file differ, those that need another process first. Where the definition
// stands in the file and whether the file enables it are not compared: the one
// has no meaning, the other is the intents' to decide.
func CompareLaunch(a, b config.Launch) (Change, []string) {
	if changed := compareSpawn(&a, &b); len(changed) > 0 {
		return Respawn, append(changed, compareLive(&a, &b)...)
	}
	if changed := compareLive(&a, &b); len(changed) > 0 {
		return Live, changed
	}
	return Same, nil
}

// compareSpawn lists the keys that decide which process is spawned.
func compareSpawn(a, b *config.Launch) keys {
	var k keys
	k.note("cmd", sameExe(a.Exe, a.Cmd, b.Exe, b.Cmd))
	k.note("args", slices.Equal(a.Args, b.Args))
	k.note("env", maps.Equal(a.Env, b.Env))
	k.note("env_file", a.EnvFile == b.EnvFile && a.EnvDigest == b.EnvDigest)
	k.note("workdir", a.Workdir == b.Workdir)
	k.note("isolation", a.Isolation == b.Isolation)
	return k
}

// compareLive lists the keys that apply to a process that is running.
func compareLive(a, b *config.Launch) keys {
	var k keys
	k.note("cmd", a.Cmd == b.Cmd || !sameExe(a.Exe, a.Cmd, b.Exe, b.Cmd)) // else it is no live change
	k.note("restart_delay", a.RestartDelay == b.RestartDelay)
	k.note("start_timeout", a.StartTimeout == b.StartTimeout)
	k.note("call_timeout", a.CallTimeout == b.CallTimeout)
	k.note("description", a.Description == b.Description)
	k.note("update", a.Update == b.Update)
	k.note("prestart", a.Prestart == b.Prestart)
	k.note("tools", slices.Equal(a.Tools.Allow, b.Tools.Allow) && slices.Equal(a.Tools.Deny, b.Tools.Deny))
	return k
}

// sameExe reports whether the same program would be run. What counts is what
// PATH makes of cmd; where it makes nothing of either, cmd itself.
func sameExe(exeA, cmdA, exeB, cmdB string) bool {
	if exeA == "" && exeB == "" {
		return cmdA == cmdB
	}
	return exeA == exeB
}

// compareServer lists the keys of [server] that differ. All apply in place.
func compareServer(a, b config.Server) []string {
	var k keys
	k.note("log_level", a.LogLevel == b.LogLevel)
	k.note("settle", a.Settle == b.Settle)
	k.note("stop_grace", a.StopGrace == b.StopGrace)
	k.note("drain", a.Drain == b.Drain)
	k.note("max_message", a.MaxMessage == b.MaxMessage)
	k.note("keep_runs", a.KeepRuns == b.KeepRuns)
	k.note("roots", slices.Equal(a.Roots, b.Roots))
	return k
}

// CompareAgent is [CompareLaunch] for a harness.
func CompareAgent(a, b config.AgentLaunch) (Change, []string) {
	live := compareAgentLive(&a, &b)
	if changed := compareAgentSpawn(&a, &b); len(changed) > 0 {
		return Respawn, append(changed, live...)
	}
	if len(live) > 0 {
		return Live, live
	}
	return Same, nil
}

// compareAgentSpawn lists the keys that decide which process is spawned, and
// how it is wired to the endpoint.
func compareAgentSpawn(a, b *config.AgentLaunch) keys {
	var k keys
	k.note("cmd", sameExe(a.Exe, a.Cmd, b.Exe, b.Cmd))
	k.note("args", slices.Equal(a.Args, b.Args))
	k.note("env", maps.Equal(a.Env, b.Env))
	k.note("env_file", a.EnvFile == b.EnvFile && a.EnvDigest == b.EnvDigest)
	k.note("workdir", a.Workdir == b.Workdir)
	k.note("mcp_bridge", a.MCPBridge == b.MCPBridge)
	k.note("adapter", a.Adapter == b.Adapter)
	return k
}

// compareAgentLive lists the keys that apply to a process that is running.
func compareAgentLive(a, b *config.AgentLaunch) keys {
	var k keys
	k.note("cmd", a.Cmd == b.Cmd || !sameExe(a.Exe, a.Cmd, b.Exe, b.Cmd)) // else it is no live change
	k.note("restart_delay", a.RestartDelay == b.RestartDelay)
	k.note("description", a.Description == b.Description)
	k.note("mcp_allow", slices.Equal(a.MCPAllow, b.MCPAllow))
	k.note("mcp", slices.Equal(a.MCP, b.MCP))
	k.note("env_pass", slices.Equal(a.EnvPass, b.EnvPass))
	return k
}

// compareProfile lists the keys of a [profile.*] table that differ.
func compareProfile(a, b config.Profile) []string {
	var k keys
	k.note("description", a.Description == b.Description)
	k.note("members", slices.Equal(a.Members, b.Members))
	k.note("autostart", a.Autostart == b.Autostart)
	return k
}

// compareProject lists what differs between two projects of one name.
func compareProject(a, b Project) []string {
	var k keys
	k.note("path", a.Path == b.Path)
	k.note("mcp.prompts.paths", slices.Equal(a.PromptPaths, b.PromptPaths))
	return k
}

// comparePrompt lists what differs between two prompts of one name. Equal
// digests mean equal prompts, so the usual case costs one comparison.
func comparePrompt(a, b prompt.Prompt) []string {
	if a.Digest == b.Digest {
		return nil
	}
	var k keys
	k.note("title", a.Title == b.Title)
	k.note("description", a.Description == b.Description)
	k.note("arguments", slices.Equal(a.Arguments, b.Arguments))
	k.note("body", string(a.Body) == string(b.Body))
	k.note("file", a.File == b.File)
	return k
}
