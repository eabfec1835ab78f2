package contract

import (
	"os"
	"path/filepath"
	"strings"
)

// confinement is what a step is held to, beside the limits of its processes.
type confinement struct {
	alone     bool // a network namespace of its own
	landlock  bool
	read      []string
	readFiles []string
	write     []string // beside the working directory
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
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) || resolved == "/" {
			continue
		}
		dirs = append(dirs, resolved)
		if filepath.Base(resolved) != "bin" {
			continue
		}
		for _, beside := range []string{"lib", "lib64", "libexec", "include", "pkg", "src"} {
			dirs = append(dirs, filepath.Join(filepath.Dir(resolved), beside))
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
