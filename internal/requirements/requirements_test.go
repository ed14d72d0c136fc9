package requirements

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write docs/requirements.md anew")

const page = "../../docs/requirements.md"

func TestEveryRowHasATestAndThePageSaysWhich(t *testing.T) {
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	tests, strays, err := Scan(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	proof, problems := table.Match(tests)
	for _, p := range append(strays, problems...) {
		t.Error(p)
	}
	got := table.Page(proof)
	if *update {
		if err := os.WriteFile(page, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/requirements.md is stale (%v): go test ./internal/requirements -update", err)
	}
	// A scan that finds nothing would leave only the page to complain.
	if len(table.Rows) < 300 || len(table.Reports) < 80 || len(tests) < 300 {
		t.Errorf("%d rows, %d reports, %d tests that name some", len(table.Rows), len(table.Reports), len(tests))
	}
}

var small = Table{
	Rows:    []Row{{ID: "A-1", Area: "First", Words: "one", Since: "0.2"}, {ID: "A-2", Area: "First", Words: "two", Since: "0.5", Later: true}},
	Reports: []Row{{ID: "B001", Area: "Field", Words: "it broke"}},
}

const proving = "package p\n\n// It holds.\n//\n// req: A-1\n// report: B001\nfunc TestX(t *testing.T) {}\n"

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestATreeIsReadAsTheGoCommandReadsIt(t *testing.T) {
	tests, problems, err := Scan(fstest.MapFS{
		"x_test.go":            file(proving),
		"nested/go.mod":        file("module nested\n"),
		"nested/y_test.go":     file("package y\n\n// req: A-1, A-2 A-3\nfunc FuzzY(f *testing.F) {}\n\n// req: A-1\nfunc BenchmarkÜ(b *testing.B) {}\n\n// req: A-1\nfunc Example() {}\n"),
		"testdata/a_test.go":   file(proving),
		"p/testdata/a_test.go": file("no Go at all"),
		"vendor/v_test.go":     file(proving),
		".hidden/h_test.go":    file(proving),
		"_old/o_test.go":       file(proving),
		"notes.md":             file("// req: A-1\n"),
		"plain_test.go":        file("package p\n\n// This requires nothing: see req.go.\n// A report: of it.\nfunc TestPlain(t *testing.T) {}\n"),
	})
	if err != nil || len(problems) != 0 {
		t.Fatal(problems, err)
	}
	var got []string
	for _, x := range tests {
		got = append(got, x.String()+" "+strings.Join(x.Rows, "+")+" "+strings.Join(x.Reports, "+"))
	}
	want := []string{"nested.FuzzY A-1+A-2+A-3 ", "nested.BenchmarkÜ A-1 ", "nested.Example A-1 ", "ma2h.TestX A-1 B001"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if _, _, err := Scan(fstest.MapFS{"x_test.go": file("package")}); err == nil {
		t.Error("a file that is no Go was passed over")
	}
}

func TestATagThatProvesNothingIsFound(t *testing.T) {
	for name, tt := range map[string]struct{ file, text string }{
		"above a helper":         {"x_test.go", "package p\n\n// req: A-1\nfunc helper() {}\n"},
		"above a method":         {"x_test.go", "package p\n\n// req: A-1\nfunc (s suite) TestX() {}\n"},
		"above a lower-case one": {"x_test.go", "package p\n\n// req: A-1\nfunc Testing() {}\n"},
		"above TestMain":         {"x_test.go", "package p\n\n// req: A-1\nfunc TestMain(m *testing.M) {}\n"},
		"above a type":           {"x_test.go", "package p\n\n// req: A-1\ntype TestX struct{}\n"},
		"above a table":          {"x_test.go", "package p\n\nvar rows = []int{\n\t// req: A-1\n\t1,\n}\n"},
		"inside a test":          {"x_test.go", "package p\n\nfunc TestX(t *testing.T) {\n\t// req: A-1\n\t_ = 1\n}\n"},
		"apart from its test":    {"x_test.go", "package p\n\n// req: A-1\n\nfunc TestX(t *testing.T) {}\n"},
		"at the end":             {"x_test.go", "package p\n\n// req: A-1\n"},
		"above the package":      {"x_test.go", "// req: A-1\npackage p\n"},
		"behind code":            {"x_test.go", "package p\n\nvar x = 1 // req: A-1\n"},
		"in the library":         {"x.go", "package p\n\n// req: A-1\nfunc TestX(t *testing.T) {}\n"},
		"a report above nothing": {"x_test.go", "package p\n\n// report: B001\nvar x int\n"},
		"without a blank":        {"x_test.go", "package p\n\n//req: A-1\nfunc TestX(t *testing.T) {}\n"},
		"of no id":               {"x_test.go", "package p\n\n// req:\nfunc TestX(t *testing.T) {}\n"},
		"of another spelling":    {"x_test.go", "package p\n\n// reqs: A-1\nfunc TestX(t *testing.T) {}\n"},
		"in capitals":            {"x_test.go", "package p\n\n// Req: A-1\nfunc TestX(t *testing.T) {}\n"},
	} {
		tests, problems, err := Scan(fstest.MapFS{tt.file: file(tt.text)})
		if err != nil || len(problems) != 1 || !strings.HasPrefix(problems[0], tt.file+":") || len(tests) != 0 {
			t.Errorf("%s: %v, %v, %v", name, tests, problems, err)
		}
	}
	tests, problems, err := Scan(fstest.MapFS{"x_test.go": file(proving)})
	if err != nil || len(problems) != 0 || len(tests) != 1 {
		t.Errorf("as it is: %v, %v, %v", tests, problems, err)
	}
}

func TestRowsAndTagsThatDoNotMeetAreFound(t *testing.T) {
	good := Test{File: "x_test.go", Name: "TestX", Rows: []string{"A-1"}, Reports: []string{"B001"}}
	for name, tt := range map[string]struct {
		tests []Test
		want  string // part of the one problem; empty: none
	}{
		"as it is":                {[]Test{good}, ""},
		"two tests of one row":    {[]Test{good, {Name: "TestY", Rows: []string{"A-1"}}}, ""},
		"a row without a test":    {[]Test{{Name: "TestX", Reports: []string{"B001"}}}, "A-1 (one) has no test"},
		"a report without a test": {[]Test{{Name: "TestX", Rows: []string{"A-1"}}}, "B001 (it broke) has no test"},
		"a row that is not there": {[]Test{good, {Name: "TestY", Rows: []string{"A-3"}}}, "names A-3, and there is no such row"},
		"a report as a row":       {[]Test{good, {Name: "TestY", Rows: []string{"B001"}}}, "// req: names B001"},
		"a row as a report":       {[]Test{good, {Name: "TestY", Reports: []string{"A-1"}}}, "// report: names A-1"},
		"another case":            {[]Test{good, {Name: "TestY", Rows: []string{"a-1"}}}, "names a-1"},
		"a row for later":         {[]Test{good, {Name: "TestY", Rows: []string{"A-2"}}}, "A-2 is marked as for later"},
		"a row twice":             {[]Test{good, {Name: "TestY", Rows: []string{"A-1", "A-1"}}}, "names A-1 twice"},
	} {
		_, problems := small.Match(tt.tests)
		if tt.want == "" && len(problems) != 0 || tt.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], tt.want)) {
			t.Errorf("%s: %q", name, problems)
		}
	}
}

