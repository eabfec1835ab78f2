package contract

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"harness/pkg/config"
)

// Bounds of a contract.
const (
	// MaxText is how many bytes the text of a contract may have.
	MaxText = 256 << 10

	maxName     = 200
	maxChecks   = 1000
	maxParallel = 64
	maxArgs     = 64 << 10 // bytes of one step's arguments
	shortest    = time.Millisecond
	longest     = 7 * 24 * time.Hour
	maxOutput   = 64 << 20
	minMemory   = 1 << 20
	maxMemory   = 1 << 46
)

// Parse reads the text of a contract. It returns the contract, or every fault
// that it has, in line order (CON-1). name is what faults call the file. It
// never fails for what lies outside the text: whether commands and files exist
// is found when it is run.
func Parse(name string, text []byte) (*Spec, config.Faults) {
	if len(text) > MaxText {
		return nil, config.Faults{{File: name, Message: fmt.Sprintf("contract has more than %d bytes", MaxText)}}
	}
	d := config.OpenDocument(name, text)
	s := &Spec{Workdir: ".", Timeout: 10 * time.Minute, MaxOutput: 1 << 20, Env: []string{}, Parallel: 1}
	root := d.Root()
	found := root.Fields(map[string]func(config.Node){
		"contract": s.readContract,
		"work":     s.readWork,
		"check":    s.readChecks,
	})
	if _, ok := found["contract"]; !ok && root.Complete() {
		root.Fault("[contract] is missing")
	}
	if _, ok := found["check"]; !ok && root.Complete() {
		root.Fault("[[check]] is missing: nothing would have to hold")
	}
	if faults := d.Faults(); len(faults) > 0 {
		return nil, faults
	}
	return s, nil
}

func (s *Spec) readContract(n config.Node) {
	found := n.Fields(map[string]func(config.Node){
		"name":    func(n config.Node) { s.Name = name(n) },
		"workdir": func(n config.Node) { s.Workdir = below(n) },
		"timeout": func(n config.Node) { s.Timeout = n.Duration(shortest, longest) },
		"max_output": func(n config.Node) {
			s.MaxOutput = n.Size(1, maxOutput)
		},
		"env": func(n config.Node) { s.Env = envNames(n) },
		"max_cpu": func(n config.Node) {
			s.MaxCPU = n.Duration(time.Second, longest)
			if s.MaxCPU%time.Second != 0 {
				n.Fault("the kernel counts whole seconds of processor time")
			}
		},
		"max_memory": func(n config.Node) { s.MaxMemory = n.Size(minMemory, maxMemory) },
		"parallel":   func(n config.Node) { s.Parallel = n.Int(1, maxParallel) },
	})
	if _, ok := found["name"]; !ok && n.Complete() {
		n.Fault("name is missing")
	}
}

func (s *Spec) readWork(n config.Node) {
	w := &Work{Args: []string{}}
	found := n.Fields(map[string]func(config.Node){
		"cmd":         func(n config.Node) { w.Cmd = command(n) },
		"args":        func(n config.Node) { w.Args = arguments(n) },
		"harness":     func(n config.Node) { w.Harness = name(n) },
		"prompt":      func(n config.Node) { w.Prompt = n.Text() },
		"prompt_file": func(n config.Node) { w.PromptFile = below(n) },
		"timeout":     func(n config.Node) { w.Timeout = n.Duration(shortest, longest) },
	})
	requireOne(n, found, "cmd", "harness")
	needs(n, found, "args", "cmd")
	excludes(found, "prompt", "prompt_file")
	s.Work = w
}

func (s *Spec) readChecks(n config.Node) {
	tables := n.Tables()
	if len(tables) > maxChecks {
		n.Fault("has %d checks, expected at most %d", len(tables), maxChecks)
		return
	}
	first := map[string]int{}
	for i, t := range tables {
		c := readCheck(t)
		if before, twice := first[c.Name]; twice && c.Name != "" {
			t.Fault("name %s is that of check %d too", config.Show(c.Name), before+1)
		} else {
			first[c.Name] = i
		}
		s.Checks = append(s.Checks, c)
	}
}

