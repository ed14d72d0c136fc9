package ma2h

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// comparesSecrets are the functions that hold a received MAC, token or key
// against one of our own.
var comparesSecrets = []string{"Key.verify", "Sealer.Open", "subkeys.authenticate", "Sealer.usesKey", "CallbackHandler.checkToken"}

// unequal tells what is wrong with how the named functions of a source compare,
// and which of them are not in it. How long a comparison takes is not measured:
// what tells nothing about the first byte that differs is one function of the
// standard library.
func unequal(src any, file string, names []string) (wrong, missing []string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}, names
	}
	missing = slices.Clone(names)
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil {
			continue
		}
		recv := fn.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		name := fmt.Sprint(recv) + "." + fn.Name.Name
		i := slices.Index(missing, name)
		if i < 0 {
			continue
		}
		missing = slices.Delete(missing, i, i+1)
		good := false
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				switch s := fmt.Sprintf("%v.%s", n.X, n.Sel.Name); s {
				case "hmac.Equal", "subtle.ConstantTimeCompare":
					good = true
				case "bytes.Equal", "bytes.Compare", "bytes.HasPrefix", "slices.Equal", "slices.Contains", "strings.Compare", "reflect.DeepEqual":
					wrong = append(wrong, name+" uses "+s)
				}
			case *ast.BinaryExpr:
				// One operand as a text made of bytes, or as an array cut for it.
				for _, side := range []ast.Expr{n.X, n.Y} {
					call, ok := side.(*ast.CallExpr)
					if (n.Op == token.EQL || n.Op == token.NEQ) && ok && fmt.Sprint(call.Fun) == "string" {
						wrong = append(wrong, name+" compares texts")
					}
				}
			}
			return true
		})
		if !good {
			wrong = append(wrong, name+" compares nothing in constant time")
		}
	}
	return wrong, missing
}

// req: SIG-09
func TestWhatProvesTheSenderIsComparedInConstantTime(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	missing := comparesSecrets
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		var wrong []string
		if wrong, missing = unequal(nil, file, missing); len(wrong) != 0 {
			t.Errorf("%s: %v", file, wrong)
		}
	}
	if len(missing) != 0 {
		t.Errorf("gone: %v", missing)
	}
	for body, want := range map[string]int{
		"return hmac.Equal(a, b)":                            0,
		"return subtle.ConstantTimeCompare(a, b) == 1":       0,
		"return bytes.Equal(a, b)":                           2,
		"return string(a) == string(b)":                      3,
		"return len(a) == len(b)":                            1,
		"return hmac.Equal(a, b) && string(a) != x":          1,
		"return hmac.Equal(a, b) || slices.Contains(all, a)": 1,
	} {
		src := "package p\nfunc (k *Key) verify(a, b []byte) bool { " + body + " }\n"
		if wrong, missing := unequal(src, "p.go", []string{"Key.verify"}); len(wrong) != want || len(missing) != 0 {
			t.Errorf("%s: %v, %v", body, wrong, missing)
		}
	}
	if _, missing := unequal("package p\nfunc verify() {}\n", "p.go", []string{"Key.verify"}); len(missing) != 1 {
		t.Error("another function passes for the method")
	}
}
