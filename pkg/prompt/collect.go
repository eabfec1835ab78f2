package prompt

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Entry is one file of a prompt directory as it was read.
type Entry struct {
	Name string // in its directory
	Data []byte // nil when Err is set; Collect keeps it
	Err  error  // why the file was not read: not regular, too large, a link too far, ...
}

// Dir is one prompt directory as it was read.
type Dir struct {
	Path    string
	Entries []Entry // those that Matches
	Missing bool    // there is no such directory
	Err     error   // why a directory that is there could not be listed
	Outside bool    // it is not where it may be, and was not looked at
}

// Collect makes the prompts of all directories, which come in the order of
// precedence: of equal names the earlier directory wins, and within one
// directory the bytewise smaller file name (PRM-1).
//
// A file that cannot be used is skipped with a warning; if previous, which maps
// a file to the last good prompt of it, has a version, that one is served on
// (PRM-4). kept is what to give as previous next time: it holds every file that
// is still there, so a file that was removed does not come back when a broken
// one takes its place. A directory that cannot be listed keeps what it had; one
// that is gone has nothing, which is worth a warning if it had something. One
// that is yet to appear is none (HOT-1).
//
// prompts are sorted by name; warnings stand in the order of dirs. previous is
// not changed.
func Collect(dirs []Dir, previous map[string]*Prompt) (prompts []*Prompt, warnings []Fault, kept map[string]*Prompt) {
	c := collector{previous: previous, kept: map[string]*Prompt{}, winners: map[string]*Prompt{}}
	seen := map[string]bool{}
	for _, d := range dirs {
		d.Path = path.Clean(d.Path)
		if !seen[d.Path] { // listed twice, it is not its own rival
			seen[d.Path] = true
			c.dir(d)
		}
	}
	for _, p := range c.winners {
		prompts = append(prompts, p)
	}
	slices.SortFunc(prompts, func(a, b *Prompt) int { return cmp.Compare(a.Name, b.Name) })
	return prompts, c.warnings, c.kept
}

// collector is the state of one Collect.
type collector struct {
	previous map[string]*Prompt
	kept     map[string]*Prompt // by file
	winners  map[string]*Prompt // by name
	warnings []Fault
}

func (c *collector) warn(file string, line int, message string) {
	c.warnings = append(c.warnings, Fault{File: file, Line: line, Message: message})
}

// dir takes in one directory.
func (c *collector) dir(d Dir) {
	switch {
	case d.Outside:
		c.warn(d.Path, 0, "leads out of the project's directory; nothing in it is served")
	case d.Missing && len(c.had(d)) > 0:
		c.warn(d.Path, 0, "no such directory any more")
	case d.Err != nil:
		c.unlisted(d)
	}
	entries := slices.SortedFunc(slices.Values(d.Entries), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range entries {
		if Matches(e.Name) {
			c.file(path.Join(d.Path, e.Name), e)
		}
	}
}

// unlisted keeps what a directory had when it can no longer be listed.
func (c *collector) unlisted(d Dir) {
	c.warn(d.Path, 0, d.Err.Error())
	for _, file := range c.had(d) {
		c.serve(c.previous[file])
	}
}

// had lists the files that were served from a directory, sorted.
func (c *collector) had(d Dir) []string {
	var files []string
	for file := range c.previous {
		if path.Dir(file) == d.Path {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// file takes in one file: parsed, or as it was before.
func (c *collector) file(file string, e Entry) {
	if strings.Contains(nameOf(file), "__") {
		c.warn(file, 1, `skipped: a prompt's name cannot hold "__", which separates upstreams from their own names`)
		return
	}
	p, fault := c.parse(file, e)
	if fault == nil {
		c.serve(p)
		return
	}
	last := c.previous[file]
	if last != nil {
		fault.Message += "; the last good version of the file stays"
	}
	c.warnings = append(c.warnings, *fault)
	if last != nil {
		c.serve(last)
	}
}

func (c *collector) parse(file string, e Entry) (*Prompt, *Fault) {
	if e.Err != nil {
		return nil, &Fault{File: file, Line: 1, Message: e.Err.Error()}
	}
	p, warnings, fault := Parse(file, e.Data)
	c.warnings = append(c.warnings, warnings...)
	return p, fault
}

// serve keeps p and lets it win its name unless that is taken.
func (c *collector) serve(p *Prompt) {
	c.kept[p.File] = p
	winner, taken := c.winners[p.Name]
	if !taken {
		c.winners[p.Name] = p
		return
	}
	c.warn(p.File, 1, "skipped: "+winner.File+" has the same name and comes first")
}
