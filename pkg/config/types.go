package config

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Kind says which of the two kinds of harness.toml a source is; they share a
// schema but not what they may say (CFG-4).
type Kind int

const (
	// Global is the user's own file: everything but [project].
	Global Kind = iota
	// Project is a file in a repository: [project], [harness.*] and [mcp.*],
	// and nothing that grants authority.
	Project
)

// String names the kind as messages do.
func (k Kind) String() string {
	if k == Project {
		return "project"
	}
	return "global"
}

// Source is one configuration file as it was read.
type Source struct {
	// Path is absolute. Relative paths inside the file are resolved against
	// its directory, and faults name it as it stands here.
	Path string
	// Data is the whole file. Load neither keeps nor changes it.
	Data []byte
	// Kind decides which tables are allowed.
	Kind Kind
}

// Env is what expansion may know of the world.
type Env struct {
	// Home replaces a leading `~`; empty means it is not known and `~` is a
	// fault.
	Home string
	// Lookup finds the value of `${VAR}`, as os.LookupEnv does. Nil means that
	// no variable is set.
	Lookup func(name string) (value string, ok bool)
}

// Config is one file that validated. Nothing in it is shared with the source
// or with another Config, and nobody writes to it.
type Config struct {
	// Path is the Source's.
	Path string `json:"-"`
	// Kind is the Source's.
	Kind Kind `json:"kind"`
	// Server has its defaults filled in; in a project file it is the zero
	// value, since such a file cannot speak of the server.
	Server Server `json:"server"`
	// Upstreams are the [mcp.*] tables by key, without the reserved "prompts".
	Upstreams map[string]Upstream `json:"upstreams"`
	// PromptPaths are the absolute directories of [mcp.prompts], in the order
	// written, which decides between prompts of one name (PRM-1).
	PromptPaths []string `json:"prompt_paths"`
	// Agents are the [harness.*] tables by name.
	Agents map[string]Agent `json:"agents"`
	// Profiles are the [profile.*] tables by name.
	Profiles map[string]Profile `json:"profiles"`
	// Project is [project] of a project file, with its default name filled in.
	Project ProjectInfo `json:"project"`
	// Where says where in the source things are. It has no meaning.
	Where Where `json:"-"`
	// Empty is true for a source of nothing but white space. Whether that is
	// an error (CFG-2) depends on what is in force, so the caller decides. A
	// file with a comment in it is not Empty.
	Empty bool `json:"-"`
}

// Server is the [server] table.
type Server struct {
	// LogLevel is debug, info, warn or error.
	LogLevel string `json:"log_level"`
	// Settle is how long a file must be quiet before it is read, at most
	// 500ms.
	Settle time.Duration `json:"settle"`
	// StopGrace is the time from the first polite sign to SIGKILL (LIF-3).
	StopGrace time.Duration `json:"stop_grace"`
	// Drain is how long calls in flight may keep a swapped-out process.
	Drain time.Duration `json:"drain"`
	// MaxMessage is the largest relayed message in bytes.
	MaxMessage int64 `json:"max_message"`
	// KeepRuns is how many runs of each harness are kept.
	KeepRuns int `json:"keep_runs"`
	// Roots are absolute directories, sorted, that packs, worktrees and
	// contracts may live under.
	Roots []string `json:"roots"`
}

// DefaultServer is what [server] means when it says nothing.
func DefaultServer() Server {
	return Server{
		LogLevel:   "info",
		Settle:     50 * time.Millisecond,
		StopGrace:  5 * time.Second,
		Drain:      10 * time.Minute,
		MaxMessage: 64 << 20,
		KeepRuns:   200,
		Roots:      []string{},
	}
}

// Update is how a changed upstream takes the place of the running one (HOT-4).
type Update string

const (
	// Swap starts the new process beside the old one.
	Swap Update = "swap"
	// Replace stops the old process first.
	Replace Update = "replace"
)

// Isolation is how many processes serve an upstream (MCP-5).
type Isolation string

const (
	// IsolationShared is one process for all sessions.
	IsolationShared Isolation = "shared"
	// IsolationSession is one process for each session.
	IsolationSession Isolation = "session"
)

// ToolFilter is which of an upstream's tools are offered: globs over the
// server's own names, sorted.
type ToolFilter struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

// Offers reports whether the filter lets a tool through: it matches one of
// allow and none of deny.
func (f ToolFilter) Offers(tool string) bool {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") } // a slash is a letter like any other here
	match := func(glob string) bool {
		ok, err := path.Match(flat(glob), flat(tool))
		return ok && err == nil
	}
	return slices.ContainsFunc(f.Allow, match) && !slices.ContainsFunc(f.Deny, match)
}

