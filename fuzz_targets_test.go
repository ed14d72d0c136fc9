package ma2h_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fuzzTargets is how many targets there are. It moves with them, so that none
// gets lost unseen.
const fuzzTargets = 19

// Every target counts its seeds, and every file that fuzzing has kept is one of
// a target: an input that once failed is tried in each run of the tests.
func TestEachFuzzTargetCountsItsSeeds(t *testing.T) {
	targets, kept := map[string]bool{}, map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && filepath.Base(filepath.Dir(path)) == "fuzz":
			files, err := os.ReadDir(path)
			if err != nil {
				return err
			}
			kept[filepath.Dir(filepath.Dir(filepath.Dir(path)))+": "+filepath.Base(path)] = len(files)
		case !d.IsDir() && strings.HasSuffix(path, "_test.go"):
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, decl := range f.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Fuzz") && fn.Recv == nil {
					targets[filepath.Dir(path)+": "+fn.Name.Name] = true
					if n := calls(fn, "Counted"); n != 1 || calls(fn, "Fuzz") != 1 {
						t.Errorf("%s: %s counts its seeds %d times", path, fn.Name.Name, n)
					}
				}
			}
		}
		return nil
	})
	mustNot(t, err)
	if len(targets) != fuzzTargets {
		t.Errorf("%d targets, want %d", len(targets), fuzzTargets)
	}
	for target, inputs := range kept {
		if !targets[target] || inputs == 0 {
			t.Errorf("%d inputs are kept for %s, target: %t", inputs, target, targets[target])
		}
	}
}

// calls counts the calls of a method by its name.
func calls(n ast.Node, method string) (count int) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == method {
				count++
			}
		}
		return true
	})
	return count
}