func TestThePageHasARowForEachAndALinkToEachTest(t *testing.T) {
	proof, _ := small.Match([]Test{
		{File: "a/b/x_test.go", Name: "TestX", Rows: []string{"A-1"}, Reports: []string{"B001"}}, {File: "y_test.go", Name: "TestY", Rows: []string{"A-1"}},
	})
	text := string(small.Page(proof))
	for _, want := range []string{
		"\n1 rows of 0.2 to 0.4, 1 that 0.5 brings, 1 reports from the field.\n",
		"\n## First\n\n| id | since | § | row | tests |\n|---|---|---|---|---|\n" +
			"| A-1 | 0.2 |  | one | [b.TestX](../a/b/x_test.go)<br>[ma2h.TestY](../y_test.go) |\n" +
			"| A-2 | 0.5 |  | two | later: 0.5 |\n",
		"\n## Field\n\n| id | kind of failure | tests |\n|---|---|---|\n| B001 | it broke | [b.TestX](../a/b/x_test.go) |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks\n%s\nin\n%s", want, text)
		}
	}
}

func TestATableThatIsNotOneIsRefused(t *testing.T) {
	good := "# Area\n\nA-1 | 0.2 | 8.1 | one\n- A-2 | 0.5 | | two\nCTX-R2 | own | | three\ndp-001 | 0.3 | | four\n"
	rows, err := parseRows(good, 4)
	want := []Row{{"A-1", "Area", "0.2", "8.1", "one", false}, {"A-2", "Area", "0.5", "", "two", true}, {"CTX-R2", "Area", "own", "", "three", false}, {"dp-001", "Area", "0.3", "", "four", false}}
	if err != nil || !slices.Equal(rows, want) {
		t.Fatalf("%v, %v", rows, err)
	}
	for name, text := range map[string]string{
		"nothing":        "",
		"a heading":      "# Area\n",
		"no heading":     "A-1 | 0.2 | | one\n",
		"too few":        "# Area\nA-1 | 0.2 | one\n",
		"too many":       "# Area\nA-1 | 0.2 | | one | two\n",
		"no words":       "# Area\nA-1 | 0.2 | | \n",
		"no minor":       "# Area\nA-1 | | | one\n",
		"twice":          "# Area\nA-1 | 0.2 | | one\n- A-1 | 0.2 | | one\n",
		"no id":          "# Area\n | 0.2 | | one\n",
		"an id in words": "# Area\nThe first | 0.2 | | one\n",
		"half an id":     "# Area\nA- | 0.2 | | one\n",
	} {
		if rows, err := parseRows(text, 4); err == nil || rows != nil {
			t.Errorf("%s: %v", name, rows)
		}
	}
	reports, err := parseRows("# Area\nB001 | it broke\n", 2)
	if err != nil || !slices.Equal(reports, []Row{{ID: "B001", Area: "Area", Words: "it broke"}}) {
		t.Errorf("%v, %v", reports, err)
	}
}
