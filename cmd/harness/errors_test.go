package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"harness/pkg/contract"
)

// constants are the values of the constants of a package that a name or a type
// says are wanted, as they are written.
func constants(t *testing.T, dir string, wanted func(name, typ string) bool) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var values []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 {
				return true
			}
			typ := ""
			switch of := spec.Type.(type) {
			case *ast.Ident:
				typ = of.Name
			case *ast.SelectorExpr:
				typ = of.Sel.Name
			}
			if literal, is := spec.Values[0].(*ast.BasicLit); is && wanted(spec.Names[0].Name, typ) {
				values = append(values, strings.Trim(literal.Value, `"`))
			}
			return true
		})
	}
	return values
}

// The page has what a command or a call may end with, and nothing else.
func TestHelp_ErrorsHasEveryCode(t *testing.T) {
	page, err := os.ReadFile("help/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	isCode := func(_, typ string) bool { return typ == "Code" }
	want := slices.Concat(constants(t, "../../pkg/wire", isCode), constants(t, "../../pkg/control", isCode),
		constants(t, ".", func(name, _ string) bool { return strings.HasPrefix(name, "exit") }))
	if len(want) < 20 {
		t.Errorf("only %v were found", want)
	}
	for _, outcome := range []string{contract.Pass, contract.Fail, contract.Error, contract.Timeout, contract.Cancelled} {
		want = append(want, strconv.Itoa(contract.ExitCode(outcome)))
	}
	var has []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\|").FindAllSubmatch(page, -1) {
		has = append(has, string(row[1]))
	}
	for _, code := range want {
		if !slices.Contains(has, code) {
			t.Errorf("%s is not in it", code)
		}
	}
	for _, code := range has {
		if !slices.Contains(want, code) {
			t.Errorf("%s is nothing's", code)
		}
	}
}
