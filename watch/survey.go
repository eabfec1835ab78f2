package watch

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// target is an item of the set, made ready to be looked at.
type target struct {
	item  id
	match []func(string) bool // of a directory: an entry counts when any says so
	known map[string][sha256.Size]byte
	list  listing    // of a directory, by the last survey
	files []sighting // of the last look, reused
}

// listing is what a directory was found to hold.
type listing struct {
	entries []fs.DirEntry // those that count
	err     error         // it is there and could not be listed
}

// targets makes a set of items ready, the same path given twice being one.
func targets(items []Item) []*target {
	var all []*target
	byID := map[id]*target{}
	for _, it := range items {
		key := id{absolute(it.Path), it.Dir}
		t := byID[key]
		if t == nil {
			t = &target{item: key}
			byID[key] = t
			all = append(all, t)
		}
		match := it.Match
		if match == nil {
			match = func(string) bool { return true }
		}
		t.match = append(t.match, match)
		t.learn(it.Known)
	}
	return all
}

// absolute leaves an absolute path as it is: to clean it would step over
// symbolic links before "..".
func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return "/" + path
}

// learn keeps what the owner has read of this very item.
func (t *target) learn(known map[string][sha256.Size]byte) {
	if known == nil {
		return
	}
	if t.known == nil {
		t.known = map[string][sha256.Size]byte{}
	}
	for path, digest := range known {
		if t.owns(path) {
			t.known[path] = digest
		}
	}
}

func (t *target) owns(path string) bool {
	if !t.item.dir {
		return path == t.item.path
	}
	name, ok := strings.CutPrefix(path, join(t.item.path, ""))
	return ok && !strings.Contains(name, "/") && t.counts(name)
}

// counts reports whether an entry of that name counts.
func (t *target) counts(name string) bool {
	for _, match := range t.match {
		if match(name) {
			return true
		}
	}
	return false
}

// post is what is watched for in one directory.
type post struct {
	vital   bool            // not merely the parent of another
	names   map[string]bool // entries that decide where a path leads
	targets []*target       // directory items whose entries these are
}

// decides reports whether the entry called name can change what an item holds.
func (p *post) decides(name string) bool {
	if p.names[name] {
		return true
	}
	for _, t := range p.targets {
		if t.counts(name) {
			return true
		}
	}
	return false
}

// posts is the watch set: directories free of symbolic links.
type posts map[string]*post

func (p posts) at(dir string) *post {
	if p[dir] == nil {
		p[dir] = &post{names: map[string]bool{}}
	}
	return p[dir]
}

// hold adds a directory, and its parent for the case that it is replaced.
func (p posts) hold(dir string) *post {
	held := p.at(dir)
	if held.vital {
		return held
	}
	held.vital = true
	if parent := filepath.Dir(dir); parent != dir {
		p.at(parent).names[filepath.Base(dir)] = true
	}
	return held
}

// decides reports whether an event of that name can be about an item. An event
// the set does not explain may be.
func (p posts) decides(name string) bool {
	if p[name] != nil {
		return true
	}
	at := p[filepath.Dir(name)]
	return at == nil || at.decides(filepath.Base(name))
}

// survey follows every target to where it leads, lists the directories among
// them, and returns what to watch.
func survey(all []*target) posts {
	set := posts{}
	w := walker{nodes: map[string]node{}}
	visit := func(h hop) { set.hold(h.dir).names[h.name] = true }
	for _, t := range all {
		at, mode, ok := w.walk(t.item.path, visit)
		if !ok || !t.item.dir || !mode.IsDir() {
			t.list = listing{}
			continue
		}
		p := set.hold(at)
		p.targets = append(p.targets, t)
		for _, e := range t.enter(at) {
			if e.Type()&fs.ModeSymlink != 0 {
				w.walk(join(at, e.Name()), visit)
			}
		}
	}
	return set
}

// enter lists the directory of a target and returns the entries that count.
// Where this process has run out of descriptors the last listing stands.
func (t *target) enter(dir string) []fs.DirEntry {
	entries, err := readDir(dir)
	if !exhausted(err) {
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !t.counts(e.Name()) })
		t.list = listing{entries, err}
	}
	return t.list.entries
}

// readDir lists a directory in no order. It does not block if something else
// has taken the directory's place.
func readDir(dir string) ([]fs.DirEntry, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.ReadDir(-1)
}
