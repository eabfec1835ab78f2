package adapter

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// server is the name under which agents know the endpoint: tools are
	// called mcp__harness__… by the limits of MCP-2.
	server = "harness"

	// Auto is the setting by which a command says itself which CLI it is.
	Auto = "auto"
	// Generic is the setting for a CLI that is not known, and its name.
	Generic = "generic"
)

// Launch is a harness that is about to be spawned, beyond its command.
type Launch struct {
	// Name is the full name of the harness.
	Name string
	// Env is what the child gets without a wiring: values of the user's are
	// merged with ours, or win.
	Env map[string]string
	// Workdir is what relative paths of the user's are relative to.
	Workdir string
	// Bridge is the command of the bridge: an absolute path, mcp, --socket and
	// its path.
	Bridge []string
	// Dir is a private directory for files of ours, an absolute path.
	Dir string
	// ReadFile reads a file that the CLI would read. It must fail with
	// [fs.ErrNotExist] for one that is not there.
	ReadFile func(path string) ([]byte, error)
	// RootOnly is [RootOnly], or what a test says in its place.
	RootOnly func(path string) bool
}

// File is to be written under [Launch].Dir, mode 0600, before the spawn.
type File struct {
	Name string
	Data []byte
}

// Wiring is how a harness is to be spawned, so that its agent has the endpoint.
type Wiring struct {
	// Args are all arguments of the command, the user's among them.
	Args []string
	// Env has NAME=value of each variable to set, over what the child gets.
	Env []string
	// Files are to be written first.
	Files []File
	// Wired is false where nothing was added.
	Wired bool
	// How says in one sentence what was done, or why nothing was.
	How string
	// Paste is what gives the agent the endpoint by hand, and Into where to
	// paste it: "" where the wiring does that, whatever the CLI's version.
	Paste, Into string
}

// Adapter is one agent CLI, in one harness's command.
type Adapter struct {
	cli  cli
	args []string
	at   int // where the CLI's own arguments begin in args; nowhere if it has none
}

// nowhere is the place of arguments in a command that does not pass any on.
const nowhere = -1

// cli is what one agent CLI is like.
type cli struct {
	name     string // as the setting spells it
	program  string // base name of its command
	packages []string
	wire     func(Adapter, Launch) (Wiring, error)
	into     string
	paste    func(bridge []string) string
	// rules say why it would refuse a list of tools for one in it; see [Lint].
	rules []func(tool []byte) string
	own   own
}

func clis() []cli {
	return []cli{claude(), codex(), opencode(), gemini()}
}

// Find returns the adapter of a harness with that setting and command.
func Find(setting, cmd string, args []string) Adapter {
	for _, c := range clis() {
		if setting != Auto && setting != c.name {
			continue
		}
		if at, ok := c.within(cmd, args); ok {
			return Adapter{c, args, at}
		}
		if setting == c.name {
			return Adapter{c, args, c.behind(cmd, args)}
		}
	}
	return Adapter{cli{name: Generic, into: "its MCP settings", paste: pasteJSON("mcpServers", stdioServer)}, args, 0}
}

// Name returns the name of the CLI, or [Generic].
func (a Adapter) Name() string { return a.cli.name }

// Wire says how to spawn the harness so that its agent has the endpoint.
func (a Adapter) Wire(l Launch) Wiring {
	if a.cli.wire == nil {
		return a.leave(l, "no adapter knows this command, so it is started as it is")
	}
	if !utf8.ValidString(strings.Join(l.Bridge, "") + l.Dir) {
		return a.leave(l, "the path of harness, its socket or its state directory is not UTF-8")
	}
	w, err := a.cli.wire(a, l)
	if err != nil {
		return a.leave(l, err.Error())
	}
	w.Wired = true
	return w
}

// leave is the wiring that changes nothing.
func (a Adapter) leave(l Launch, why string) Wiring {
	return Wiring{Args: slices.Clone(a.args), How: "not wired: " + why, Paste: a.cli.paste(l.Bridge), Into: a.cli.into}
}

// own are the arguments that the CLI itself gets.
func (a Adapter) own() []string {
	if a.at == nowhere {
		return nil
	}
	return a.args[a.at:]
}

// insert returns the arguments with words put in at index i of the CLI's own.
func (a Adapter) insert(i int, words ...string) ([]string, error) {
	if a.at == nowhere {
		return nil, fmt.Errorf(`the script of %s passes no arguments on; end its command with "$@"`, a.cli.program)
	}
	return slices.Concat(a.args[:a.at+i], words, a.args[a.at+i:]), nil
}

// file names a file of one harness.
func file(l Launch, suffix string) (name, path string) {
	// The slash of a project's harness is the one character that no file name
	// has, and the dot one that no harness has.
	name = strings.ReplaceAll(l.Name, "/", ".") + suffix
	return name, filepath.Join(l.Dir, name)
}

// abs is where the child finds a path that the user wrote.
func (l Launch) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.Workdir, path)
}

// literal refuses words which the CLI would not take as they are.
func literal(words []string, marks ...string) error {
	for _, word := range words {
		for _, mark := range marks {
			if strings.Contains(word, mark) {
				return fmt.Errorf("it would expand the %s in %q", mark, word)
			}
		}
	}
	return nil
}
