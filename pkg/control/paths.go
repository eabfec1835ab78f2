package control

import (
	"path/filepath"
	"slices"
)

// Env is what the search for files reads of the world.
type Env struct {
	Get  func(key string) string // as os.Getenv
	Home string                  // the home directory, absolute; "" counts as /
	Cwd  string                  // the working directory, absolute; what relative paths are relative to
}

// Flags are the paths that were given on the command line; "" means not given.
type Flags struct {
	Config string
	Socket string
}

// Paths says where everything is, each absolute (section 2 of the contract:
// the first that applies).
type Paths struct {
	Config string // the global harness.toml
	State  string // the state directory
	Socket string // where a daemon listens
	// Pointer is the file in the state directory that names the live socket,
	// for clients whose environment was cleared (WHO-2a).
	Pointer string

	own      bool   // Socket is where none was named, in a directory that is harness's own
	explicit bool   // Socket was named by flag or HARNESS_SOCKET
	fallback string // the socket in the state directory
}

// Find works out the paths from flags and environment. It touches no file.
//
// XDG variables that hold a relative path are ignored, as their specification
// demands; a relative flag or HARNESS_ variable is relative to the working
// directory.
func Find(env Env, flags Flags) Paths {
	state := env.first("HARNESS_STATE_DIR", "XDG_STATE_HOME", "harness", ".local/state/harness")
	paths := Paths{
		State:    state,
		Config:   env.config(flags.Config),
		Pointer:  filepath.Join(state, "socket"),
		fallback: filepath.Join(state, "run", "harness.sock"),
	}
	paths.Socket, paths.explicit = env.socket(flags.Socket, paths.fallback)
	paths.own = !paths.explicit
	return paths
}

// Candidates lists the sockets a client should try, best first. pointed is the
// content of the pointer file, "" when there is none. A socket that was named
// outright is the only candidate: whoever names one wants that daemon or none.
func (p Paths) Candidates(pointed string) []string {
	if p.explicit {
		return []string{p.Socket}
	}
	list := []string{p.Socket}
	for _, path := range []string{pointed, p.fallback} {
		if path != "" && !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	return list
}

// config is the global file.
func (e Env) config(flag string) string {
	if flag != "" {
		return e.abs(flag)
	}
	return e.first("HARNESS_CONFIG", "XDG_CONFIG_HOME", "harness/harness.toml", ".config/harness/harness.toml")
}

// socket is where to listen, and whether somebody named it outright.
func (e Env) socket(flag, fallback string) (path string, explicit bool) {
	if flag != "" {
		return e.abs(flag), true
	}
	if own := e.Get("HARNESS_SOCKET"); own != "" {
		return e.abs(own), true
	}
	if dir := e.Get("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "harness", "harness.sock"), false
	}
	return fallback, false
}

// first is the variable of our own, or the tail under the XDG variable, or the
// tail under the home directory.
func (e Env) first(own, xdg, xdgTail, homeTail string) string {
	if path := e.Get(own); path != "" {
		return e.abs(path)
	}
	if dir := e.Get(xdg); filepath.IsAbs(dir) {
		return filepath.Join(dir, xdgTail)
	}
	return filepath.Join("/", e.Home, homeTail)
}

// abs makes a path absolute without asking the system.
func (e Env) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(e.Cwd, path)
}
