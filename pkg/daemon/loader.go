package daemon

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"harness/pkg/config"
	"harness/pkg/prompt"
	"harness/reconcile"
	"harness/watch"
)

// loader reads every file that shapes the running state, and has the watcher
// follow them. It belongs to the reconciler's goroutine.
type loader struct {
	path    string // of the global file
	env     config.Env
	state   *stateDir
	watcher *watch.Watcher
	log     *slog.Logger
	prompts prompt.FS
	// key makes the digest of an env_file useless to whoever sees it (CFG-5).
	key []byte

	first   bool
	settle  time.Duration
	good    []byte // last good text, nil when there is none
	next    []byte // text of the last load when it validated: good once in force
	served  map[string]*prompt.Prompt
	digests map[string][sha256.Size]byte // what this load has read, for the watcher
}

// longestSettle bounds the wait for a file that is being written (HOT-2).
const longestSettle = 500 * time.Millisecond

func (l *loader) load(ctx context.Context) reconcile.Loaded {
	l.digests = map[string][sha256.Size]byte{}
	cfg, loaded := l.config(ctx)
	launches := make(map[string]config.Launch, len(cfg.Upstreams))
	for key, def := range cfg.Upstreams {
		launches[key] = l.launch(ctx, def)
	}
	prompts, warnings := l.collect(cfg.PromptPaths)
	loaded.Warnings = append(loaded.Warnings, warnings...)
	loaded.Desired = reconcile.NewDesired(cfg, launches, prompts)
	loaded.File = reconcile.EnabledIn(cfg)
	l.settle, l.first = cfg.Server.Settle, false
	l.watcher.Set(l.items(cfg))
	return loaded
}

// config returns the configuration to follow: the file's where it validates,
// else that of the last good text (CFG-2), else an empty one.
func (l *loader) config(ctx context.Context) (*config.Config, reconcile.Loaded) {
	var loaded reconcile.Loaded
	text, err := l.stable(ctx, l.path)
	cfg, warnings, faults := l.parse(text, err)
	loaded.Warnings = append(loaded.Warnings, warnings...)
	if len(faults) == 0 {
		l.next = text
		if warning, wide := l.wideOpen(); wide {
			loaded.Warnings = append(loaded.Warnings, warning)
		}
		return cfg, loaded
	}
	l.next = nil
	loaded.Faults = faults
	if l.good != nil {
		old, _, oldFaults := config.Load(config.Source{Path: l.path, Data: l.good, Kind: config.Global}, l.env)
		if len(oldFaults) == 0 {
			return old, loaded
		}
		l.log.Warn("last good config is not valid any more", "file", l.path, "faults", len(oldFaults))
	}
	empty, _, _ := config.Load(config.Source{Path: l.path, Kind: config.Global}, l.env)
	return empty, loaded
}

// parse validates text, or says why there is none. A file that is missing or
// empty is no empty fleet once there was a good one (CFG-2).
func (l *loader) parse(text []byte, err error) (*config.Config, config.Warnings, config.Faults) {
	at := func(message string) config.Faults {
		return config.Faults{{File: l.path, Line: 1, Message: message}}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && l.good == nil:
		return nil, nil, at("no such file; write one with `harness init`")
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, at("the file is gone; the last good one stays in force")
	case err != nil:
		return nil, nil, at("not readable: " + bare(err).Error())
	}
	cfg, warnings, faults := config.Load(config.Source{Path: l.path, Data: text, Kind: config.Global}, l.env)
	if len(faults) == 0 && cfg.Empty && l.good != nil {
		return nil, warnings, at("the file is empty; a comment in it means no servers, an empty file is taken for an accident")
	}
	return cfg, warnings, faults
}

