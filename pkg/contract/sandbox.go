package contract

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Sandbox is what keeps a check from the rest of the machine.
type Sandbox struct {
	Landlock bool // the working directory is the only place to write, system and contract the only ones to read
	Netns    bool // there is no network but a loopback interface of its own
}

// String is how a verdict states it: "landlock+netns", "landlock", "netns" or
// "none".
func (s Sandbox) String() string {
	var parts []string
	if s.Landlock {
		parts = append(parts, "landlock")
	}
	if s.Netns {
		parts = append(parts, "netns")
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "+")
}

// around is what of s is in force around work: a command keeps the network, and a
// harness is run by the daemon, as it is defined.
func (s Sandbox) around(w *Work) Sandbox {
	if w.Harness != "" {
		return Sandbox{}
	}
	return Sandbox{Landlock: s.Landlock}
}

// weaker is what both have in force.
func weaker(a, b string) string {
	var s Sandbox
	s.Landlock = strings.Contains(a, "landlock") && strings.Contains(b, "landlock")
	s.Netns = strings.Contains(a, "netns") && strings.Contains(b, "netns")
	return s.String()
}

// Sandbox is what this machine has to offer, found by trying it once.
func (e *Engine) Sandbox() Sandbox {
	e.probe.Do(func() {
		switch abi := landlockABI(); {
		case e.try(Sandbox{abi >= minABI, true}):
			e.sandbox = Sandbox{abi >= minABI, true}
		case e.try(Sandbox{abi >= minABI, false}):
			e.sandbox = Sandbox{abi >= minABI, false}
		case e.try(Sandbox{false, true}):
			e.sandbox = Sandbox{false, true}
		}
	})
	return e.sandbox
}

// minABI is the first Landlock that covers all ways to change a file.
const minABI = 3

// try starts a program that is not there, which comes to light when all that
// confines it is in force.
func (e *Engine) try(s Sandbox) bool {
	dir, err := os.Open(os.TempDir())
	if err != nil {
		return false
	}
	defer dir.Close()
	c := confinement{alone: s.Netns, landlock: s.Landlock, read: systemDirs()}
	p, err := e.start(c, task{name: "probe", spec: &Spec{}}, filepath.Join(dir.Name(), rand.Text()), dir, nil)
	if err == nil {
		p.Kill()
	}
	return errors.Is(err, fs.ErrNotExist)
}
