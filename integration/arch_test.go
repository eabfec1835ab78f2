package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the path every package of the project begins with.
const module = "harness"

// room is what one package is for and which packages of the project it may
// know. An import that is not listed here is a new edge in the architecture:
// add it in the change that needs it, where a reviewer sees it.
type room struct {
	does  string   // one sentence: why the room exists
	knows []string // packages of the project it may import, relative to the module
	core  []string // file patterns of its pure part; nil when all of it is shell
	shell []string // patterns taken out of core again
}

// everything is the import list of the one room that may know all others.
var everything = []string{
	"watch", "reconcile", "pkg/config", "pkg/prompt", "pkg/restart", "pkg/proc", "pkg/jsonrpc",
	"pkg/wire", "pkg/plain", "pkg/durable", "pkg/handover", "pkg/upstream", "pkg/broker", "pkg/bridge", "pkg/control", "pkg/identity", "pkg/agent", "pkg/run", "pkg/adapter", "pkg/facade", "pkg/evidence", "pkg/workflow", "pkg/worktree", "pkg/contract", "pkg/ledger",
}

var rooms = map[string]room{
	"cmd/harness": {
		does:  "turns argv into one call; one file per command",
		knows: []string{"pkg/daemon", "pkg/control", "pkg/config", "reconcile", "pkg/bridge", "pkg/wire", "pkg/jsonrpc", "pkg/plain", "pkg/run", "pkg/facade", "pkg/contract", "pkg/ledger", "pkg/delegate", "pkg/durable", "pkg/prefault", "pkg/adapter", "pkg/adopt"},
	},
	"watch": {
		does: "says that something it was told to look at may have changed, and nothing more",
	},
	"reconcile": {
		does:  "compares what should run with what runs, and lists the steps; its loop does them",
		knows: []string{"pkg/config", "pkg/prompt"},
		core:  []string{"*.go"},
		shell: []string{"loop*.go", "request.go", "pace.go"},
	},
	"pkg/config": {
		does: "bytes in; a valid Config or every fault with its line out",
		core: []string{"*.go"},
	},
	"pkg/prompt": {
		does:  "one markdown file in, one prompt out; renders arguments",
		core:  []string{"*.go"},
		shell: []string{"osfs.go"},
	},
	"pkg/restart": {
		does: "given the exits so far and now: when to try again, or why not",
		core: []string{"*.go"},
	},
	"pkg/proc": {
		does:  "starts a process group with pipes, and can always end it",
		knows: []string{"pkg/plain", "pkg/durable"},
	},
	"pkg/jsonrpc": {
		does:  "raw JSON-RPC lines: peek and splice, never decode the rest; one ordered writer, a line cap",
		knows: []string{"pkg/wire"},
		core:  []string{"*.go"},
		shell: []string{"writer*.go", "drain*.go"},
	},
	"pkg/wire": {
		does: "what bridge, broker and control must say alike: revisions, error codes and shapes, limits",
		core: []string{"*.go"},
	},
	"pkg/handover": {
		does:  "lets the daemon read and write an agent's own descriptors, so that a kill at any point loses nothing",
		core:  []string{"*.go"},
		shell: []string{"memory.go", "ends.go", "intake.go", "outlet.go", "session.go"},
	},
	"pkg/plain": {
		does: "escapes text of files and children before eyes see it",
		core: []string{"*.go"},
	},
	"pkg/durable": {
		does: "replaces state files, each as a whole and for good, and sets aside what is none",
	},
	"pkg/prefault": {
		does: "has the kernel map at once what a start touches page by page",
	},
	"pkg/upstream": {
		does:  "keeps each MCP child like its definition; reports state and offer, relays calls to it",
		knows: []string{"pkg/config", "pkg/proc", "pkg/restart", "pkg/jsonrpc", "pkg/wire", "pkg/plain", "pkg/durable"},
	},
	"pkg/broker": {
		does:  "serves one merged catalog to many sessions",
		knows: []string{"pkg/handover", "pkg/jsonrpc", "pkg/wire"},
		core:  []string{"scope*.go", "catalog*.go", "names*.go"},
	},
	"pkg/identity": {
		does: "knows which live harness process a session belongs to",
	},
	"pkg/agent": {
		does:  "runs each agent program on a terminal and moves it through its states",
		knows: []string{"pkg/config", "pkg/proc", "pkg/restart", "pkg/plain"},
		core:  []string{"machine*.go"},
	},
	"pkg/evidence": {
		does:  "append-only chains of records that anyone can check again, in files that are written once",
		core:  []string{"*.go"},
		shell: []string{"dir.go", "ledger.go"},
	},
	"pkg/run": {
		does:  "keeps what was run: every spawn with its evidence, and what was asked for once",
		knows: []string{"pkg/evidence"},
		core:  []string{"catalog.go", "contract.go", "message.go"},
	},
	"pkg/ledger": {
		does:  "keeps what happened to each contract as a chain of signed entries, and checks such a chain anywhere",
		knows: []string{"pkg/durable", "pkg/evidence"},
		core:  []string{"canonical.go", "entry.go", "ring.go", "verdict.go", "bundle.go", "layout.go"},
	},
	"pkg/contract": {
		does:  "runs work that must hold, judges what came of it and has the verdict signed",
		knows: []string{"pkg/config", "pkg/proc", "pkg/ledger", "pkg/evidence"},
		core:  []string{"spec.go", "parse.go", "value.go", "judge.go", "replay.go", "answer.go"},
	},
	"pkg/delegate": {
		does:  "the MCP server for agents outside the fleet: four tools over contracts and their ledger",
		knows: []string{"pkg/contract", "pkg/ledger", "pkg/jsonrpc", "pkg/wire"},
	},
	"pkg/workflow": {
		does:  "graphs of runs with their journals, and prompt packs",
		knows: []string{"pkg/config", "pkg/evidence"},
		core:  []string{"graph.go", "pack.go", "state.go", "table.go"},
	},
	"pkg/worktree": {
		does:  "makes git worktrees and remembers them",
		knows: []string{"pkg/evidence"},
	},
	"pkg/facade": {
		does:  "the daemon's own MCP tools, thin over the operations control offers",
		knows: []string{"pkg/broker", "pkg/control", "pkg/run", "pkg/wire", "pkg/plain"},
	},
	"pkg/adapter": {
		does:  "knows how each agent CLI is given one more MCP server when it is started, and where it keeps its own",
		core:  []string{"*.go"},
		shell: []string{"owned*.go"},
	},
	"pkg/adopt": {
		does:  "makes a harness.toml of the servers that agent CLIs have of their own",
		knows: []string{"pkg/adapter", "pkg/config", "pkg/plain"},
		core:  []string{"*.go"},
	},
	"pkg/control": {
		does:  "the daemon's private door: HTTP and JSON on a 0600 Unix socket, server and client",
		knows: []string{"pkg/wire", "pkg/durable"},
	},
	"pkg/bridge": {
		does:  "harness mcp: stdio on one side, the daemon's socket on the other; survives the daemon",
		knows: []string{"pkg/handover", "pkg/jsonrpc", "pkg/wire", "pkg/control"},
	},
	"pkg/daemon": {
		does:  "builds every room, adapts their types to each other, stops them in order",
		knows: everything,
	},
	"integration": {
		does: "drives the real binary, and holds this plan",
	},
	"integration/fakeup": {
		does: "an MCP server that misbehaves on request",
	},
	"integration/unprefix": {
		does: "takes the key of an upstream off the names, for the conformance suite",
	},
	"integration/fakemodel": {
		does: "stands in for the model APIs that agent CLIs speak to",
	},
	"integration/bench": {
		does:  "measures the real binary against a lower bound of its own",
		knows: []string{"integration/bench/baseline", "integration/fakeup", "pkg/jsonrpc", "pkg/wire", "pkg/control", "pkg/config", "pkg/broker", "pkg/upstream", "pkg/ledger", "pkg/run", "pkg/evidence", "reconcile"},
	},
	"integration/bench/baseline": {
		does: "the least that a server and a topology like ours can cost; shares no code with the product",
	},
}

