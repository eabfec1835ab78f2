package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"harness/pkg/evidence"
)

// What the directory of a session has. The last three are its writer's.
const (
	chainName  = "entries.jsonl" // sealed with the verdict
	textName   = "contract.toml"
	lockName   = "lock"
	tornPrefix = "torn-"    // and the number of the entry that says so
	tornNew    = "torn.new" // while it is written

	// EvidenceName is the directory of what the steps of a session said.
	EvidenceName = "evidence"
	// ScratchName is the directory for what lasts as long as its writer.
	ScratchName = "scratch"
	// CancelName is the file by which one process asks another for an end.
	CancelName = "cancel"
)

const (
	sealedMode = 0o400

	// What is read of the files of a session at most, in bytes.
	maxChain = 1 << 30
	maxText  = 16 << 20
)

// content is a session as it was read and checked.
type content struct {
	entries []Entry
	torn    []byte // what stands behind the last of them
	size    int64  // of the chain's file, torn included
	text    []byte // of the contract
}

// over reports whether the chain has its verdict.
func (c content) over() bool { return c.entries[len(c.entries)-1].Type == Decided }

// openDir opens a directory, on the way to which a link is the user's.
func openDir(path string) (*evidence.Dir, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	dir, err := evidence.OpenDir(resolved)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return dir, nil
}

// OpenDir opens the directory of a session, which no link leads to. It is
// ErrUnknown where there never was one.
func (s *Store) OpenDir(id string) (*evidence.Dir, error) {
	if problem := SessionProblem(id); problem != "" {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, problem)
	}
	root, err := openDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir, err := root.Sub(sessionsName + "/" + id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrUnknown
	case err != nil:
		return nil, faultf(0, "the directory of session %s is none, or a link leads to it", id)
	}
	return dir, nil
}

// load reads and checks a session.
func (s *Store) load(id string) (content, error) {
	dir, err := s.OpenDir(id)
	if err != nil {
		return content{}, err
	}
	defer dir.Close()
	if err := survey(dir, id); err != nil {
		return content{}, err
	}
	data, info, err := readOwn(dir, chainName, id, maxChain)
	if err != nil {
		return content{}, err
	}
	c := content{size: int64(len(data))}
	if c.entries, c.torn, err = s.parse(id, data); err != nil {
		return content{}, err
	}
	if wrong := info.Open(); wrong != "" && !c.over() {
		return content{}, faultf(0, "%s of session %s: %s", chainName, id, wrong)
	}
	if c.over() && len(c.torn) > 0 {
		return content{}, faultf(0, "%s of session %s: something stands behind the verdict", chainName, id)
	}
	if c.text, _, err = readOwn(dir, textName, id, maxText); err != nil {
		return content{}, err
	}
	if checkText(c.entries[0], c.text) != nil {
		return content{}, faultf(1, "%s of session %s was changed: text_sha256 is another digest", textName, id)
	}
	return c, nil
}

// survey looks for what has no place in a session's directory. What is removed
// meanwhile by its writer was none of that.
func survey(dir *evidence.Dir, id string) error {
	names, err := dir.Names()
	if err != nil {
		return fmt.Errorf("list the session: %w", err)
	}
	began := false
	for _, name := range names {
		info, err := dir.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list the session: %w", err)
		}
		began = began || name != lockName
		if wrong := misplaced(info); wrong != "" {
			return faultf(0, "%s of session %s: %s", name, id, wrong)
		}
	}
	if !began {
		return ErrUnknown
	}
	return nil
}

// misplaced says what is wrong with something in a session's directory, beside
// what readOwn says.
func misplaced(info evidence.Info) string {
	number, torn := strings.CutPrefix(info.Name, tornPrefix)
	_, err := strconv.ParseUint(number, 10, 31)
	switch name := info.Name; {
	case name == EvidenceName || name == ScratchName:
		if !info.Mode.IsDir() {
			return "not a directory"
		}
	case name == lockName || name == CancelName:
		if !info.Mode.IsRegular() {
			return "not a regular file"
		}
	case name == tornNew || torn && err == nil:
		return info.Open()
	case name != chainName && name != textName:
		return "not a file of a session"
	}
	return ""
}

// readOwn reads a file of a session that nobody else can have written, sealed or
// not: sessions of before are not.
func readOwn(dir *evidence.Dir, name, id string, most int64) ([]byte, evidence.Info, error) {
	data, info, err := dir.Read(name, most)
	wrong := info.Sealed()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, info, faultf(0, "%s of session %s is missing", name, id)
	case errors.Is(err, evidence.ErrLink), errors.Is(err, evidence.ErrIrregular):
		return nil, info, faultf(0, "%s of session %s was replaced by something else than a file", name, id)
	case err != nil:
		return nil, info, faultf(0, "%s of session %s cannot be read", name, id)
	case wrong != "" && info.Open() != "":
		return nil, info, faultf(0, "%s of session %s: %s", name, id, wrong)
	}
	return data, info, nil
}

// parse reads and checks lines. torn is what stands behind the last of them.
func (s *Store) parse(id string, data []byte) (entries []Entry, torn []byte, err error) {
	ring, err := s.Ring()
	if err != nil {
		return nil, nil, err
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 { // the first entry was on the disk before the session was there
		return nil, nil, faultf(1, "it is missing, or cut off: %s of session %s has no whole entry", chainName, id)
	}
	var lines [][]byte
	for line := range bytes.Lines(data[:end]) {
		var e Entry
		err := json.Unmarshal(line, &e)
		if err != nil {
			return nil, nil, faultf(len(entries)+1, "it is torn or foreign")
		}
		entries, lines = append(entries, e), append(lines, line[:len(line)-1])
	}
	again, err := settle(entries)
	if err != nil {
		return nil, nil, err
	}
	for i := range again {
		if !bytes.Equal(again[i], lines[i]) {
			return nil, nil, faultf(i+1, "it is torn or foreign")
		}
	}
	if err := checkChain(id, entries, ring); err != nil {
		return nil, nil, err
	}
	return entries, data[end:], nil
}
