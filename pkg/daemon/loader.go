package daemon

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"harness/pkg/config"
	"harness/pkg/prompt"
	"harness/pkg/upstream"
	"harness/reconcile"
	"harness/watch"
)

// longestSettle bounds the wait for files that are being written (HOT-2).
const longestSettle = 500 * time.Millisecond

// follower is the watcher as the loader uses it.
type follower interface {
	Set(items []watch.Item)
	Seen(path string) (digest [sha256.Size]byte, ok bool)
}

// loader reads every file that shapes the running state, and has the watcher
// follow them. It belongs to the reconciler's goroutine.
type loader struct {
	global   *followed
	projects []project // those that are up, in the order in which they came up
	prompts  prompt.FS
	watcher  follower
	save     func(name string, v any) // keeps a state file
	log      *slog.Logger
	// key makes the digest of an env_file useless to whoever sees it (CFG-5).
	key []byte

	served   map[string]*prompt.Prompt
	last     *reading                  // of the last load
	versions map[string]*prompt.Prompt // served as of then
	adopted  *reading                  // of the last adopt, nil before the first
	items    []watch.Item              // as given to the watcher
}

// newLoader returns a loader that goes on from the last good text that an
// earlier daemon kept, which is nil for none (CFG-3).
func newLoader(path string, good []byte, env config.Env, watcher follower, save func(string, any), log *slog.Logger) *loader {
	l := &loader{prompts: prompt.OSFS{}, watcher: watcher, save: save, log: log, key: make([]byte, sha256.Size)}
	// crypto/rand.Read never fails.
	_, _ = rand.Read(l.key)
	l.global = l.followed(path, config.Global, good, env)
	return l
}

// followed is newFollowed with a word about what is not good any more.
func (l *loader) followed(path string, kind config.Kind, good []byte, env config.Env) *followed {
	f, faults := newFollowed(path, kind, good, env)
	for _, fault := range faults {
		l.log.Warn("the last good config is not valid any more", "fault", fault.String())
	}
	return f
}

// load reads the files. Nothing of it counts before adopt, not even for the
// next load.
func (l *loader) load(ctx context.Context) reconcile.Loaded {
	r := l.agreed(ctx)
	l.last = r
	loaded := reconcile.Loaded{Faults: r.global.faults, Refused: len(r.global.faults) > 0, Warnings: r.global.warnings}
	if r.global.known {
		loaded.File = reconcile.EnabledIn(r.global.cfg)
	}
	for _, o := range r.files() {
		if warning, wide := WideOpen(o.of.path); wide {
			loaded.Warnings = append(loaded.Warnings, warning)
		}
	}
	prompts, warnings := l.collect(r)
	loaded.Warnings = append(loaded.Warnings, warnings...)
	loaded.Desired = reconcile.NewDesired(r.global.cfg, l.launches(r, r.global.cfg), prompts)
	for _, o := range r.projects {
		loaded.Faults = append(loaded.Faults, o.faults...)
		loaded.Warnings = append(loaded.Warnings, o.warnings...)
		l.join(&loaded, r, o)
	}
	return loaded
}

// join adds a project to what is loaded; one of which nothing was ever good has
// its name alone. Of a key that the global file has gained since it came up, the
// global one wins (CFG-4).
func (l *loader) join(loaded *reconcile.Loaded, r *reading, o outcome) {
	cfg, clashes := withoutClashes(o.cfg, r.global.cfg)
	loaded.Warnings = append(loaded.Warnings, clashes...)
	loaded.Desired.AddProject(cfg, l.launches(r, cfg))
	if loaded.File == nil {
		loaded.File = map[string]bool{}
	}
	maps.Copy(loaded.File, reconcile.EnabledIn(cfg))
}

// adopt makes the last load the one that counts: its texts are the last good
// ones as far as they were accepted, in memory and on disk (CFG-3), its prompts
// are what stays when one breaks (PRM-4), and its files are followed.
func (l *loader) adopt() {
	r := l.last
	for _, o := range r.files() {
		if o.of.adopt(o) {
			l.save(lastGoodName(o.of.path), newLastGood(o.of.path, o.text))
		}
	}
	l.served, l.adopted = l.versions, r
	l.follow(r)
}

// agreed returns a reading that can be relied on: the watcher has settled on
// the same, or another one, after the time that files have to be quiet,
// finds the same (HOT-2). At the start there is nobody to ask and no time to
// lose; what differs from that reading is signalled by the watcher.
func (l *loader) agreed(ctx context.Context) *reading {
	r := l.read()
	if l.adopted == nil {
		return r
	}
	for deadline := time.Now().Add(longestSettle); !l.settledOn(r) && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return r
		case <-time.After(l.adopted.global.cfg.Server.Settle):
		}
		again := l.read()
		if again.same(r) {
			return again
		}
		r = again
	}
	return r
}

// settledOn reports whether the watcher has settled on what r found, also on
// the absence of what was there before.
func (l *loader) settledOn(r *reading) bool {
	for path, digest := range r.digests {
		if seen, ok := l.watcher.Seen(path); !ok || seen != digest {
			return false
		}
	}
	for path := range l.adopted.digests {
		_, here := r.digests[path]
		if _, ok := l.watcher.Seen(path); !here && ok {
			return false
		}
	}
	return true
}

