package daemon

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"

	"harness/pkg/config"
	"harness/pkg/prompt"
)

// reading is what all followed files held at one moment. Which files those are
// follows from the global one.
type reading struct {
	text     []byte         // of the global file
	cfg      *config.Config // to follow: of the text, or what stands in for it
	accepted bool           // cfg is of the text
	known    bool           // cfg is of a text, if not of this one
	faults   config.Faults  // why the text was refused
	warnings config.Warnings
	envFiles map[string][]byte // contents by path, of those that could be read
	dirs     []prompt.Dir
	digests  map[string][sha256.Size]byte // of every file that could be read
}

// read reads all files once.
func (l *loader) read() *reading {
	r := &reading{envFiles: map[string][]byte{}, digests: map[string][sha256.Size]byte{}}
	text, err := ReadRegular(l.path)
	if err == nil {
		r.text, r.digests[l.path] = text, sha256.Sum256(text)
	}
	l.judge(r, err)
	for _, u := range r.cfg.Upstreams {
		if _, done := r.envFiles[u.EnvFile]; u.EnvFile == "" || done {
			continue
		}
		if data, err := ReadRegular(u.EnvFile); err == nil {
			r.envFiles[u.EnvFile], r.digests[u.EnvFile] = data, sha256.Sum256(data)
		}
	}
	for _, path := range r.cfg.PromptPaths {
		dir := prompt.ReadDir(l.prompts, path, prompt.Global)
		r.dirs = append(r.dirs, dir)
		for _, e := range dir.Entries {
			if e.Err == nil {
				r.digests[filepath.Join(path, e.Name)] = sha256.Sum256(e.Data)
			}
		}
	}
	return r
}

// same reports whether two readings found the same.
func (r *reading) same(o *reading) bool { return maps.Equal(r.digests, o.digests) }

// judge validates the text and decides what to follow: its config where it is
// accepted, else the last good one (CFG-2), else an empty one.
func (l *loader) judge(r *reading, err error) {
	r.cfg, r.warnings, r.faults = l.parse(r.text, err)
	r.accepted = len(r.faults) == 0
	r.known = r.accepted || l.base != nil
	switch {
	case r.accepted:
	case l.base != nil:
		r.cfg = l.base
	default:
		r.cfg, _, _ = config.Load(l.source(nil), l.env)
	}
}

// parse validates text, or says why there is none. A file that is missing or
// empty is no empty fleet once there was one with something in it (CFG-2).
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
	cfg, warnings, faults := l.validated(text)
	if len(faults) == 0 && cfg.Empty && l.good != nil && (l.base == nil || !l.base.Empty) {
		return nil, nil, at("the file is empty; a comment in it means no servers, an empty file is taken for an accident")
	}
	return cfg, warnings, faults
}

// validated is config.Load, done once for a text that two readings agree on:
// the second one is only there to see that the file has settled.
func (l *loader) validated(text []byte) (*config.Config, config.Warnings, config.Faults) {
	if l.judged.cfg == nil && len(l.judged.faults) == 0 || !bytes.Equal(l.judged.text, text) {
		l.judged.text = text
		l.judged.cfg, l.judged.warnings, l.judged.faults = config.Load(l.source(text), l.env)
	}
	return l.judged.cfg, l.judged.warnings, l.judged.faults
}

func (l *loader) source(text []byte) config.Source {
	return config.Source{Path: l.path, Data: text, Kind: config.Global}
}

// ReadRegular reads a file of at most 16 MiB. What is none is refused and not
// waited for: a pipe may have nobody at its other end.
func ReadRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, errTooLarge
	}
	return data, err
}

// maxFile is the largest config or env_file that is read, in bytes. Whatever
// is larger is neither.
const maxFile = 16 << 20

var errTooLarge = errors.New("larger than 16 MiB")

var errNotRegular = errors.New("not a regular file")

// bare takes the path off an error that will be shown beside it.
func bare(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
