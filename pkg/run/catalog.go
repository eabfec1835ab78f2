package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"harness/pkg/evidence"
)

// The roles that a run can be given. A role says which commands its card shows;
// it grants nothing (RES-2).
const (
	Orchestrator   = "orchestrator"
	Implementation = "implementation"
	Review         = "review"
)

// Roles lists them.
func Roles() []string { return []string{Orchestrator, Implementation, Review} }

// The effects that a command can have.
const (
	Read        = "read"
	Write       = "write"
	Destructive = "destructive"
)

// Catalog is what the program can be told to do: knowledge, not authority. It
// is made of the commands that there are, and never a second list of them.
type Catalog struct {
	Schema   string    `json:"schema"` // harness/command-catalog/v1
	Version  string    `json:"version"`
	Commands []Command `json:"commands"` // those that do something, by path
}

// CatalogSchema is what a catalog says it is.
const CatalogSchema = "harness/command-catalog/v1"

// Command is one command that does something.
type Command struct {
	Path    string   `json:"path"` // "harness runs"
	Summary string   `json:"summary"`
	Args    string   `json:"args"` // as its usage spells them, "" for none
	Aliases []string `json:"aliases"`
	Flags   []Flag   `json:"flags"`
	Roles   []string `json:"roles"`
	Effect  string   `json:"effect"` // read, write or destructive
}

// Flag is one flag of a command, its own or one that all commands take.
type Flag struct {
	Name      string `json:"name"`
	Shorthand string `json:"shorthand"`
	Type      string `json:"type"`
	Default   string `json:"default"`
	Usage     string `json:"usage"`
	Global    bool   `json:"global"`
}

// Encode returns the catalog in its one spelling, whatever order it was made in.
func (c Catalog) Encode() ([]byte, error) {
	c.Schema, c.Commands = CatalogSchema, c.Sorted()
	return evidence.Canonical(c)
}

// Sorted returns the commands by path.
func (c Catalog) Sorted() []Command {
	all := append([]Command{}, c.Commands...)
	slices.SortFunc(all, func(a, b Command) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// For returns the commands of one role.
func (c Catalog) For(role string) []Command {
	list := []Command{}
	for _, cmd := range c.Commands {
		if slices.Contains(cmd.Roles, role) {
			list = append(list, cmd)
		}
	}
	return list
}

// maxCard bounds a card, in bytes: it is read by a model.
const maxCard = 16 << 10

// Card is what a run of a role is told of the commands: a page of markdown.
func (c Catalog) Card(role string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# harness commands for the role %s\n\n", role)
	b.WriteString("What the command line of harness offers. This is knowledge and grants nothing: what you may do is decided\nwhere you ask. The catalog beside this card has every flag.\n")
	for _, effect := range []string{Read, Write, Destructive} {
		head := fmt.Sprintf("\n## %s\n\n", effect)
		for _, cmd := range c.For(role) {
			if cmd.Effect != effect {
				continue
			}
			b.WriteString(head)
			head = ""
			fmt.Fprintf(&b, "- `%s`: %s\n", strings.TrimSpace(cmd.Path+" "+cmd.Args), cmd.Summary)
		}
	}
	card := b.String()
	if len(card) > maxCard {
		const rest = "\n(The catalog has the rest.)\n"
		card = card[:strings.LastIndexByte(card[:maxCard-len(rest)], '\n')] + rest
	}
	return []byte(card)
}

// Knowledge is the catalog and the cards of the program that runs, ready to be
// sealed with each run.
type Knowledge struct {
	Catalog       Catalog
	Data          []byte // the catalog as it is stored
	CatalogSHA256 string
	cards         map[string][]byte
}

// NewKnowledge makes the cards of a catalog.
func NewKnowledge(c Catalog) (*Knowledge, error) {
	data, err := c.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode the command catalog: %w", err)
	}
	k := &Knowledge{Catalog: c, Data: data, CatalogSHA256: evidence.Digest(data), cards: map[string][]byte{}}
	for _, role := range Roles() {
		k.cards[role] = c.Card(role)
	}
	return k, nil
}

// CardSHA256 is the digest of the card of a role.
func (k *Knowledge) CardSHA256(role string) string { return evidence.Digest(k.Card(role)) }

// Digest is the SHA-256 of a text, as evidence spells it.
func Digest(text string) string { return evidence.Digest([]byte(text)) }

// Card returns the card of a role; a run without one has that of the
// implementation.
func (k *Knowledge) Card(role string) []byte { return k.cards[cmp.Or(role, Implementation)] }
