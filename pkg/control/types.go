package control

import (
	"encoding/json"
	"strings"
	"time"
)

// List is a JSON array that is [] when empty, never null (CLI-1).
type List[T any] []T

// MarshalJSON implements [json.Marshaler].
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// OrNull returns nil for the zero value of T and a pointer to v otherwise: in
// the shapes of this package what is absent is null (CLI-1).
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Fault is one thing that is wrong in one file.
type Fault struct {
	File    string  `json:"file"`
	Line    *int    `json:"line"` // null when the fault has no line
	Key     *string `json:"key"`  // dotted, such as "mcp.gitea.cmd"; null when the fault has no key
	Message string  `json:"message"`
}

// Status is the answer of "harness status --json" (CLI-3).
type Status struct {
	Version    string               `json:"version"`
	PID        int                  `json:"pid"`
	UptimeMS   int64                `json:"uptime_ms"`
	Config     string               `json:"config"` // absolute path of the global file
	Generation uint64               `json:"generation"`
	Digest     *string              `json:"digest"` // SHA-256 in hex; null before the first generation
	Watch      string               `json:"watch"`  // "inotify" or "polling"
	LastReload *LastReload          `json:"last_reload"`
	Upstreams  List[UpstreamStatus] `json:"upstreams"`
	Harnesses  int                  `json:"harnesses"`
	Sessions   List[SessionStatus]  `json:"sessions"`
	Prompts    int                  `json:"prompts"`
}

// LastReload says how the last reading of the files went.
type LastReload struct {
	At       time.Time   `json:"at"`
	OK       bool        `json:"ok"`
	Errors   List[Fault] `json:"errors"`
	Warnings List[Fault] `json:"warnings"`
}

// UpstreamStatus is one upstream as it is now.
type UpstreamStatus struct {
	Name        string  `json:"name"` // the key; "<project>/<key>" for a project's
	State       string  `json:"state"`
	Enabled     bool    `json:"enabled"`
	PID         *int    `json:"pid"`
	Restarts    int     `json:"restarts"`
	Tools       int     `json:"tools"`
	Error       *string `json:"error"`
	Pending     *string `json:"pending"` // what a swap that is not in force yet waits for; null when there is none
	NextRetryMS *int64  `json:"next_retry_ms"`
	Instances   int     `json:"instances"` // processes now: two while a swap lasts
}

// SessionStatus is one agent's MCP session.
type SessionStatus struct {
	ID      string    `json:"id"`
	Harness *string   `json:"harness"` // null when nobody's in particular
	Client  *string   `json:"client"`  // null until the client has said its name
	Since   time.Time `json:"since"`
}

// ReloadRequest asks for a pass over all followed files.
type ReloadRequest struct {
	DryRun bool  `json:"dry_run"` // plan only
	WaitMS int64 `json:"wait_ms"` // how long to wait for upstreams that are starting
	// AgeMS is how long ago the reload was asked for. What an edit changed since
	// then is part of the answer, although it was not this request that read it.
	AgeMS int64 `json:"age_ms"`
}

// Wait returns WaitMS as a duration.
func (r ReloadRequest) Wait() time.Duration { return time.Duration(r.WaitMS) * time.Millisecond }

// ReloadResult is the answer of "harness reload --json" (HOT-7). OK is false
// when a file was refused; Errors then say why and Changed is empty.
type ReloadResult struct {
	OK         bool         `json:"ok"`
	Generation uint64       `json:"generation"`
	Changed    List[Change] `json:"changed"`
	Errors     List[Fault]  `json:"errors"`
	Warnings   List[Fault]  `json:"warnings"`
}

// Change is one step of a plan. Reason names keys, never values.
type Change struct {
	Kind   string  `json:"kind"`
	Name   string  `json:"name"`
	Action string  `json:"action"`
	Reason string  `json:"reason"`
	State  *string `json:"state"` // null for what has no life of its own, and for a dry run
}

// Event is one thing that happened, one line of "harness events --json".
type Event struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"`
	Name       *string   `json:"name"`
	Generation *uint64   `json:"generation"`
	Message    string    `json:"message"`
}

