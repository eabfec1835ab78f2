package daemon

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	path    string // of the global file, absolute
	env     config.Env
	prompts prompt.FS
	watcher follower
	save    func(name string, v any) // keeps a state file
	log     *slog.Logger
	// key makes the digest of an env_file useless to whoever sees it (CFG-5).
	key []byte

	good   []byte         // last good text, nil when there was none
	base   *config.Config // of good; nil also where good does not validate any more
	served map[string]*prompt.Prompt

	last     *reading                  // of the last load
	versions map[string]*prompt.Prompt // served as of then
	adopted  *reading                  // of the last adopt, nil before the first
	items    []watch.Item              // as given to the watcher

	// judged is the text that was validated last, and the outcome. A config is
	// never written to, so it may be given out again.
	judged struct {
		text     []byte
		cfg      *config.Config
		warnings config.Warnings
		faults   config.Faults
	}
}

// newLoader returns a loader that goes on from the last good text that an
// earlier daemon kept, which is nil for none (CFG-3).
func newLoader(path string, good []byte, env config.Env, watcher follower, save func(string, any), log *slog.Logger) *loader {
	l := &loader{
		path: path, env: env, prompts: prompt.OSFS{}, watcher: watcher, save: save, log: log,
		key: make([]byte, sha256.Size), good: good,
	}
	// crypto/rand.Read never fails.
	_, _ = rand.Read(l.key)
	if good == nil {
		return l
	}
	base, _, faults := config.Load(l.source(good), env)
	for _, f := range faults {
		log.Warn("the last good config is not valid any more", "fault", f.String())
	}
	l.base = base
	return l
}

// load reads the files. Nothing of it counts before adopt, not even for the
// next load.
func (l *loader) load(ctx context.Context) reconcile.Loaded {
	r := l.agreed(ctx)
	l.last = r
	loaded := reconcile.Loaded{Faults: r.faults, Warnings: r.warnings}
	if r.known {
		loaded.File = reconcile.EnabledIn(r.cfg)
	}
	if warning, wide := l.wideOpen(); wide {
		loaded.Warnings = append(loaded.Warnings, warning)
	}
	prompts, warnings := l.collect(r)
	loaded.Warnings = append(loaded.Warnings, warnings...)
	loaded.Desired = reconcile.NewDesired(r.cfg, l.launches(r), prompts)
	return loaded
}

// adopt makes the last load the one that counts: its text is the last good one
// if it was accepted, in memory and on disk (CFG-3), its prompts are what
// stays when one breaks (PRM-4), and its files are followed.
func (l *loader) adopt() {
	r := l.last
	if r.accepted {
		if l.good == nil || !bytes.Equal(l.good, r.text) {
			l.save(lastGoodName(l.path), newLastGood(l.path, r.text))
		}
		l.good, l.base = r.text, r.cfg
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
		case <-time.After(l.adopted.cfg.Server.Settle):
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

// wideOpen warns of a config that other users can write: it says what runs.
func (l *loader) wideOpen() (config.Fault, bool) {
	info, err := os.Stat(l.path)
	if err != nil || info.Mode().Perm()&0o022 == 0 {
		return config.Fault{}, false
	}
	return config.Fault{File: l.path, Line: 1, Message: fmt.Sprintf("the file can be written by other users (mode %04o); run chmod go-w on it", info.Mode().Perm())}, true
}

// launches adds to each definition what the file system says about it now.
func (l *loader) launches(r *reading) map[string]config.Launch {
	all := make(map[string]config.Launch, len(r.cfg.Upstreams))
	found := map[string]config.Launch{} // by command: many have the same
	for key, def := range r.cfg.Upstreams {
		program, done := found[def.Cmd]
		if !done {
			program = lookUp(def.Cmd)
			found[def.Cmd] = program
		}
		launch := config.Launch{Upstream: def, Exe: program.Exe, ExeErr: program.ExeErr}
		if def.EnvFile != "" {
			launch.EnvDigest = l.envDigest(r, def.EnvFile)
		}
		all[key] = launch
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
// content.
func (l *loader) envDigest(r *reading, path string) string {
	data, ok := r.envFiles[path]
	if !ok {
		return "unreadable"
	}
	mac := hmac.New(sha256.New, l.key)
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil))
}

// collect makes the prompts of what was read. A file that does not parse is a
// warning, and its last good version stays (PRM-4).
func (l *loader) collect(r *reading) ([]prompt.Prompt, []config.Fault) {
	found, faults, versions := prompt.Collect(r.dirs, l.served)
	l.versions = versions
	prompts := make([]prompt.Prompt, len(found))
	for i, p := range found {
		prompts[i] = *p
	}
	warnings := make([]config.Fault, len(faults))
	for i, f := range faults {
		warnings[i] = config.Fault{File: f.File, Line: f.Line, Message: f.Message}
	}
	return prompts, warnings
}

// follow tells the watcher which files count (HOT-1), and what was read of
// them. A set that is the same is not set again: the watcher would read it all.
func (l *loader) follow(r *reading) {
	items := []watch.Item{{Path: l.path, Known: r.digests}}
	envFiles := map[string]bool{}
	for _, u := range r.cfg.Upstreams {
		if u.EnvFile != "" {
			envFiles[u.EnvFile] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(envFiles)) {
		items = append(items, watch.Item{Path: path, Known: r.digests})
	}
	for _, path := range r.cfg.PromptPaths {
		items = append(items, watch.Item{Path: path, Dir: true, Match: prompt.Matches, Known: r.digests})
	}
	same := func(a, b watch.Item) bool { return a.Path == b.Path && a.Dir == b.Dir }
	if !slices.EqualFunc(items, l.items, same) {
		l.items = items
		l.watcher.Set(items)
	}
}