// WideOpen warns of a config that other users can write: it says what runs.
func WideOpen(path string) (config.Fault, bool) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o022 == 0 {
		return config.Fault{}, false
	}
	return config.Fault{File: path, Message: fmt.Sprintf("the file can be written by other users (mode %04o); run chmod go-w on it", info.Mode().Perm())}, true
}

// launches adds to each definition of a file what the file system says about it
// now.
func (l *loader) launches(r *reading, c *config.Config) reconcile.Launches {
	all := reconcile.Launches{
		Upstreams: make(map[string]config.Launch, len(c.Upstreams)),
		Agents:    make(map[string]config.AgentLaunch, len(c.Agents)),
	}
	found := map[string]config.Launch{} // by command: many have the same
	program := func(cmd string) config.Launch {
		if _, done := found[cmd]; !done {
			found[cmd] = lookUp(cmd)
		}
		return found[cmd]
	}
	for key, def := range c.Upstreams {
		p := program(def.Cmd)
		all.Upstreams[key] = config.Launch{Upstream: def, Exe: p.Exe, ExeErr: p.ExeErr, EnvDigest: l.envDigest(r, def.EnvFile)}
	}
	for name, def := range c.Agents {
		p := program(def.Cmd)
		all.Agents[name] = config.AgentLaunch{Agent: def, Exe: p.Exe, ExeErr: p.ExeErr, EnvDigest: l.envDigest(r, def.EnvFile)}
	}
	return all
}

// lookUp finds the program that cmd names, as a start would, or says why there
// is none.
func lookUp(cmd string) config.Launch {
	exe, err := upstream.FindExe(cmd, os.Getenv("PATH"))
	if err != nil {
		return config.Launch{ExeErr: err.Error()}
	}
	return config.Launch{Exe: exe}
}

// envDigest tells one content of an env_file from another without telling the
// content. It is of the variables as a process gets them: a comment or another
// way to write a value changes nothing (HOT-3). Of a malformed file, whose
// variables nobody gets, it is of the text.
func (l *loader) envDigest(r *reading, path string) string {
	if path == "" {
		return ""
	}
	data, ok := r.envFiles[path]
	if !ok {
		return "unreadable"
	}
	mac := hmac.New(sha256.New, l.key)
	vars, err := config.ParseEnvFile(data)
	if err != nil {
		mac.Write(data)
		return "malformed " + hex.EncodeToString(mac.Sum(nil))
	}
	for _, entry := range config.Environ(nil, vars, nil) { // sorted
		_, _ = io.WriteString(mac, entry+"\x00")
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// collect makes the prompts of what was read. A file that does not parse is a
// warning, and its last good version stays (PRM-4).
func (l *loader) collect(r *reading) ([]prompt.Prompt, []config.Fault) {
	l.versions = map[string]*prompt.Prompt{}
	var all []prompt.Prompt
	var warnings []config.Fault
	global := map[string]string{} // files by name
	for _, o := range r.files() {
		if !o.known && o.of.kind == config.Project {
			continue // nothing of it was ever good
		}
		project := o.cfg.Project.Name
		var dirs []prompt.Dir
		for _, d := range r.dirs {
			if d.project == project {
				dirs = append(dirs, d.Dir)
			}
		}
		found, faults, versions := prompt.Collect(dirs, l.served)
		maps.Copy(l.versions, versions)
		for _, f := range faults {
			warnings = append(warnings, config.Fault{File: f.File, Line: f.Line, Message: f.Message})
		}
		for _, p := range found {
			if other, hidden := global[p.Name]; hidden {
				warnings = append(warnings, config.Fault{File: p.File, Line: 1, Message: fmt.Sprintf("prompt %q is hidden by %s", p.Name, other)})
				continue
			}
			mine := *p
			mine.Project = project
			all = append(all, mine)
		}
		if project == "" {
			for _, p := range found {
				global[p.Name] = p.File
			}
		}
	}
	return all, warnings
}

// follow tells the watcher which files count (HOT-1), and what was read of
// them. A set that is the same is not set again: the watcher would read it all.
func (l *loader) follow(r *reading) {
	var items []watch.Item
	seen := map[string]bool{}
	add := func(item watch.Item) {
		if !seen[item.Path] {
			seen[item.Path] = true
			item.Known = r.digests
			items = append(items, item)
		}
	}
	for _, o := range r.files() {
		add(watch.Item{Path: o.of.path})
	}
	for _, o := range r.files() {
		for _, path := range envFiles(o.cfg) {
			add(watch.Item{Path: path})
		}
		for _, path := range o.cfg.PromptPaths {
			add(watch.Item{Path: path, Dir: true, Match: prompt.Matches})
		}
	}
	same := func(a, b watch.Item) bool { return a.Path == b.Path && a.Dir == b.Dir }
	if !slices.EqualFunc(items, l.items, same) {
		l.items = items
		l.watcher.Set(items)
	}
}
