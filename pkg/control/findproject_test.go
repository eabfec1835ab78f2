package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindProject_IsTheNearestAndNeverTheGlobalOne(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(root, name) }
	if err := os.MkdirAll(path("home/src/shop/deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"harness.toml", "home/harness.toml", "home/src/shop/harness.toml"} {
		if err := os.WriteFile(path(file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(path("home/src/shop"), path("link")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ dir, global, want string }{
		"above":               {"home/src/shop/deep", "none", "home/src/shop/harness.toml"},
		"here":                {"home/src/shop", "none", "home/src/shop/harness.toml"},
		"by a link":           {"link/deep", "none", "home/src/shop/harness.toml"},
		"up to the home":      {"home/src", "none", "home/harness.toml"},
		"not above the home":  {"home/src", "home/harness.toml", ""},
		"outside of the home": {".", "none", "harness.toml"},
		"the global one":      {"home/src/shop", "home/src/shop/harness.toml", "home/harness.toml"},
		"nowhere":             {"gone", "none", ""},
	} {
		got, err := FindProject(path(tt.dir), path("home"), path(tt.global))
		if tt.want == "" && err == nil || tt.want != "" && got != path(tt.want) {
			t.Errorf("%s: %q, %v", name, strings.TrimPrefix(got, root), err)
		}
	}
	list := []Project{{"shop", path("home/src/shop/harness.toml")}, {"home", path("home/harness.toml")}}
	for dir, want := range map[string]string{"link/deep": "shop", "home/src": "home", "gone": ""} {
		if p, _ := ProjectAt(list, path(dir)); p.Name != want {
			t.Errorf("in %s: %q", dir, p.Name)
		}
	}
}
