package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// explain turns the errno of a fork or exec into what is wrong, which the
// kernel does not tell: "no such file" may be the command, its interpreter or
// the working directory. The result wraps err or what was found instead.
func explain(spec Spec, err error) error {
	if spec.Dir != "" {
		switch info, statErr := os.Stat(spec.Dir); {
		case statErr != nil:
			return fmt.Errorf("working directory: %w", statErr)
		case !info.IsDir():
			return fmt.Errorf("working directory %q: %w", spec.Dir, syscall.ENOTDIR)
		}
	}
	info, statErr := os.Stat(spec.Path)
	switch {
	case statErr != nil:
		return fmt.Errorf("executable not found: %w", errors.Unwrap(statErr))
	case info.IsDir():
		return fmt.Errorf("is a directory: %w", err)
	case errors.Is(err, syscall.EACCES) && info.Mode()&0o111 == 0:
		return fmt.Errorf("not executable (mode %s): %w", info.Mode(), err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EACCES):
		return explainInterpreter(spec.Path, err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("neither a program for this machine nor a script with a #! line: %w", err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("arguments and environment are too large: %w", err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("a NUL byte in an argument or in the environment: %w", err)
	}
	return err
}

// explainInterpreter is for a file that exists and may be executed.
func explainInterpreter(path string, err error) error {
	interpreter := readInterpreter(path)
	if interpreter == "" {
		return fmt.Errorf("cannot be executed, its loader or file system does not allow it: %w", err)
	}
	if _, statErr := os.Stat(interpreter); statErr != nil {
		return fmt.Errorf("interpreter %q of the script not found: %w", interpreter, err)
	}
	return fmt.Errorf("interpreter %q of the script cannot be executed: %w", interpreter, err)
}

// readInterpreter returns the program in the #! line of path, "" without one.
func readInterpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 256)) // the kernel reads no more
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	if err != nil || !isScript {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	// A \r from a Windows editor is part of the name, as it is to the kernel.
	fields := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) == 0 {
		return ""
	}
	return string(fields[0])
}