// Upstream is one [mcp.<key>] table with its defaults filled in, `~` and
// `${VAR}` expanded and paths absolute. It is a definition: what should run,
// not what does.
type Upstream struct {
	// Key is the table's own name.
	Key string `json:"key"`
	// Cmd is a bare name to be looked up in PATH, or an absolute path.
	Cmd string `json:"cmd"`
	// Args follow Cmd.
	Args []string `json:"args"`
	// EnvFile is the absolute path of a dotenv file, or "" for none.
	EnvFile string `json:"env_file"`
	// Env is set for the process after EnvFile. The values are secret as far
	// as this program's own output goes: they are in no JSON, log or fault.
	Env map[string]string `json:"-"`
	// Workdir is absolute.
	Workdir string `json:"workdir"`
	// RestartDelay is at least 10ms (LIF-2).
	RestartDelay time.Duration `json:"restart_delay"`
	// StartTimeout bounds the wait for an answer to initialize; it is more
	// than zero.
	StartTimeout time.Duration `json:"start_timeout"`
	// CallTimeout bounds one call; zero means no bound.
	CallTimeout time.Duration `json:"call_timeout"`
	// Enabled is the file's intent (LIF-1).
	Enabled bool `json:"enabled"`
	// Description is free text from the file.
	Description string `json:"description"`
	// Update is Swap or Replace.
	Update Update `json:"update"`
	// Isolation is IsolationShared or IsolationSession.
	Isolation Isolation `json:"isolation"`
	// Prestart false means started at first use.
	Prestart bool `json:"prestart"`
	// Tools filters what is offered.
	Tools ToolFilter `json:"tools"`
	// Line is where the table begins. It is no part of the definition.
	Line int `json:"-"`
}

// Agent is one [harness.<name>] table, resolved as an Upstream is.
type Agent struct {
	// Name is the table's own name.
	Name string `json:"name"`
	// Cmd is a bare name to be looked up in PATH, or an absolute path.
	Cmd string `json:"cmd"`
	// Args follow Cmd.
	Args []string `json:"args"`
	// EnvFile is the absolute path of a dotenv file, or "" for none.
	EnvFile string `json:"env_file"`
	// Env is set after EnvFile; its values are secret as an Upstream's are.
	Env map[string]string `json:"-"`
	// Workdir is absolute.
	Workdir string `json:"workdir"`
	// RestartDelay is at least 10ms (LIF-2).
	RestartDelay time.Duration `json:"restart_delay"`
	// Enabled is the file's intent (LIF-1).
	Enabled bool `json:"enabled"`
	// EnabledWritten is true when the file says enabled, whatever its value:
	// bringing a project up starts all harnesses but those with
	// `enabled = false` written out (CLI-6).
	EnabledWritten bool `json:"enabled_written"`
	// Description is free text from the file.
	Description string `json:"description"`
	// MCPAllow is what the harness may do over MCP: "read" always, "write"
	// where granted. Sorted.
	MCPAllow []string `json:"mcp_allow"`
	// MCPBridge says whether the harness is wired to the endpoint at spawn.
	MCPBridge bool `json:"mcp_bridge"`
	// Adapter is auto, claude-code, codex, opencode, gemini or generic.
	Adapter string `json:"adapter"`
	// MCP are globs over the keys of the upstreams it sees, sorted.
	MCP []string `json:"mcp"`
	// EnvPass are the names let through to a bounded run, sorted.
	EnvPass []string `json:"env_pass"`
	// Line is where the table begins. It is no part of the definition.
	Line int `json:"-"`
}

// Profile is one [profile.<name>] table.
type Profile struct {
	// Name is the table's own name.
	Name string `json:"name"`
	// Description is free text from the file.
	Description string `json:"description"`
	// Members are names of harnesses of the same file, sorted.
	Members []string `json:"members"`
	// Autostart is true for at most one profile of a file.
	Autostart bool `json:"autostart"`
	// Line is where the table begins. It is no part of the definition.
	Line int `json:"-"`
}

// ProjectInfo is the [project] table. In a global file it is the zero value.
type ProjectInfo struct {
	// Name defaults to the base name of the file's directory, with other
	// characters than letters, digits, - and _ replaced by -.
	Name string `json:"name"`
}

// Launch is an upstream as it would be spawned now: its definition plus what
// the file system adds to it. Config does not fill it in, since that takes a
// look at the disk; it is here because it is the unit that is compared,
// planned and started.
type Launch struct {
	Upstream
	// Exe is Cmd as found in PATH; "" when it was not found.
	Exe string
	// ExeErr says why Exe is empty.
	ExeErr string
	// EnvDigest is a keyed hash of the content of EnvFile. It lives in memory
	// only and is never stored or shown (CFG-5).
	EnvDigest string
}

// AgentLaunch is a harness as it would be spawned now, as [Launch] is for an
// upstream. Its name is the full one: "reviewer", or "shop/reviewer" of the
// project shop (CLI-6).
type AgentLaunch struct {
	Agent
	// Project is the project it belongs to, "" for the global file.
	Project string
	// Exe is Cmd as found in PATH; "" when it was not found.
	Exe string
	// ExeErr says why Exe is empty.
	ExeErr string
	// EnvDigest is a keyed hash of the content of EnvFile, in memory only
	// (CFG-5).
	EnvDigest string
}
