package requirements

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Test is a test function and the rows that it names.
type Test struct {
	File    string // slash-separated, from the root of the tree
	Name    string
	Rows    []string // after "// req:"
	Reports []string // after "// report:"
}

// String is the folder of the test and its name.
func (t Test) String() string {
	dir := path.Dir(t.File)
	if dir == "." {
		return "ma2h." + t.Name
	}
	return path.Base(dir) + "." + t.Name
}

var (
	// tagLine is the form of a tag, looseTag what may have been meant as one.
	tagLine  = regexp.MustCompile(`^// (req|report): (\S.*)$`)
	looseTag = regexp.MustCompile(`(?i)^//\s*(reqs?|reports?)\s*:`)
)

// Scan reads all Go files of a tree, those of nested modules included, and
// returns the tests that name rows. Folders that the go command leaves out,
// testdata among them, are left out. Problems are tags that stand above no test
// or are not of the form.
func Scan(tree fs.FS) (tests []Test, problems []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if name != "." && (base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		found, wrong, err := scanFile(name, src)
		tests, problems = append(tests, found...), append(problems, wrong...)
		return err
	})
	return tests, problems, err
}

func scanFile(name string, src []byte) (tests []Test, problems []string, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	owner := map[*ast.CommentGroup]string{}
	if strings.HasSuffix(name, "_test.go") {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Doc != nil && fn.Recv == nil && isTest(fn.Name.Name) {
				owner[fn.Doc] = fn.Name.Name
			}
		}
	}
	for _, group := range f.Comments {
		t := Test{File: name, Name: owner[group]}
		for _, c := range group.List {
			if !looseTag.MatchString(c.Text) {
				continue
			}
			at := fmt.Sprintf("%s:%d", name, files.Position(c.Pos()).Line)
			tag := tagLine.FindStringSubmatch(c.Text)
			switch {
			case tag == nil:
				problems = append(problems, at+": a tag is written \"// req: ID, ID\" or \"// report: ID\"")
			case t.Name == "":
				problems = append(problems, at+": the tag stands above no test function")
			case tag[1] == "req":
				t.Rows = append(t.Rows, ids(tag[2])...)
			default:
				t.Reports = append(t.Reports, ids(tag[2])...)
			}
		}
		if t.Rows != nil || t.Reports != nil {
			tests = append(tests, t)
		}
	}
	return tests, problems, nil
}

func ids(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// isTest is the rule of the go command: a known word, and then no lower case.
func isTest(name string) bool {
	for _, kind := range []string{"Test", "Fuzz", "Benchmark", "Example"} {
		if rest, ok := strings.CutPrefix(name, kind); ok {
			first, _ := utf8.DecodeRuneInString(rest)
			return name != "TestMain" && (rest == "" || !unicode.IsLower(first))
		}
	}
	return false
}