// Harness is one harness as it is now (CLI-3).
type Harness struct {
	Name          string       `json:"name"` // "<project>/<name>" for a project's
	State         string       `json:"state"`
	Enabled       bool         `json:"enabled"`
	PID           *int         `json:"pid"`
	Restarts      int          `json:"restarts"`
	LastExit      *Exit        `json:"last_exit"`
	UptimeMS      *int64       `json:"uptime_ms"` // null where nothing runs
	Project       *string      `json:"project"`
	Profiles      List[string] `json:"profiles"`
	ConfigPending bool         `json:"config_pending"` // a changed definition waits for the next start (HOT-5)
	Description   *string      `json:"description"`
	// Error is why it does not run although it should, and NextRetry when that is
	// tried again; both are left out while all is well.
	Error     *string    `json:"error,omitempty"`
	NextRetry *time.Time `json:"next_retry_at,omitempty"`
}

// Exit is how a process ended: one of code and signal is null.
type Exit struct {
	Code   *int      `json:"code"`
	Signal *string   `json:"signal"`
	At     time.Time `json:"at"`
}

// HarnessList is the answer of "harness list --json" and "harness ps --json".
type HarnessList struct {
	Harnesses List[Harness] `json:"harnesses"`
}

// Description is the answer of "harness describe --json".
type Description struct {
	Harness
	Definition Definition `json:"definition"`
}

// Definition is what a file says of a harness, without the values of its
// environment.
type Definition struct {
	Cmd            string       `json:"cmd"`
	Args           List[string] `json:"args"`
	EnvFile        *string      `json:"env_file"`
	Env            List[string] `json:"env"` // the names
	Workdir        string       `json:"workdir"`
	RestartDelayMS int64        `json:"restart_delay_ms"`
	Enabled        bool         `json:"enabled"` // of a project's that does not say: true, since up starts it
	Description    *string      `json:"description"`
	MCPAllow       List[string] `json:"mcp_allow"`
	MCPBridge      bool         `json:"mcp_bridge"`
	Adapter        string       `json:"adapter"`
	MCP            List[string] `json:"mcp"`
	EnvPass        List[string] `json:"env_pass"`
}

// PromptInfo is one prompt as "harness prompts --json" lists it.
type PromptInfo struct {
	Name        string               `json:"name"`
	Title       *string              `json:"title"`
	Description *string              `json:"description"`
	Arguments   List[PromptArgument] `json:"arguments"`
	File        string               `json:"file"`
}

// PromptArgument is one declared argument of a prompt.
type PromptArgument struct {
	Name        string  `json:"name"`
	Description *string `json:"description"`
	Required    bool    `json:"required"`
}

// PromptList is the answer of "harness prompts --json".
type PromptList struct {
	Prompts List[PromptInfo] `json:"prompts"`
}

// UnitState is what became of one name of a start, stop or restart (CLI-6).
type UnitState struct {
	Name  string  `json:"name"` // as it was asked for: a harness, or "mcp.<key>"
	State string  `json:"state"`
	PID   *int    `json:"pid"`
	Error *string `json:"error"` // why the first try failed; null when it did not
	// Ready is true for what is stopped and starts by itself at its first use.
	Ready bool `json:"ready,omitempty"`
}

// Names is the body of a start, stop or restart.
type Names struct {
	Names List[string] `json:"names"`
}

// UnitStates is the answer to a start, stop or restart, in the order asked.
type UnitStates struct {
	Units List[UnitState] `json:"units"`
}

// LogsRequest asks for the log of one harness or upstream.
type LogsRequest struct {
	Name   string // a harness, or "mcp.<key>"
	Lines  int    // how many of the last lines; 0 means all that is kept
	Follow bool   // go on until the reader hangs up
}

// Logged is the answer of "harness logs --json".
type Logged struct {
	Name  string       `json:"name"`
	Lines List[string] `json:"lines"`
}

// LoggedLine is one line of "harness logs --follow --json".
type LoggedLine struct {
	Name string `json:"name"`
	Line string `json:"line"`
}