// library is a module of others and the rooms that may use it.
type library struct {
	rooms []string
	why   string
}

var libraries = map[string]library{
	"github.com/fsnotify/fsnotify":     {[]string{"watch"}, "file events"},
	"github.com/knadh/koanf":           {[]string{"pkg/config"}, "loads the parsed text into typed values"},
	"github.com/pelletier/go-toml":     {[]string{"pkg/config", "pkg/workflow", "pkg/adapter"}, "TOML and the lines of its keys"},
	"github.com/go-viper/mapstructure": {[]string{"pkg/config"}, "koanf's decoder: strictness is set here"},
	"github.com/yuin/goldmark":         {[]string{"pkg/prompt"}, "the markdown parser under goldmark-meta"},
	"github.com/yuin/goldmark-meta":    {[]string{"pkg/prompt"}, "front matter"},
	"gopkg.in/yaml.v2":                 {[]string{"pkg/prompt"}, "the lines of front matter faults"},
	"github.com/mark3labs/mcp-go/mcp":  {[]string{"pkg/broker", "pkg/facade"}, "the protocol's types, for own tools and prompts; never the relay path"},
	"github.com/thejerf/suture":        {[]string{"watch", "reconcile", "pkg/upstream", "pkg/agent", "pkg/broker", "pkg/control", "pkg/daemon"}, "supervision"},
	"github.com/spf13/cobra":           {[]string{"cmd/harness"}, "verbs, flags, completion"},
	"github.com/spf13/pflag":           {[]string{"cmd/harness"}, "the flags of cobra's commands, for the catalog"},
	"github.com/gofrs/flock":           {[]string{"pkg/daemon", "pkg/control", "pkg/ledger", "pkg/contract"}, "one daemon per state directory, one writer per chain"},
	"github.com/gowebpki/jcs":          {[]string{"pkg/ledger"}, "RFC 8785: what is signed, in one form"},
	"github.com/google/renameio":       {[]string{"pkg/durable"}, "state files replaced atomically"},
	"golang.org/x/term":                {[]string{"cmd/harness"}, "the user's own terminal, while attached"},
	"golang.org/x/sys":                 {[]string{"watch", "pkg/proc", "pkg/contract", "pkg/upstream", "pkg/jsonrpc", "pkg/broker", "pkg/control", "pkg/bridge", "pkg/handover", "pkg/daemon", "cmd/harness", "integration/bench", "integration/bench/baseline", "pkg/evidence"}, "the kernel, beyond package syscall"},
	"github.com/charmbracelet/x":       {[]string{"pkg/agent"}, "what is on an agent's screen"},
	"github.com/creack/pty":            {[]string{"pkg/proc"}, "pseudo-terminals"},
	"github.com/rogpeppe/go-internal":  {nil, "scripts in tests"},
	"github.com/google/go-cmp":         {nil, "comparison in tests"},
	"go.uber.org/goleak":               {nil, "goroutine leaks in tests"},
	"pgregory.net/rapid":               {nil, "properties in tests"},

	"github.com/modelcontextprotocol/go-sdk": {nil, "an independent client, in tests"},
	"github.com/google/jsonschema-go":        {nil, "the schemas of resources, in tests"},

	"github.com/landlock-lsm/go-landlock": {[]string{"pkg/contract"}, "what a contract's step may touch"},
}

