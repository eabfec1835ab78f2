package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"harness/pkg/durable"
	"harness/reconcile"
)

// stateDir is the daemon's own directory: 0700, its files 0600 (FIL-1).
type stateDir struct {
	path string
	log  *slog.Logger
}

// openState creates the directory where needed and refuses one that is
// somebody else's. Too wide a mode is corrected: what is in it is ours.
func openState(path string, log *slog.Logger) (*stateDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look at the state directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return nil, fmt.Errorf("the state directory %q belongs to uid %d; set HARNESS_STATE_DIR to one of your own", path, st.Uid)
	}
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(path, 0o700); err != nil {
			return nil, fmt.Errorf("make the state directory private: %w", err)
		}
	}
	return &stateDir{path, log}, nil
}

// sub returns the path of a directory below, creating it 0700.
func (s *stateDir) sub(name string) (string, error) {
	path := filepath.Join(s.path, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("create a state directory: %w", err)
	}
	return path, nil
}

// save replaces the file name, relative to the directory, by v as JSON:
// atomically and durably (FIL-3).
func (s *stateDir) save(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state file %s: %w", name, err)
	}
	return durable.Write(filepath.Join(s.path, name), append(data, '\n'))
}

// remove forgets the file name. One that is not there is forgotten already.
func (s *stateDir) remove(name string) error {
	if err := os.Remove(filepath.Join(s.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget a state file: %w", err)
	}
	return nil
}

// errForeign is why a file that could be decoded is not used.
var errForeign = errors.New("it is not what its name says")

// load reads the file name as a T. The result is the zero value and false where
// there is no file, or none that usable accepts: a torn or foreign one is set
// aside with a warning, never overwritten in silence (FIL-3).
func load[T any](s *stateDir, name string, usable func(*T) bool) (T, bool) {
	var v, none T
	path := filepath.Join(s.path, name)
	data, err := durable.Read(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return none, false
	}
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err == nil && !usable(&v) {
		err = errForeign
	}
	if err == nil {
		return v, true
	}
	aside, asideErr := durable.SetAside(path)
	if asideErr != nil {
		s.log.Error("state file not set aside", "file", path, "error", asideErr)
	}
	s.log.Warn("state file not usable, set aside", "file", path, "aside", aside, "error", err)
	return none, false
}

// stateFile keeps what survives a restart of the daemon.
const stateFile = "state.json"

// stateSchema is what that file says it is.
const stateSchema = "harness/state/v1"

// fleetState is the content of the state file.
type fleetState struct {
	Schema string `json:"schema"`
	// Config is the global file that the intents are about.
	Config string `json:"config"`
	reconcile.Kept
}

// loadFleet returns what an earlier daemon kept. Intents are about the
// upstreams of one config file and count for no other.
func (s *stateDir) loadFleet(config string) reconcile.Kept {
	f, _ := load(s, stateFile, func(f *fleetState) bool { return f.Schema == stateSchema })
	if f.Config != config {
		f.Intents = nil
	}
	return f.Kept
}

// lastGood is the last text of a config file that validated (CFG-3).
type lastGood struct {
	Path   string `json:"path"`
	Text   []byte `json:"text"`
	SHA256 string `json:"sha256"`
}

func lastGoodName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join("last-good", hex.EncodeToString(sum[:8])+".json")
}

// newLastGood returns what is kept for the config file path, and for no other.
func newLastGood(path string, text []byte) lastGood {
	sum := sha256.Sum256(text)
	return lastGood{Path: path, Text: text, SHA256: hex.EncodeToString(sum[:])}
}

// loadLastGood returns the text kept for the config file path.
func (s *stateDir) loadLastGood(path string) ([]byte, bool) {
	g, ok := load(s, lastGoodName(path), func(g *lastGood) bool {
		return g.Path == path && g.SHA256 == newLastGood(path, g.Text).SHA256
	})
	return g.Text, ok
}
