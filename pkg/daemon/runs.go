package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"harness/pkg/agent"
	"harness/pkg/config"
	"harness/pkg/evidence"
	"harness/pkg/proc"
	"harness/pkg/run"
)

// recorder adapts the runs on disk to what a pool records.
type recorder struct {
	*archive
	log *slog.Logger
}

// Begin implements [agent.Recorder].
func (r recorder) Begin(l config.AgentLaunch, at time.Time) (agent.Run, error) {
	one, err := r.runs.Begin(run.Launch{Harness: l.Name, Argv: argvOf(l, nil), Definition: definitionDigest(l), Actor: r.self, At: at})
	if err != nil {
		return nil, err
	}
	return recorded{one, r.log}, nil
}

type recorded struct {
	*run.Run
	log *slog.Logger
}

// Started implements [agent.Run].
func (r recorded) Started() {
	if err := r.Run.Started(time.Now()); err != nil {
		r.log.Error("start of a run not recorded", "run", r.ID(), "error", err)
	}
}

// End implements [agent.Run].
func (r recorded) End(e proc.Exit, err error) {
	if err != nil {
		r.Run.End(unstarted(r.log, r.ID(), err))
		return
	}
	r.Run.End(endOf(e))
}

// endOf is how a process ended.
func endOf(e proc.Exit) run.End {
	return run.End{At: e.At, State: run.Exited, Code: e.Code, Signal: e.Signal}
}

// unstarted is the end of a run that has no process. Evidence shows no path and
// no text of the system's: the log has them, under an id (RES-5).
func unstarted(log *slog.Logger, id string, err error) run.End {
	ref := token()
	log.Error("process of a run not started", "run", id, "correlation_id", ref, "error", err)
	return run.End{At: time.Now(), State: run.Failed, Unseen: true, Reason: unstartedWhy(err) + "; the daemon's log says more at " + ref}
}

// unstartedWhy says what kind of thing was in the way of a process.
func unstartedWhy(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "its program, its script's interpreter or its working directory is not there"
	case errors.Is(err, fs.ErrPermission):
		return "its program may not be executed, or its working directory not be entered"
	case errors.Is(err, syscall.ENOTDIR):
		return "its working directory is not a directory"
	case errors.Is(err, syscall.ENOEXEC):
		return "its program cannot run on this machine"
	case errors.Is(err, syscall.E2BIG):
		return "its arguments and environment are too large"
	}
	return "its process could not be started"
}

// argvOf is the command line of a launch as it is sealed: the program by its
// base name, and more arguments after those of the definition (EVI-2).
func argvOf(l config.AgentLaunch, more []string) []string {
	return slices.Concat([]string{filepath.Base(l.Cmd)}, l.Args, more)
}

// definitionDigest identifies a definition, with the names of its environment
// and without the values.
func definitionDigest(l config.AgentLaunch) string {
	data, err := evidence.Canonical(struct {
		config.Agent
		Project string   `json:"project"`
		Env     []string `json:"env"`
	}{l.Agent, l.Project, slices.Sorted(maps.Keys(l.Env))})
	if err != nil {
		panic("daemon: a definition that is no JSON: " + err.Error()) // met by every test
	}
	return evidence.Digest(data)
}

// token is a name that nobody else thinks of.
func token() string {
	var b [8]byte
	// crypto/rand.Read never fails.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// instanceFile keeps what the daemon of a state directory is called.
const instanceFile = "instance.json"

// instanceState is the content of that file.
type instanceState struct {
	Schema string `json:"schema"`
	ID     string `json:"id"`
}

// instance returns the id of the daemons of this state directory.
func (s *stateDir) instance() (string, error) {
	const schema = "harness/instance/v1"
	if i, ok := load(s, instanceFile, func(i *instanceState) bool { return i.Schema == schema && i.ID != "" }); ok {
		return i.ID, nil
	}
	i := instanceState{schema, token() + token()}
	return i.ID, s.save(instanceFile, i)
}

// openEvidence opens the state directory as one of evidence.
func (s *stateDir) openEvidence() (*evidence.Dir, error) {
	// Where the directory itself is, its owner has decided, links and all.
	path, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		return nil, fmt.Errorf("find the state directory: %w", err)
	}
	dir, err := evidence.OpenDir(path)
	if err != nil {
		return nil, fmt.Errorf("open the state directory: %w", err)
	}
	return dir, nil
}