// banned are the imports the core may not have: everything it learns comes in
// as a value, an fs.FS or a function, so that its tests need no fakes.
var banned = map[string]string{
	"os":           "files, environment and processes come in as values",
	"os/exec":      "the core starts nothing",
	"os/signal":    "the core hears nothing",
	"syscall":      "the core asks the kernel nothing",
	"net":          "the core speaks to nobody",
	"net/http":     "the core speaks to nobody",
	"context":      "the core does not wait, so there is nothing to cancel",
	"log":          "the core returns what there is to say",
	"log/slog":     "the core returns what there is to say",
	"math/rand":    "chance comes in as a number",
	"math/rand/v2": "chance comes in as a number",
	"crypto/rand":  "chance comes in as a number",
	"time/tzdata":  "the core has no clock",
}

// clock are the functions of package time that read or wait for real time.
var clock = []string{"Now", "Sleep", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// slogValuer are the names of package log/slog that only describe a value; a
// secret that hides itself from logs needs them, and they do no logging.
var slogValuer = []string{"Value", "StringValue", "LogValuer", "GroupValue"}

// longest is the hard stop for one function, in lines.
const longest = 80

// pkg is what this test reads of `go list -json`.
type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
}

// name is the import path relative to the module.
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// file is one parsed source file that is not a test.
type file struct {
	pkg  string // room
	name string // base name
	path string // as to be shown
	ast  *ast.File
	fset *token.FileSet
}

