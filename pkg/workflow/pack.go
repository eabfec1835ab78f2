package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"path"
	"strings"
	"unicode/utf8"

	"harness/pkg/config"
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

// ParsePack reads a pack.toml, which faults call name, and the files that it
// names. It returns every fault there is, in line order (CFG-1).
func ParsePack(name string, manifest []byte, o Outside) (Pack, config.Faults) {
	d := config.OpenDocument(name, manifest)
	r := packReader{outside: o, hash: sha256.New()}
	r.hash.Write(manifest)
	p := r.pack(d.Root())
	checkNeeds("ticket", d.Root(), r.entries)
	p.SHA256 = hex.EncodeToString(r.hash.Sum(nil))
	return p, faultsOf(d, "ticket", r.entries)
}

// packReader reads the tickets of one pack.
type packReader struct {
	outside Outside
	entries []*entry // of the tickets
	hash    hash.Hash
	total   int // bytes of the files
}

func (r *packReader) pack(root config.Node) Pack {
	p := Pack{Tickets: []Ticket{}}
	read := func(called string) func(config.Node) {
		return func(n config.Node) {
			all, entries := tables(n, called, maxTickets, r.ticket)
			p.Tickets, r.entries = append(p.Tickets, all...), append(r.entries, entries...)
			if r.total > maxPack {
				n.Fault("the files have %d bytes together, and %d are the limit", r.total, maxPack)
			}
		}
	}
	found := root.Fields(map[string]func(config.Node){
		"name":        func(n config.Node) { p.Name = name(n) },
		"version":     func(n config.Node) { p.Version = version(n) },
		"description": func(n config.Node) { n.Text() },
		"ticket":      read("ticket"),
		"tickets":     read("tickets"),
	})
	for _, key := range []string{"name", "version"} {
		if _, has := found[key]; !has && root.Complete() {
			root.Fault("%s is missing", key)
		}
	}
	_, one := found["ticket"]
	_, other := found["tickets"]
	if !one && !other && root.Complete() {
		root.Fault("[[ticket]] is missing: a pack has 1 to %d tickets", maxTickets)
	}
	return p
}

// version reads a version: a text, or a number.
func version(n config.Node) string {
	v := ""
	switch raw := n.Raw().(type) {
	case string:
		v = raw
	case int64, float64:
		v = fmt.Sprint(raw)
	}
	if v == "" || len(v) > 64 {
		n.Fault("expected a text of 1 to 64 bytes, or a number")
	}
	return v
}

// ticket reads one ticket, and its file.
func (r *packReader) ticket(e *entry) Ticket {
	t := Ticket{Needs: []string{}}
	want := ""
	e.read(map[string]func(config.Node){
		"id":          func(n config.Node) { t.ID = name(n) },
		"file":        func(n config.Node) { t.File = file(n) },
		"role":        func(n config.Node) { t.Role = role(n, r.outside.Roles) },
		"needs":       func(n config.Node) { t.Needs = texts(n) },
		"description": func(n config.Node) { n.Text() },
		"sha256":      func(n config.Node) { want = digest(n) },
	})
	for _, key := range []string{"file", "role"} {
		if _, has := e.found[key]; !has {
			e.missing("%s is missing", key)
		}
	}
	if _, has := e.found["id"]; !has && t.File != "" {
		if t.ID = strings.TrimSuffix(path.Base(t.File), path.Ext(t.File)); !evidence.IsName(t.ID) {
			e.fault("file", "%s is no id; give it one", config.Show(t.ID))
		}
	}
	e.id, e.needs = t.ID, t.Needs
	if t.File != "" {
		r.content(e, &t, want)
	}
	return t
}

// content reads the file of a ticket.
func (r *packReader) content(e *entry, t *Ticket, want string) {
	data, err := r.outside.Read(t.File)
	fmt.Fprintf(r.hash, "%s %d\n", t.File, len(data))
	r.hash.Write(data)
	switch {
	case err != nil:
		e.fault("file", "%v", err)
		return
	case len(data) > MaxTicket:
		e.fault("file", "larger than 1 MiB")
	case len(data) == 0:
		e.fault("file", "it is empty")
	case !utf8.Valid(data):
		e.fault("file", "it is not UTF-8")
	}
	sum := sha256.Sum256(data)
	t.Bytes, t.SHA256 = len(data), hex.EncodeToString(sum[:])
	r.total += t.Bytes
	if want != "" && want != t.SHA256 {
		e.fault("sha256", "the file has another digest: %s", t.SHA256)
	}
}

// digest reads a digest; "" for none.
func digest(n config.Node) string {
	s := n.Text()
	if s != "" && (len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "") {
		n.Fault("a digest is 64 digits in lower case")
		return ""
	}
	return s
}
