package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"harness/pkg/run"
)

func testRoot() *cobra.Command {
	return newRoot(streams{strings.NewReader(""), io.Discard, io.Discard}, nil)
}

// Every command that does something has an effect and a role, and the catalog
// has it with what its --help shows (RES-2).
func TestCatalog_IsTheTreeItself(t *testing.T) {
	t.Parallel()
	root := testRoot()
	c, err := catalogOf(root)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if len(cmd.Commands()) == 0 {
			want = append(want, cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, cmd := range c.Commands {
		got = append(got, cmd.Path)
		if cmd.Summary == "" {
			t.Errorf("%s says nothing", cmd.Path)
		}
		shown := helpOf(t, cmd.Path)
		for _, f := range cmd.Flags {
			if !strings.Contains(shown, "--"+f.Name) {
				t.Errorf("%s: --%s is in the catalog and not in its help", cmd.Path, f.Name)
			}
		}
		for word := range strings.FieldsSeq(shown) {
			name, isFlag := strings.CutPrefix(strings.TrimRight(word, ",.;:)`"), "--")
			if isFlag && name != "" && strings.HasPrefix(strings.TrimSpace(lineOf(shown, word)), "-") && !slices.ContainsFunc(cmd.Flags, func(f run.Flag) bool { return f.Name == name }) {
				t.Errorf("%s: --%s is in its help and not in the catalog", cmd.Path, name)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-tree +catalog):\n%s", diff)
	}
}

// helpOf is what a command's --help prints.
func helpOf(t *testing.T, path string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot(streams{strings.NewReader(""), &out, &out}, nil)
	root.SetArgs(append(strings.Fields(path)[1:], "--help"))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(out.String(), "Flags:")
	return flags
}

// lineOf is the first line with a word.
func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if slices.Contains(strings.Fields(line), word) {
			return line
		}
	}
	return ""
}

func TestCatalog_RefusesACommandThatNobodyClassified(t *testing.T) {
	t.Parallel()
	root := testRoot()
	root.AddCommand(&cobra.Command{Use: "new", Run: func(*cobra.Command, []string) {}})
	if _, err := catalogOf(root); err == nil || !strings.Contains(err.Error(), "harness new") {
		t.Errorf("%v", err)
	}
	root = testRoot()
	root.AddCommand(classify(&cobra.Command{Use: "new", Run: func(*cobra.Command, []string) {}}, run.Read, []string{"king"}))
	if _, err := catalogOf(root); err == nil || !strings.Contains(err.Error(), "king") {
		t.Errorf("%v", err)
	}
}

func TestCatalog_HasOneSpelling(t *testing.T) {
	t.Parallel()
	var digests []string
	for range 2 {
		c, err := catalogOf(testRoot())
		if err != nil {
			t.Fatal(err)
		}
		k, err := run.NewKnowledge(c)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, k.CatalogSHA256)
		for _, role := range run.Roles() {
			card := string(k.Card(role))
			if len(card) > 16<<10 || !strings.Contains(card, "harness status") {
				t.Errorf("the card of %s has %d bytes", role, len(card))
			}
			if has := strings.Contains(card, "`harness stop NAME...|RUN...`"); has != (role == run.Orchestrator) {
				t.Errorf("the card of %s: %s", role, card)
			}
		}
	}
	if digests[0] != digests[1] {
		t.Error(digests)
	}
}
