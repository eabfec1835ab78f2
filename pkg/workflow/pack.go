package workflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"harness/pkg/evidence"
)

// PackFile is what makes a directory a prompt pack.
const PackFile = "pack.toml"

// Limits of a pack.
const (
	MaxManifest = 256 << 10 // bytes of its pack.toml, or of a workflow
	MaxTicket   = 1 << 20   // bytes of one file
	maxPack     = 16 << 20  // bytes of all
	maxTickets  = 200
)

// Pack is a directory of prompts with the order they are for.
type Pack struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Tickets []Ticket `json:"tickets"`
	// SHA256 is over the manifest and every file.
	SHA256 string `json:"sha256"`
}

// Ticket is one prompt of a pack.
type Ticket struct {
	ID     string   `json:"id"`
	File   string   `json:"file"`
	Role   string   `json:"role"`
	Needs  []string `json:"needs"`
	Bytes  int      `json:"bytes"`
	SHA256 string   `json:"sha256"`
}

// packText is a pack as it is written.
type packText struct {
	Name        string       `toml:"name"`
	Version     any          `toml:"version"`
	Description string       `toml:"description"`
	Ticket      []ticketText `toml:"ticket"`
	Tickets     []ticketText `toml:"tickets"`
}

type ticketText struct {
	ID          string   `toml:"id"`
	Name        string   `toml:"name"`
	File        string   `toml:"file"`
	Role        string   `toml:"role"`
	Needs       []string `toml:"needs"`
	Description string   `toml:"description"`
	SHA256      string   `toml:"sha256"`
}

func digestOK(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// ParsePack reads a pack.toml, and its files through read, which is given their
// paths in the directory. Roles are those that there are.
func ParsePack(manifest []byte, roles []string, read func(file string) ([]byte, error)) (Pack, Faults) {
	p := Pack{Tickets: []Ticket{}}
	var text packText
	faults := decode(manifest, &text)
	if len(faults) > 0 {
		return p, faults
	}
	p.Name = text.Name
	switch v := text.Version.(type) {
	case string:
		p.Version = v
	case int64, float64:
		p.Version = fmt.Sprint(v)
	}
	if !evidence.IsName(p.Name) {
		faults.add("name", "a pack has a name of letters, digits, _ . and -")
	}
	if p.Version == "" || len(p.Version) > 64 {
		faults.add("version", "a pack has a version")
	}
	all := append(text.Ticket, text.Tickets...)
	if len(all) == 0 || len(all) > maxTickets {
		faults.add("ticket", "a pack has 1 to %d tickets", maxTickets)
		return p, faults
	}
	hash := sha256.New()
	hash.Write(manifest)
	var ids []string
	needs := map[string][]string{}
	for _, t := range all {
		t.ID = cmp.Or(t.ID, t.Name, strings.TrimSuffix(path.Base(t.File), path.Ext(t.File)))
		ticket, data := t.check(roles, read, &faults)
		fmt.Fprintf(hash, "%s %d\n", ticket.File, len(data))
		hash.Write(data)
		p.Tickets = append(p.Tickets, ticket)
		ids, needs[t.ID] = append(ids, t.ID), t.Needs
	}
	total := 0
	for _, t := range p.Tickets {
		total += t.Bytes
	}
	if total > maxPack {
		faults.add("ticket", "the files have %d bytes together, and %d are the limit", total, maxPack)
	}
	checkNeeds("ticket", ids, needs, &faults)
	p.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return p, faults
}

// check makes a ticket of what is written, and reads its file.
func (t ticketText) check(roles []string, read func(string) ([]byte, error), faults *Faults) (Ticket, []byte) {
	key := "ticket." + t.ID
	out := Ticket{ID: t.ID, File: t.File, Role: t.Role, Needs: append([]string{}, t.Needs...)}
	if !evidence.IsName(t.ID) {
		faults.add(key, "an id is of letters, digits, _ . and -")
	}
	if !slices.Contains(roles, t.Role) {
		faults.add(key+".role", "%q is no role; there are %s", t.Role, strings.Join(roles, ", "))
	}
	if !below(t.File) {
		faults.add(key+".file", "a path below the pack, without . or ..")
		return out, nil
	}
	data, err := read(t.File)
	switch {
	case err != nil:
		faults.add(key+".file", "%v", err)
		return out, nil
	case len(data) > MaxTicket:
		faults.add(key+".file", "larger than 1 MiB")
	case len(data) == 0:
		faults.add(key+".file", "it is empty")
	case !utf8.Valid(data):
		faults.add(key+".file", "it is not UTF-8")
	}
	sum := sha256.Sum256(data)
	out.Bytes, out.SHA256 = len(data), hex.EncodeToString(sum[:])
	switch {
	case t.SHA256 == "":
	case !digestOK(t.SHA256):
		faults.add(key+".sha256", "a digest is 64 digits in lower case")
	case t.SHA256 != out.SHA256:
		faults.add(key+".sha256", "the file has another digest: %s", out.SHA256)
	}
	return out, data
}

// below reports whether a path stays below the directory that it is relative to.
func below(file string) bool {
	return file != "" && !path.IsAbs(file) && path.Clean(file) == file && file != "." && file != ".." && !strings.HasPrefix(file, "../") && !strings.ContainsRune(file, 0)
}
