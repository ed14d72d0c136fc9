package ma2h_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// publicPackages are the packages that users import.
var publicPackages = []string{".", "types", "schema", "ghactions", "ma2htest", "ma2htest/hubtest", "store/sqlstore", "store/sqlstore/sqlite", "store/redisstore", "store/storetest"}

func TestTheExportedAPIMovesOnlyOnPurpose(t *testing.T) {
	var out bytes.Buffer
	for _, dir := range publicPackages {
		writeAPI(t, &out, dir)
	}
	const golden = "testdata/api.txt"
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(out.Bytes(), want) {
		return
	}
	have, had := lines(out.Bytes()), lines(want)
	for _, l := range have {
		if !slices.Contains(had, l) {
			t.Errorf("new:  %s", l)
		}
	}
	for _, l := range had {
		if !slices.Contains(have, l) {
			t.Errorf("gone: %s", l)
		}
	}
	t.Error("the exported API differs from testdata/api.txt; if that is meant, run: go test -run TestTheExportedAPI -update .")
}

func lines(b []byte) []string { return strings.Split(strings.TrimSpace(string(b)), "\n") }

// writeAPI writes one line for each exported declaration of a package.
func writeAPI(t *testing.T, out *bytes.Buffer, dir string) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range goFiles(t, dir) {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	show := func(n ast.Node) string {
		var b bytes.Buffer
		if err := printer.Fprint(&b, fset, n); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	var list []string
	add := func(s string) { list = append(list, dir+": "+s) }
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			for _, n := range v.Names {
				if ast.IsExported(n) {
					add(v.Decl.Tok.String() + " " + n)
				}
			}
		}
	}
	funcs := func(fs []*doc.Func) {
		for _, f := range fs {
			f.Decl.Doc, f.Decl.Body = nil, nil
			add(show(f.Decl))
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		typ.Decl.Doc = nil
		for _, spec := range typ.Decl.Specs {
			ts := spec.(*ast.TypeSpec)
			ts.Doc, ts.Comment = nil, nil
			if st, ok := ts.Type.(*ast.StructType); ok {
				head := "type " + ts.Name.Name + " struct"
				add(head)
				for _, f := range st.Fields.List {
					f.Doc, f.Comment, f.Tag = nil, nil, nil
					for _, n := range f.Names {
						if n.IsExported() {
							add(head + " " + n.Name + " " + show(f.Type))
						}
					}
					if len(f.Names) == 0 {
						add(head + " " + show(f.Type))
					}
				}
				continue
			}
			if it, ok := ts.Type.(*ast.InterfaceType); ok {
				for _, m := range it.Methods.List {
					m.Doc, m.Comment = nil, nil
				}
			}
			add("type " + show(ts))
		}
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	slices.Sort(list)
	for _, l := range list {
		out.WriteString(l + "\n")
	}
}

func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := fs.ReadDir(os.DirFS(dir), ".")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	if len(out) == 0 {
		t.Fatalf("no Go files in %s", dir)
	}
	return out
}
