package contract

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Source is the text of a contract and the directory that it may touch.
type Source struct {
	Name string // what faults call it
	Text []byte
	Root string
}

// ErrOutside is what Find answers for a file that is nowhere it may be.
var ErrOutside = errors.New("it is under none of the directories that contracts may live in")

// Find takes what a caller without authority names a contract by: its text,
// whose root is then dir, or the path of a file under dir or one of roots,
// reached through no link. Its root is the directory that it is in.
func Find(contract, dir string, roots []string) (Source, error) {
	if len(contract) > MaxText {
		return Source{}, fmt.Errorf("a contract has at most %d bytes", MaxText)
	}
	if strings.ContainsAny(contract, "\n[") {
		root, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return Source{}, fmt.Errorf("find the working directory: %w", err)
		}
		return Source{"contract", []byte(contract), root}, nil
	}
	path := contract
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	for _, root := range append([]string{dir}, roots...) {
		resolved, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue // a root that is not there holds nothing
		}
		for _, as := range []string{root, resolved} {
			rel, err := filepath.Rel(as, path)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			text, err := readFile(resolved, rel)
			if err != nil {
				return Source{}, fmt.Errorf("read the contract: %w", err)
			}
			return Source{filepath.Base(rel), text, filepath.Dir(filepath.Join(resolved, rel))}, nil
		}
	}
	return Source{}, ErrOutside
}