func TestArch_RoomsImportOnlyWhatThePlanAllows(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		plan, ok := rooms[p.name()]
		if !ok {
			t.Errorf("%s: not in the plan of the rooms; add it to rooms with what it does and what it may know", p.name())
			continue
		}
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module+"/"); ok && !slices.Contains(plan.knows, own) {
				t.Errorf("%s imports %s, which the plan does not allow: %s %s", p.name(), own, p.name(), plan.does)
			}
		}
	}
}

func TestArch_EveryRoomOfThePlanExists(t *testing.T) {
	t.Parallel()
	var have []string
	for _, p := range packages(t) {
		have = append(have, p.name())
	}
	for name := range rooms {
		if !slices.Contains(have, name) {
			t.Errorf("%s: in the plan, but there is no such package", name)
		}
	}
}

func TestArch_LibrariesStayInTheirRooms(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			first, _, _ := strings.Cut(imp, "/")
			if first == module || !strings.Contains(first, ".") {
				continue
			}
			lib, ok := libraryOf(imp)
			switch {
			case !ok:
				t.Errorf("%s imports %s, which is no library of this project", p.name(), imp)
			case !slices.Contains(lib.rooms, p.name()):
				t.Errorf("%s imports %s, which is for %v: %s", p.name(), imp, lib.rooms, lib.why)
			}
		}
	}
}

// libraryOf finds the entry whose path is the longest prefix of imp.
func libraryOf(imp string) (library, bool) {
	for p := imp; p != "."; p = path.Dir(p) {
		if lib, ok := libraries[p]; ok {
			return lib, true
		}
	}
	return library{}, false
}

func TestArch_TheCoreTouchesNothing(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if !isCore(rooms[f.pkg], f.name) {
			continue
		}
		for _, imp := range f.ast.Imports {
			p, _ := strconv.Unquote(imp.Path.Value)
			if why, no := banned[p]; no && !describesOnly(f.ast, p) {
				t.Errorf("%s imports %s: %s", f.path, p, why)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine in the core", at(f, n))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s: time.%s in the core; pass now", at(f, n), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// isCore reports whether a file belongs to the pure part of a room.
func isCore(r room, name string) bool {
	return matches(r.core, name) && !matches(r.shell, name)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// describesOnly reports whether log/slog is used for nothing but LogValue.
func describesOnly(f *ast.File, imp string) bool {
	if imp != "log/slog" {
		return false
	}
	only := true
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "slog" && !slices.Contains(slogValuer, s.Sel.Name) {
				only = false
			}
		}
		return only
	})
	return only
}

func TestArch_TopLevelIsExact(t *testing.T) {
	t.Parallel()
	want := []string{
		"CHANGELOG.md", "LICENSE", "README.md", "cmd", "go.mod", "go.sum",
		"integration", "justfile", "pkg", "reconcile", "watch",
	}
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	ignored := ignoredNames(t)
	var have []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !matches(ignored, e.Name()) {
			have = append(have, e.Name())
		}
	}
	for _, name := range have {
		if !slices.Contains(want, name) {
			t.Errorf("%s does not belong at the top level", name)
		}
	}
	for _, name := range want {
		if !slices.Contains(have, name) {
			t.Errorf("%s is missing at the top level", name)
		}
	}
}

