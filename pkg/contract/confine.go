package contract

import (
	"os"
	"path/filepath"
	"strings"
)

// Confiner is the argument that makes the harness program a [Confine].
const Confiner = "__step"

// confineFailed is the exit status of a Confine that could not become its step.
const confineFailed = 125

// confinement is what a Confine is told.
type confinement struct {
	Nonce     string   `json:"nonce"` // tells its own words on stderr from the step's
	Path      string   `json:"path"`  // "" to try whether the rest works
	Argv      []string `json:"argv"`
	Alone     bool     `json:"alone"` // it is in a network namespace of its own
	Landlock  bool     `json:"landlock"`
	Read      []string `json:"read"`
	ReadFiles []string `json:"read_files"`
	Write     []string `json:"write"`
	CPU       int64    `json:"cpu"`    // seconds; 0 means no limit
	Memory    int64    `json:"memory"` // bytes; 0 means no limit
}

// systemDirs are what programs need to run, and files of no user.
func systemDirs() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu", "/proc", "/sys",
		"/etc/alternatives", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ld.so.conf.d", "/etc/java", "/etc/fonts", "/etc/terminfo",
	}
}

// systemFiles are the files of /etc that libraries read. The rest of it holds
// secrets.
func systemFiles() []string {
	names := strings.Fields("ld.so.cache ld.so.conf ld.so.preload passwd group nsswitch.conf hosts host.conf resolv.conf gai.conf " +
		"services protocols localtime timezone os-release lsb-release debian_version mime.types magic locale.alias locale.conf " +
		"ca-certificates.conf gitconfig inputrc bash.bashrc profile login.defs shells environment")
	for i, name := range names {
		names[i] = "/etc/" + name
	}
	return names
}

// toolDirs are the directories of the PATH that is let through, and what
// belongs to the programs in them by custom. The directories beside those are
// not: ~/.local/bin is in a PATH, and ~/.local/share holds keys.
func toolDirs(path string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) || real == "/" {
			continue
		}
		dirs = append(dirs, real)
		if filepath.Base(real) != "bin" {
			continue
		}
		for _, beside := range []string{"lib", "lib64", "libexec", "include", "pkg", "src"} {
			dirs = append(dirs, filepath.Join(filepath.Dir(real), beside))
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return dirs
	}
	// A directory that has the home in it would let all of it be read.
	kept := dirs[:0]
	for _, dir := range dirs {
		if rel, err := filepath.Rel(dir, home); err != nil || strings.HasPrefix(rel, "..") {
			kept = append(kept, dir)
		}
	}
	return kept
}
