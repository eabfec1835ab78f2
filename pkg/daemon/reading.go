package daemon

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"harness/pkg/config"
	"harness/pkg/durable"
	"harness/pkg/prompt"
)

// reading is what all followed files held at one moment. Which files those are
// follows from the config files.
type reading struct {
	global   outcome
	projects []outcome         // in the order in which they came up
	envFiles map[string][]byte // contents by path, of those that could be read
	dirs     []promptDir
	digests  map[string][sha256.Size]byte // of every file that could be read
}

// promptDir is a prompt directory and whose harnesses see what is in it.
type promptDir struct {
	prompt.Dir
	project string
}

// files are the config files, the global one first.
func (r *reading) files() []outcome { return append([]outcome{r.global}, r.projects...) }

// read reads all files once.
func (l *loader) read() *reading {
	r := &reading{envFiles: map[string][]byte{}, digests: map[string][sha256.Size]byte{}}
	r.global = l.look(r, l.global)
	for _, f := range l.projects {
		r.projects = append(r.projects, l.look(r, f.followed))
	}
	distinct(r.projects)
	for _, o := range r.files() {
		for _, path := range envFiles(o.cfg) {
			if _, done := r.envFiles[path]; done {
				continue
			}
			if data, err := ReadRegular(path); err == nil {
				r.envFiles[path], r.digests[path] = data, sha256.Sum256(data)
			}
		}
		l.readPrompts(r, o)
	}
	return r
}

// look reads one config file.
func (l *loader) look(r *reading, f *followed) outcome {
	text, err := ReadRegular(f.path)
	if err == nil {
		r.digests[f.path] = sha256.Sum256(text)
	}
	return f.judge(text, err)
}

// readPrompts reads the prompt directories of one config file. What a link in
// one of a project may lead to is less (PRM-5).
func (l *loader) readPrompts(r *reading, o outcome) {
	for _, path := range o.cfg.PromptPaths {
		var dir prompt.Dir
		if o.of.kind == config.Project {
			dir = prompt.ReadProjectDir(l.prompts, path, filepath.Dir(o.of.path))
		} else {
			dir = prompt.ReadDir(l.prompts, path, prompt.Global)
		}
		r.dirs = append(r.dirs, promptDir{dir, o.cfg.Project.Name})
		for _, e := range dir.Entries {
			if e.Err == nil {
				r.digests[filepath.Join(path, e.Name)] = sha256.Sum256(e.Data)
			}
		}
	}
}

// envFiles lists the env_files that a config names, each once.
func envFiles(c *config.Config) []string {
	named := map[string]bool{}
	for _, u := range c.Upstreams {
		named[u.EnvFile] = true
	}
	for _, a := range c.Agents {
		named[a.EnvFile] = true
	}
	delete(named, "")
	return slices.Sorted(maps.Keys(named))
}

// same reports whether two readings found the same.
func (r *reading) same(o *reading) bool { return maps.Equal(r.digests, o.digests) }

// ReadRegular reads a file of at most 16 MiB. What is none is refused and not
// waited for: a pipe may have nobody at its other end.
func ReadRegular(path string) ([]byte, error) {
	data, err := durable.Read(path, maxFile)
	if errors.Is(err, durable.ErrTooLarge) {
		return nil, errTooLarge
	}
	return data, err
}

// maxFile is the largest config or env_file that is read, in bytes. Whatever
// is larger is neither.
const maxFile = 16 << 20

var errTooLarge = errors.New("larger than 16 MiB")

// bare takes the path off an error that will be shown beside it.
func bare(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