// NewLogged makes the answer of the text of a log.
func NewLogged(name string, text []byte) Logged {
	l := Logged{Name: name}
	for line := range strings.Lines(string(text)) {
		l.Lines = append(l.Lines, strings.TrimRight(line, "\r\n"))
	}
	return l
}

// VersionInfo is the answer of GET /v1/version.
type VersionInfo struct {
	Version string `json:"version"` // of the program
	API     string `json:"api"`     // of this interface, major.minor
	PID     int    `json:"pid"`
}

// UpRequest asks for a project to be up (CFG-4, CLI-6).
type UpRequest struct {
	Path string `json:"path"` // of its file, absolute
	// Approve is the SHA-256 of the text that the owner has approved, "" for
	// none; Yes approves whatever the file holds.
	Approve string `json:"approve"`
	Yes     bool   `json:"yes"`
}

// UpResult is the answer of "harness up --json". OK is true where the project is
// up, whether each of its harnesses runs or not.
type UpResult struct {
	OK      bool    `json:"ok"`
	Project *string `json:"project"` // null where the file does not validate
	Path    string  `json:"path"`
	SHA256  string  `json:"sha256"` // of the file
	// Unapproved is true where nothing was done, because nobody has said yet
	// that what is listed in Runs may run.
	Unapproved bool            `json:"unapproved"`
	Runs       List[Runs]      `json:"runs"`
	Prompts    List[string]    `json:"prompts"` // the directories whose prompts its agents are given
	Harnesses  List[UnitState] `json:"harnesses"`
	Errors     List[Fault]     `json:"errors"`
	Warnings   List[Fault]     `json:"warnings"`
}

// Runs is one thing that a project has the daemon run.
type Runs struct {
	Kind    string       `json:"kind"` // "harness" or "upstream"
	Name    string       `json:"name"` // in the file
	Cmd     string       `json:"cmd"`
	Args    List[string] `json:"args"`
	Workdir string       `json:"workdir"`
	EnvFile *string      `json:"env_file"`
	Env     List[string] `json:"env"`     // the names of what the file sets, without values
	Enabled bool         `json:"enabled"` // false: it waits for a start by hand
}

// Project is one project that is up.
type Project struct {
	Name string `json:"name"`
	Path string `json:"path"` // of its file
}

// ProjectList is the answer of GET /v1/projects.
type ProjectList struct {
	Projects List[Project] `json:"projects"`
}

// DownRequest names a project that is up.
type DownRequest struct {
	Project string `json:"project"`
}

// Profile is one profile as "harness profiles --json" lists it.
type Profile struct {
	Name        string       `json:"name"`
	Description *string      `json:"description"`
	Members     List[string] `json:"members"`
	Autostart   bool         `json:"autostart"`
	Enabled     bool         `json:"enabled"` // each of its members is
}

// ProfileList is the answer of "harness profiles --json".
type ProfileList struct {
	Profiles List[Profile] `json:"profiles"`
}

// UseRequest names a profile.
type UseRequest struct {
	Profile string `json:"profile"`
}

// UseResult is the answer of "harness use --json".
type UseResult struct {
	Profile string          `json:"profile"`
	Started List[UnitState] `json:"started"` // its members
	Stopped List[UnitState] `json:"stopped"` // those of other profiles alone that were enabled
}

// Usage is the answer of "harness top --json": what everything uses at one
// moment.
type Usage struct {
	At    time.Time       `json:"at"`
	Units List[UnitUsage] `json:"units"`
}

// UnitUsage is what the daemon, a harness or an upstream uses, with all that
// descends from it. What does not run uses nothing, and has null for it.
type UnitUsage struct {
	Kind      string `json:"kind"` // daemon, harness or upstream
	Name      string `json:"name"`
	State     string `json:"state"`
	PID       *int   `json:"pid"`
	Processes *int   `json:"processes"`
	CPUMS     *int64 `json:"cpu_ms"`       // of those that live, since each was started
	Memory    *int64 `json:"memory_bytes"` // resident; what processes share counts for each
	Restarts  int    `json:"restarts"`
}
