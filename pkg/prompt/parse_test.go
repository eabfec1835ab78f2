package prompt

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestParse_Golden holds a verdict for each file in testdata/parse: what is
// served of it, or why it is not.
func TestParse_Golden(t *testing.T) {
	files, err := filepath.Glob("testdata/parse/*.m*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := verdict(Parse("dir/"+filepath.Base(file), data))
			golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// verdict renders the results of Parse, a thing a line.
func verdict(p *Prompt, warnings []Fault, fault *Fault) string {
	var b strings.Builder
	if fault != nil {
		fmt.Fprintf(&b, "skipped: %s\n", fault)
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	if p == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "name: %s\ntitle: %q\ndescription: %q\n", p.Name, p.Title, p.Description)
	for _, a := range p.Arguments {
		fmt.Fprintf(&b, "argument: %+v\n", a)
	}
	fmt.Fprintf(&b, "body: %q\n", p.Body)
	return b.String()
}
