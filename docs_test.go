package ma2h_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeBlock = regexp.MustCompile("(?s)```(go|yaml|sh)\n(.*?)```")
	fence     = regexp.MustCompile("(?s)```.*?```")
	goRun     = regexp.MustCompile(`go (?:run|test) (?:-\S+ )*(\./\S+)`)
	testName  = regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9_]*)`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)\(`)
	mdLink    = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	// apiName is a name that only an API has: Type.Member, package.Name or an
	// error.
	apiName = regexp.MustCompile("`\\*?(?:(?:ma2h|ma2htest|ghactions|sqlstore|sqlite|redisstore|storetest)\\.)?([A-Z]\\w*\\.[A-Z]\\w*|Err[A-Z]\\w*|\\w+Error)`|`(?:ma2h|ma2htest|ghactions|sqlstore|sqlite|redisstore|storetest)\\.([A-Z]\\w*)`")
)

// documents are the texts that a newcomer reads, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := fs.Glob(os.DirFS("."), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			out[name] = text(t, name)
		}
	}
	if len(out) < 5 {
		t.Fatalf("%d documents were found", len(out))
	}
	return out
}

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files calls visit with each file of the repository.
func files(t *testing.T, visit func(path string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.IsDir():
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Code in a document is code that is compiled and run here.
func TestTheCodeInTheDocumentsIsTakenFromCodeThatRuns(t *testing.T) {
	sources := map[string][]string{}
	files(t, func(path string) {
		switch {
		case strings.HasSuffix(path, "example_test.go"), strings.HasPrefix(path, "examples/") && strings.HasSuffix(path, ".go"):
			sources["go"] = append(sources["go"], flat(text(t, path)))
		case strings.HasPrefix(path, "examples/") && strings.HasSuffix(path, ".yml"):
			sources["yaml"] = append(sources["yaml"], flat(text(t, path)))
		}
	})
	blocks := map[string]int{}
	for doc, body := range documents(t) {
		for _, m := range codeBlock.FindAllStringSubmatch(body, -1) {
			lang, code := m[1], m[2]
			blocks[lang]++
			if lang == "sh" {
				for _, run := range goRun.FindAllStringSubmatch(code, -1) {
					if _, err := os.Stat(strings.TrimSuffix(run[1], "/...")); err != nil {
						t.Errorf("%s: %v", doc, err)
					}
				}
				continue
			}
			found := false
			for _, s := range sources[lang] {
				found = found || strings.Contains(s, flat(code))
			}
			if !found {
				t.Errorf("%s has code that is in no example:\n%s", doc, code)
			}
		}
	}
	for _, lang := range []string{"go", "yaml", "sh"} {
		if blocks[lang] == 0 {
			t.Errorf("no code block of %s was found", lang)
		}
	}
}

// flat is text without its indentation.
func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t "))
	}
	return b.String()
}

// A statement that names its test is held to the name.
func TestTheTestsThatTheDocumentsNameAreThere(t *testing.T) {
	known := map[string]bool{}
	files(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range testFunc.FindAllStringSubmatch(text(t, path), -1) {
				known[m[1]] = true
			}
		}
	})
	for doc, body := range documents(t) {
		for _, m := range testName.FindAllStringSubmatch(body, -1) {
			if !known[m[1]] {
				t.Errorf("%s names %s, which is no test", doc, m[1])
			}
		}
		rows, proving := 0, false
		for line := range strings.Lines(body) {
			switch row := strings.TrimSpace(line); {
			case !strings.HasPrefix(row, "|"):
				proving = false
			case strings.HasSuffix(row, "| proved by |"):
				proving = true
			case proving && !strings.HasPrefix(row, "|-"):
				rows++
				cells := strings.Split(row, "|")
				if !testName.MatchString(cells[len(cells)-2]) {
					t.Errorf("%s has a row that no test proves: %s", doc, row)
				}
			}
		}
		if (doc == "docs/faults.md" || doc == "docs/security.md") && rows < 20 {
			t.Errorf("%s has %d rows with a proof", doc, rows)
		}
	}
}

func TestTheLinksAndNamesInTheDocumentsLeadSomewhere(t *testing.T) {
	api := text(t, "testdata/api.txt")
	exported := func(name string) bool {
		words := make([]string, 0, 2)
		for _, w := range strings.Split(name, ".") {
			words = append(words, `\b`+w+`\b`)
		}
		return regexp.MustCompile(strings.Join(words, ".*")).MatchString(api)
	}
	links := 0
	for doc, body := range documents(t) {
		body = fence.ReplaceAllString(body, "")
		for _, m := range mdLink.FindAllStringSubmatch(body, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.FromSlash(path.Join(path.Dir(doc), m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
		for _, m := range apiName.FindAllStringSubmatch(body, -1) {
			if name := m[1] + m[2]; !strings.HasPrefix(name, "Test") && !exported(name) {
				t.Errorf("%s names %s, which is not exported", doc, name)
			}
		}
	}
	if links < 10 {
		t.Errorf("%d links were found", links)
	}
}

// A field of a struct says what it is, beside it or above it, and so does
// whatever else is exported.
func TestWhatTheRootExportsIsDocumented(t *testing.T) {
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	need := func(what string, comments ...*ast.CommentGroup) {
		seen++
		for _, c := range comments {
			if c != nil {
				return
			}
		}
		t.Errorf("%s has no comment", what)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Name.Name != "Error" && d.Name.Name != "Unwrap" && d.Name.Name != "String" {
					need(d.Name.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						if s.Names[0].IsExported() {
							need(s.Names[0].Name, d.Doc, s.Doc, s.Comment)
						}
					case *ast.TypeSpec:
						if !s.Name.IsExported() {
							continue
						}
						doc := s.Doc
						if d.Lparen == token.NoPos {
							doc = d.Doc
						}
						need(s.Name.Name, doc)
						if st, ok := s.Type.(*ast.StructType); ok {
							for _, field := range st.Fields.List {
								for _, n := range field.Names {
									if n.IsExported() {
										need(s.Name.Name+"."+n.Name, field.Doc, field.Comment)
									}
								}
							}
						}
					}
				}
			}
		}
	}
	if seen < 300 {
		t.Errorf("%d names were looked at", seen)
	}
}
