package fakeup

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Name is the program's name: the test binary of this package runs Main when
// it is called so.
const Name = "fake-upstream"

// Build makes the program in dir and returns its path. It needs the go
// command and a working directory inside the module; the build cache makes
// all but the first time cheap.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, Name)
	out, err := exec.Command("go", "test", "-c", "-o", path, "harness/integration/fakeup").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", Name, err, out)
	}
	return path, nil
}