// bare takes the path off an error that will be shown beside it.
func bare(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// wideOpen warns of a config that other users can write: it says what runs.
func (l *loader) wideOpen() (config.Fault, bool) {
	info, err := os.Stat(l.path)
	if err != nil || info.Mode().Perm()&0o022 == 0 {
		return config.Fault{}, false
	}
	return config.Fault{File: l.path, Line: 1, Message: fmt.Sprintf("the file can be written by other users (mode %04o); run chmod go-w on it", info.Mode().Perm())}, true
}

// stable reads a file that two reads agree on (HOT-2). Where the watcher has
// settled on the same bytes, one read is the second one.
func (l *loader) stable(ctx context.Context, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if !l.first {
		data, err = l.settled(ctx, path, data, err)
	}
	if err == nil {
		l.digests[path] = sha256.Sum256(data)
	}
	return data, err
}

func (l *loader) settled(ctx context.Context, path string, data []byte, err error) ([]byte, error) {
	if seen, ok := l.watcher.Seen(path); ok && err == nil && seen == sha256.Sum256(data) {
		return data, nil
	}
	for deadline := time.Now().Add(longestSettle); time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return data, err
		case <-time.After(l.settle):
		}
		again, againErr := os.ReadFile(path)
		if bytes.Equal(data, again) && (err == nil) == (againErr == nil) {
			return again, againErr
		}
		data, err = again, againErr
	}
	return data, err
}

// launch adds to a definition what the file system says about it now.
func (l *loader) launch(ctx context.Context, def config.Upstream) config.Launch {
	launch := config.Launch{Upstream: def}
	exe, err := exec.LookPath(def.Cmd)
	switch {
	case err != nil && filepath.Base(def.Cmd) == def.Cmd:
		launch.ExeErr = fmt.Sprintf("executable not found: %q is not in PATH (%s)", def.Cmd, os.Getenv("PATH"))
	case err != nil:
		launch.ExeErr = fmt.Sprintf("executable not found: %v", err)
	default:
		launch.Exe = exe
	}
	if def.EnvFile != "" {
		launch.EnvDigest = l.envDigest(ctx, def.EnvFile)
	}
	return launch
}

// envDigest tells one content of an env_file from another without telling the
// content.
func (l *loader) envDigest(ctx context.Context, path string) string {
	data, err := l.stable(ctx, path)
	if err != nil {
		return "unreadable"
	}
	mac := hmac.New(sha256.New, l.key)
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil))
}

// collect reads the prompt directories. A file that does not parse is a
// warning, and its last good version stays (PRM-4).
func (l *loader) collect(paths []string) ([]prompt.Prompt, []config.Fault) {
	dirs := make([]prompt.Dir, len(paths))
	for i, path := range paths {
		dirs[i] = prompt.ReadDir(l.prompts, path, prompt.Global)
		for _, e := range dirs[i].Entries {
			if e.Err == nil {
				l.digests[filepath.Join(path, e.Name)] = sha256.Sum256(e.Data)
			}
		}
	}
	found, faults, served := prompt.Collect(dirs, l.served)
	l.served = served
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

// items lists what to watch (HOT-1): the global file, and the env_files and
// prompt directories of what is followed, each with what this load has read.
func (l *loader) items(cfg *config.Config) []watch.Item {
	known := func(path string) map[string][sha256.Size]byte {
		own := map[string][sha256.Size]byte{}
		if digest, ok := l.digests[path]; ok {
			own[path] = digest
		}
		return own
	}
	items := []watch.Item{{Path: l.path, Known: known(l.path)}}
	files := map[string]bool{}
	for _, u := range cfg.Upstreams {
		if u.EnvFile != "" {
			files[u.EnvFile] = true
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		items = append(items, watch.Item{Path: file, Known: known(file)})
	}
	for _, dir := range cfg.PromptPaths {
		own := map[string][sha256.Size]byte{}
		for path, digest := range l.digests {
			if filepath.Dir(path) == dir && prompt.Matches(filepath.Base(path)) {
				own[path] = digest
			}
		}
		items = append(items, watch.Item{Path: dir, Dir: true, Match: prompt.Matches, Known: own})
	}
	return items
}

// keep makes the text of the last load the last good one, in memory and on
// disk (CFG-3).
func (l *loader) keep() {
	if l.next == nil || (l.good != nil && bytes.Equal(l.good, l.next)) {
		return
	}
	l.good = l.next
	if err := l.state.saveLastGood(l.path, l.good); err != nil {
		l.log.Error("last good config not saved", "error", err)
	}
}
