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

	"github.com/google/renameio/v2"
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
	path := filepath.Join(s.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create a state directory: %w", err)
	}
	if err := renameio.WriteFile(path, append(data, '\n'), 0o600, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("write the state file %s: %w", name, err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open a state directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync a state directory: %w", err)
	}
	return nil
}

// load reads the file name into v and reports whether there was a usable one.
// A torn or foreign file is set aside with a warning, never overwritten in
// silence (FIL-3).
func (s *stateDir) load(name string, v any, usable func() bool) bool {
	path := filepath.Join(s.path, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		if err = json.Unmarshal(data, v); err == nil && usable() {
			return true
		}
	}
	aside := path + ".bad"
	if renameErr := os.Rename(path, aside); renameErr != nil {
		s.log.Warn("state file not usable and not set aside", "file", path, "error", renameErr)
		return false
	}
	s.log.Warn("state file not usable, set aside", "file", path, "aside", aside, "error", err)
	return false
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

// saveLastGood keeps text for the config file path, and for no other.
func (s *stateDir) saveLastGood(path string, text []byte) error {
	sum := sha256.Sum256(text)
	return s.save(lastGoodName(path), lastGood{Path: path, Text: text, SHA256: hex.EncodeToString(sum[:])})
}

// loadLastGood returns the text kept for the config file path.
func (s *stateDir) loadLastGood(path string) ([]byte, bool) {
	var g lastGood
	ok := s.load(lastGoodName(path), &g, func() bool {
		sum := sha256.Sum256(g.Text)
		return g.Path == path && g.SHA256 == hex.EncodeToString(sum[:])
	})
	return g.Text, ok
}
