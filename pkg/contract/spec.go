package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"harness/pkg/ledger"
)

// Spec is a contract that is valid: what has to be done and what has to hold
// afterwards (CON-1). Paths in it are relative, clean and below the root.
type Spec struct {
	Name      string
	Workdir   string        // of every step; "." is the root itself
	Timeout   time.Duration // of work and checks together
	MaxOutput int64         // bytes that one step may write to its standard files
	Env       []string      // names let through, sorted; nothing else is
	MaxCPU    time.Duration // processor time of each process, whole seconds; 0 means no limit
	MaxMemory int64         // address space of each process in bytes; 0 means no limit
	Parallel  int           // how many checks may run at a time
	Work      *Work         // nil: there is nothing to be done first
	Checks    []Check       // at least one, names unique
}

// Work is done before anything is checked: a command, or a harness of the
// fleet. Its exit status must be 0.
type Work struct {
	Cmd        string // "" where Harness is set
	Args       []string
	Harness    string
	Prompt     string        // standard input of a command, the prompt of a harness
	PromptFile string        // the file that has it instead; "" means none
	Timeout    time.Duration // 0 means that of the contract
}

// Check is one thing that has to hold: of a command (Cmd) or of a file (File).
type Check struct {
	Name    string
	Timeout time.Duration // 0 means that of the contract

	Cmd            string
	Args           []string
	Exit           int    // the status it must exit with
	Stdout, Stderr string // regular expressions, one line or more must match; "" means any

	File   string // relative to the working directory
	Exists bool   // false: it must not be there
	SHA256 string // lower-case hex of its content; "" means any
	JSON   *Value // nil: it need not be JSON
}

// Value is what a JSON document must have at a pointer (RFC 6901).
type Value struct {
	Pointer string
	Equals  json.RawMessage
}

// Canonical is the one form in which equal contracts are equal bytes: RFC 8785
// JSON of everything that a contract means, with defaults written out.
func (s *Spec) Canonical() ([]byte, error) {
	form := map[string]any{
		"schema": "harness/contract/v1", "name": s.Name, "workdir": s.Workdir,
		"timeout_ms": s.Timeout.Milliseconds(), "max_output": s.MaxOutput, "env": s.Env,
		"max_cpu_ms": s.MaxCPU.Milliseconds(), "max_memory": s.MaxMemory, "parallel": s.Parallel,
	}
	if w := s.Work; w != nil {
		form["work"] = map[string]any{
			"cmd": w.Cmd, "args": w.Args, "harness": w.Harness, "prompt": w.Prompt, "prompt_file": w.PromptFile,
			"timeout_ms": w.Timeout.Milliseconds(),
		}
	}
	checks := make([]any, len(s.Checks))
	for i, c := range s.Checks {
		checks[i] = c.canonical()
	}
	form["checks"] = checks
	data, err := ledger.Canonical(form)
	if err != nil {
		return nil, fmt.Errorf("encode the contract: %w", err)
	}
	return data, nil
}

func (c Check) canonical() map[string]any {
	form := map[string]any{"name": c.Name, "timeout_ms": c.Timeout.Milliseconds()}
	if c.Cmd != "" {
		form["cmd"], form["args"], form["exit"] = c.Cmd, c.Args, c.Exit
		form["stdout"], form["stderr"] = c.Stdout, c.Stderr
		return form
	}
	form["file"], form["exists"], form["sha256"] = c.File, c.Exists, c.SHA256
	if c.JSON != nil {
		// As text: a number of a contract need not fit a double.
		form["json"] = map[string]any{"pointer": c.JSON.Pointer, "equals": string(c.JSON.Equals)}
	}
	return form
}

// Digest is the lower-case hex SHA-256 of the canonical form.
func (s *Spec) Digest() (string, error) {
	data, err := s.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