// ignoredNames are the patterns of .gitignore that can match a top level name.
func ignoredNames(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../.gitignore")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name := strings.Trim(strings.TrimSpace(line), "/"); name != "" && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

func TestArch_EveryPackageSaysWhatItIs(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, "doc.go"), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Errorf("%s: %v", p.name(), err)
			continue
		}
		// A command documents itself as one, everything else as a package.
		lead := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			lead = "Command " + path.Base(p.name()) + " "
		}
		if !strings.HasPrefix(f.Doc.Text(), lead) {
			t.Errorf("%s/doc.go: the package comment does not begin with %q", p.name(), lead)
		}
	}
}

func TestArch_NoFunctionIsLongerThanAScreenOrTwo(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n > longest {
				t.Errorf("%s: %s is %d lines, over %d", at(f, fn), fn.Name.Name, n, longest)
			}
		}
	}
}

func TestArch_NothingRunsOrLivesBeforeMain(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" && excepted[f.path+" init"] == "" {
					t.Errorf("%s: init(); construct what is needed where it is needed", at(f, d))
				}
			case *ast.GenDecl:
				checkVars(t, f, d)
			}
		}
	}
}

// checkVars faults package-level variables that could be changed: the rest of
// the program would have to know when and by whom.
func checkVars(t *testing.T, f file, d *ast.GenDecl) {
	t.Helper()
	if d.Tok != token.VAR || strings.Contains(d.Doc.Text()+comments(f, d), "go:embed") {
		return
	}
	for _, s := range d.Specs {
		v := s.(*ast.ValueSpec)
		for i, name := range v.Names {
			if name.Name == "_" || strings.Contains(comments(f, v), "go:embed") || excepted[f.path+" "+name.Name] != "" {
				continue
			}
			if i >= len(v.Values) || !isConstant(v.Values[i]) && !isSentinel(name.Name, v.Values[i]) {
				t.Errorf("%s: package-level variable %s; pass it, or make it a function or a constant", at(f, name), name.Name)
			}
		}
	}
}

// excepted are variables and init functions that may be, and why.
var excepted = map[string]string{
	"cmd/harness/run.go version":          "the linker sets it",
	"pkg/prefault/prefault_linux.go init": "it is there for what other packages do before main",
}

// isSentinel reports whether a variable is an error of a type of its own.
func isSentinel(name string, e ast.Expr) bool {
	u, ok := e.(*ast.UnaryExpr)
	if !ok || u.Op != token.AND || !strings.HasPrefix(strings.ToLower(name), "err") {
		return false
	}
	_, ok = u.X.(*ast.CompositeLit)
	return ok
}

// comments is the raw comment text directly above a declaration: directives
// are not part of ast's Text.
func comments(f file, n ast.Node) string {
	line := f.fset.Position(n.Pos()).Line
	var b strings.Builder
	for _, g := range f.ast.Comments {
		if l := f.fset.Position(g.End()).Line; l == line-1 || l == line {
			for _, c := range g.List {
				b.WriteString(c.Text)
			}
		}
	}
	return b.String()
}

// constants are the calls whose result nobody can change afterwards.
var constants = []string{
	"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer", "netip.MustParseAddr", "template.Must",
}

// isConstant reports whether an initializer makes a value that is a constant
// in all but Go's name for it: an error, a compiled expression, an array of
// literals, or a type that is compared and never written.
func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && slices.Contains(constants, x.Name+"."+s.Sel.Name)
	case *ast.CompositeLit:
		a, ok := e.Type.(*ast.ArrayType)
		return ok && a.Len != nil
	}
	return false
}