func readCheck(n config.Node) Check {
	c := Check{Args: []string{}, Exists: true}
	found := n.Fields(map[string]func(config.Node){
		"name":    func(n config.Node) { c.Name = name(n) },
		"timeout": func(n config.Node) { c.Timeout = n.Duration(shortest, longest) },
		"cmd":     func(n config.Node) { c.Cmd = command(n) },
		"args":    func(n config.Node) { c.Args = arguments(n) },
		"exit":    func(n config.Node) { c.Exit = n.Int(0, 255) },
		"stdout":  func(n config.Node) { c.Stdout = pattern(n) },
		"stderr":  func(n config.Node) { c.Stderr = pattern(n) },
		"file":    func(n config.Node) { c.File = below(n) },
		"exists":  func(n config.Node) { c.Exists = n.Bool() },
		"sha256":  func(n config.Node) { c.SHA256 = digest(n) },
		"json":    func(n config.Node) { c.JSON = jsonValue(n) },
	})
	if _, ok := found["name"]; !ok && n.Complete() {
		n.Fault("name is missing")
	}
	requireOne(n, found, "cmd", "file")
	for _, key := range []string{"args", "exit", "stdout", "stderr"} {
		needs(n, found, key, "cmd")
	}
	for _, key := range []string{"exists", "sha256", "json"} {
		needs(n, found, key, "file")
	}
	for _, key := range []string{"sha256", "json"} {
		if at, ok := found[key]; ok && !c.Exists {
			at.Fault("a file that must not exist has no content to compare")
		}
	}
	return c
}

// requireOne faults a table that has neither of two keys, or both.
func requireOne(n config.Node, found map[string]config.Node, a, b string) {
	_, hasA := found[a]
	at, hasB := found[b]
	switch {
	case hasA && hasB:
		at.Fault("%s and %s exclude each other", a, b)
	case !hasA && !hasB && n.Complete():
		n.Fault("%s or %s is missing", a, b)
	}
}

func excludes(found map[string]config.Node, a, b string) {
	if at, ok := found[b]; ok {
		if _, ok := found[a]; ok {
			at.Fault("%s and %s exclude each other", a, b)
		}
	}
}

// needs faults a key that means nothing without another.
func needs(n config.Node, found map[string]config.Node, key, other string) {
	if at, ok := found[key]; ok && n.Complete() {
		if _, ok := found[other]; !ok {
			at.Fault("%s is for a table with %s", key, other)
		}
	}
}

func name(n config.Node) string {
	s := n.Text()
	switch {
	case strings.TrimSpace(s) == "":
		n.Fault("is empty")
	case len(s) > maxName:
		n.Fault("is longer than %d bytes", maxName)
	case strings.ContainsFunc(s, unicode.IsControl):
		n.Fault("holds a control character")
	}
	return s
}

// below reads a path that stays under the directory it is relative to.
func below(n config.Node) string {
	s := n.Text()
	switch {
	case s == "":
		n.Fault("is empty, expected a path")
		return ""
	case strings.IndexByte(s, 0) >= 0:
		n.Fault("holds a NUL character")
	case path.IsAbs(s):
		n.Fault("%s is absolute, expected a path below the contract's directory", config.Show(s))
	case !filepath.IsLocal(s):
		n.Fault("%s leads out of the contract's directory", config.Show(s))
	}
	return path.Clean(s)
}

// command reads what is to be run: a bare name is looked up in the PATH that
// the contract lets through, a path with a slash is absolute or stays below the
// working directory.
func command(n config.Node) string {
	s := n.Text()
	switch {
	case strings.TrimSpace(s) == "":
		n.Fault("is empty")
	case strings.IndexByte(s, 0) >= 0:
		n.Fault("holds a NUL character, which no process can be given")
	case strings.Contains(s, "/") && !path.IsAbs(s) && !filepath.IsLocal(s):
		n.Fault("%s leads out of the working directory", config.Show(s))
	}
	return s
}

func arguments(n config.Node) []string {
	size := 0
	args := n.Texts(func(s string) string {
		size += len(s) + 1
		if strings.IndexByte(s, 0) >= 0 {
			return "holds a NUL character, which no process can be given"
		}
		return ""
	})
	if size > maxArgs {
		n.Fault("has more than %d bytes of arguments", maxArgs)
	}
	return args
}

// envNames are sorted, each once: their order means nothing.
func envNames(n config.Node) []string {
	names := n.Texts(config.EnvNameProblem)
	slices.Sort(names)
	return slices.Compact(names)
}

func pattern(n config.Node) string {
	s := n.Text()
	if _, err := regexp.Compile(s); err != nil {
		n.Fault("is not a regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return s
}

// compile gives ^ and $ the meaning they have to grep: the ends of any line.
func compile(pattern string) (*regexp.Regexp, error) { return regexp.Compile("(?m)" + pattern) }

func digest(n config.Node) string {
	s := n.Text()
	if len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		n.Fault("is not 64 lower-case hexadecimal digits")
	}
	return s
}
