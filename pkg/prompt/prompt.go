package prompt

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"path"
	"strings"
)

// MaxFile is the size in bytes of the largest prompt file that is served
// (PRM-4).
const MaxFile = 1 << 20

// Argument is one declared argument of a prompt. Its Name consists of ASCII
// letters, digits, `_`, `-` and `.` and is unique in its prompt (PRM-3).
type Argument struct {
	Name        string
	Description string // "" when the file gives none
	Required    bool
}

// Prompt is one prompt file as it is served. It is immutable once made: Body
// shares its bytes with the data it was parsed from, and readers share all of
// it.
type Prompt struct {
	Name        string     // file name without its extension, as it stands on disk
	Title       string     // "" when the file gives none
	Description string     // "" when the file gives none
	Arguments   []Argument // in the order of the file
	Body        []byte     // byte for byte what follows the front matter (PRM-2)
	File        string     // the path given to Parse
	Digest      [32]byte   // SHA-256 over all fields above; equal digests mean equal prompts
	// Project is the project whose harnesses see it, "" for everybody. Whoever
	// reads the directories knows; Parse leaves it empty.
	Project string
}

// Matches reports whether a directory entry of this name is looked at (PRM-1):
// `*.md` and `*.markdown`, but no dot-file and no `*~` or `#*#`, which editors
// leave behind.
func Matches(name string) bool {
	switch {
	case strings.HasPrefix(name, "."), strings.HasSuffix(name, "~"), strings.Contains(name, "/"):
		return false
	case strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#"):
		return false
	}
	return isMarkdown(name)
}

// isMarkdown reports whether name ends like a markdown file.
func isMarkdown(name string) bool {
	ext := path.Ext(name)
	return ext == ".md" || ext == ".markdown"
}

// nameOf is the prompt name of a file.
func nameOf(file string) string {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base))
}

// digest hashes what p says. Every field is preceded by its length, so no two
// different prompts give the same input.
func digest(p *Prompt) [32]byte {
	h := sha256.New()
	for _, s := range []string{p.Name, p.Title, p.Description, p.File} {
		hashField(h, []byte(s))
	}
	for _, a := range p.Arguments {
		hashField(h, []byte(a.Name))
		hashField(h, []byte(a.Description))
		required := byte('-')
		if a.Required {
			required = '+'
		}
		hashField(h, []byte{required})
	}
	hashField(h, p.Body)
	return [32]byte(h.Sum(nil))
}

// hashField adds one field with its length in front. A hash never fails.
func hashField(h hash.Hash, field []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(field)))
	h.Write(size[:])
	h.Write(field)
}