func TestArch_NoTestIsSkippedOrSleepsInsteadOfWaiting(t *testing.T) {
	t.Parallel()
	for _, f := range tests(t) {
		bubble := slices.ContainsFunc(f.ast.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
		polled := token.NoPos // the end of the loop the walk is in
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt:
				polled = max(polled, n.End())
			case *ast.SelectorExpr:
				x, _ := n.X.(*ast.Ident)
				switch {
				case x == nil:
				case x.Name == "t" && strings.HasPrefix(n.Sel.Name, "Skip"):
					t.Errorf("%s: a skipped test", at(f, n))
				case x.Name == "time" && n.Sel.Name == "Sleep" && !bubble && n.Pos() > polled:
					t.Errorf("%s: time.Sleep outside a synctest bubble and a polling loop; wait for what you wait for", at(f, n))
				}
			}
			return true
		})
		for _, n := range idleWaits(f.ast) {
			if !bubble && !inPause(f.ast, n) {
				t.Errorf("%s: waits for time and nothing else; wait for what you wait for, or say in a helper named pause why there is nothing", at(f, n))
			}
		}
	}
	for _, f := range sources(t) {
		for _, n := range idleWaits(f.ast) {
			t.Errorf("%s: waits for time and nothing else, so nobody can end it; have it in a select", at(f, n))
		}
	}
}

// idleWaits are the receives of a file from a timer made on the spot that no
// select has: a sleep by another name.
func idleWaits(f *ast.File) (found []ast.Node) {
	chosen := map[ast.Node]bool{} // a case of a select
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommClause:
			if s, ok := n.Comm.(*ast.ExprStmt); ok {
				chosen[s.X] = true
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && !chosen[n] && isTimer(n.X) {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

func TestArch_IdleWaitsAreFound(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		"<-time.After(d)": 1, "at := <-time.After(d); _ = at": 1, "<-time.NewTimer(d).C": 1, "for ; ; <-time.Tick(d) {}": 1,
		"select { case <-time.After(d): }": 0, "select { case <-done: <-time.After(d); default: }": 1,
		"<-done": 0, "<-tick.C": 0, "late := time.After(d); _ = late": 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f() { "+body+" }; func pause() { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		found := idleWaits(f)
		excused := slices.DeleteFunc(slices.Clone(found), func(n ast.Node) bool { return !inPause(f, n) })
		if len(found) != 2*want || len(excused) != want {
			t.Errorf("%s: %d found and %d of them excused, want twice %d", body, len(found), len(excused), want)
		}
	}
}

// isTimer reports whether an expression is time.After(…), time.Tick(…) or
// time.NewTimer(…).C.
func isTimer(e ast.Expr) bool {
	if field, ok := e.(*ast.SelectorExpr); ok && field.Sel.Name == "C" {
		e = field.X
	}
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := fn.X.(*ast.Ident)
	return ok && x.Name == "time" && slices.Contains([]string{"After", "Tick", "NewTimer"}, fn.Sel.Name)
}

// inPause reports whether a node is in the helper by which a test lets time pass
// on purpose.
func inPause(f *ast.File, n ast.Node) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && fn.Name.Name == "pause" && fn.Pos() <= n.Pos() && n.End() <= fn.End()
	})
}

func TestArch_MainIsOneCall(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../cmd/harness/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 12 {
		t.Errorf("cmd/harness/main.go is %d lines, over 12", n)
	}
}

// packages lists the packages of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := goList()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var goList = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
})

// sources parses every file of the project that is not a test.
func sources(t *testing.T) []file {
	t.Helper()
	return parsed(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
}

// tests parses every file of tests.
func tests(t *testing.T) []file {
	t.Helper()
	return parsed(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

// parsed parses the files whose name is wanted. Files kept out of this
// platform's build are read as well.
func parsed(t *testing.T, wanted func(name string) bool) []file {
	t.Helper()
	var all []file
	for _, p := range packages(t) {
		names, err := fs.Glob(os.DirFS(p.Dir), "*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !wanted(name) {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, file{pkg: p.name(), name: name, path: p.name() + "/" + name, ast: f, fset: fset})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return all
}

// at is where a node stands, as file:line.
func at(f file, n ast.Node) string {
	return f.path + ":" + strconv.Itoa(f.fset.Position(n.Pos()).Line)
}
