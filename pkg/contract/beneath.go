package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"harness/pkg/evidence"
)

// maxRead is how much of a file is read to look into it (JSON, prompts).
const maxRead = 16 << 20

// openRoot opens the directory that a contract may touch, as a place from which no
// link leads on (EVI-4).
func openRoot(root string) (*evidence.Dir, error) {
	dir, err := evidence.OpenDir(root)
	if err != nil {
		return nil, fmt.Errorf("open the contract's directory: %w", err)
	}
	return dir, nil
}

// openDir opens a directory below root.
func openDir(root, path string) (*os.File, error) {
	dir, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.OpenDirectory(path)
}

// look fails where there is nothing at a path below root, or a link.
func look(root, path string) error {
	dir, err := openRoot(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	_, err = dir.Look(path)
	return err
}

// checkDir says why path below root is no directory to work in, or nil.
func checkDir(root, path string) error {
	f, err := openDir(root, path)
	if err != nil {
		return err
	}
	return f.Close()
}

// readFile reads a regular file that is to be looked into.
func readFile(root, path string) ([]byte, error) {
	dir, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	data, _, err := dir.Read(path, maxRead)
	if errors.Is(err, evidence.ErrTooLarge) {
		err = fmt.Errorf("%s has more than %d bytes", path, maxRead)
	}
	return data, err
}

// lookAt says whether a file is what c demands.
func lookAt(root, path string, c *Check) Observed {
	err := holds(root, path, c)
	var unreadable *fs.PathError
	switch {
	case err == nil:
		return Observed{Holds: true}
	case errors.As(err, &unreadable) && !isMissing(err) && !errors.Is(err, evidence.ErrIrregular):
		return Observed{End: Unstarted, Problem: err.Error()}
	}
	return Observed{Problem: err.Error()}
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// holds says why the file is not as it must be.
func holds(root, path string, c *Check) error {
	err := look(root, path)
	switch {
	case err != nil && isMissing(err) && !c.Exists:
		return nil
	case err != nil && isMissing(err):
		return errors.New("it is not there")
	case err != nil:
		return err
	}
	switch {
	case !c.Exists:
		return errors.New("it is there")
	case c.SHA256 != "":
		if err := sameDigest(root, path, c.SHA256); err != nil {
			return err
		}
	}
	if c.JSON == nil {
		return nil
	}
	data, err := readFile(root, path)
	if err != nil {
		return err
	}
	return c.JSON.holds(data)
}

func sameDigest(root, path, want string) error {
	dir, err := openRoot(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	f, _, err := dir.OpenFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return errors.New("it has another digest")
	}
	return nil
}
