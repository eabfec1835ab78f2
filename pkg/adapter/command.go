package adapter

import (
	"path"
	"slices"
	"strings"
)

// within finds the CLI in a command: it is the command, or the script of a
// runner. It returns where the CLI's own arguments begin.
func (c cli) within(cmd string, args []string) (at int, ok bool) {
	if c.is(cmd) {
		return 0, true
	}
	i := script(cmd, args)
	if i < len(args) && c.is(args[i]) {
		return i + 1, true
	}
	return 0, false
}

// behind finds where arguments go in a command of which the user says that it
// is the CLI.
func (c cli) behind(cmd string, args []string) int {
	if i := slices.IndexFunc(args, c.is); i >= 0 {
		return i + 1 // env A=1 codex, nice codex
	}
	if i := script(cmd, args); i < len(args) {
		return i + 1
	}
	if !slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "fish"}, base(cmd)) {
		return 0
	}
	if i := slices.Index(args, "-c"); i >= 0 && i+1 < len(args) {
		if strings.Contains(args[i+1], "$@") || strings.Contains(args[i+1], "$argv") {
			return len(args)
		}
		return nowhere
	}
	return len(args)
}

// is reports whether word names the CLI: its program, its script or its npm
// package.
func (c cli) is(word string) bool {
	if base(word) == c.program {
		return true
	}
	for _, p := range c.packages {
		if word == p || strings.HasPrefix(word, p+"@") || strings.Contains(word, "node_modules/"+p+"/") {
			return true
		}
	}
	return false
}

// base is the last part of a path without what says how the file is run.
func base(word string) string {
	name := path.Base(word)
	switch ext := path.Ext(name); ext {
	case ".js", ".mjs", ".cjs", ".exe", ".cmd":
		return strings.TrimSuffix(name, ext)
	default:
		return name
	}
}

// script returns the index of the argument that a runner of scripts or packages
// runs, and len(args) where there is none.
func script(cmd string, args []string) int {
	var valued, words []string // options that take the next word; subcommands
	switch base(cmd) {
	case "node", "nodejs":
		valued = []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file"}
	case "npx", "bunx":
		valued = []string{"-p", "--package"}
	case "bun":
		valued, words = []string{"-r", "--preload", "--env-file", "--cwd"}, []string{"run", "x"}
	default:
		return len(args)
	}
	for i := 0; i < len(args); i++ {
		switch {
		case slices.Contains(valued, args[i]):
			i++
		case strings.HasPrefix(args[i], "-"), slices.Contains(words, args[i]):
		default:
			return i
		}
	}
	return len(args)
}
