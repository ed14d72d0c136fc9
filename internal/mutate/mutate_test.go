package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const tiny = "internal/mutate/testdata/tiny"

// judgeTiny gives each mutant of testdata/tiny and what became of it.
func judgeTiny(t *testing.T) (*project, map[string]string) {
	t.Helper()
	work := t.TempDir()
	for _, d := range []string{"src", "bin"} {
		if err := os.Mkdir(filepath.Join(work, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := openProject("../..", work)
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.atLeast = io.Discard, 2*time.Second
	if err := p.mutate(tiny, nil); err != nil {
		t.Fatal(err)
	}
	s := &suite{dir: tiny}
	if s.binary, err = p.build(tiny); err != nil {
		t.Fatal(err)
	}
	if err := p.measure(s, regexp.MustCompile("")); err != nil {
		t.Fatal(err)
	}
	rs, err := openResults(filepath.Join(work, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, m := range p.mutants {
		r := p.judge(m, []*suite{s})
		got[strings.TrimPrefix(m.Key, tiny+"/tiny.go ")] = r.Status
		if err := rs.put(r); err != nil {
			t.Fatal(err)
		}
	}
	return p, got
}

func TestEachMutantIsKilledOrSurvivesAsItsTestsHaveIt(t *testing.T) {
	p, got := judgeTiny(t)
	want := map[string]string{
		"Most true: len(s) > 3":          killed,
		"Most false: len(s) > 3":         killed,
		"Most equal: len(s) > 3":         killed,
		"Most byone: len(s) > 3":         killed,
		"Least true: n >= 10":            killed,
		"Least false: n >= 10":           killed,
		"Least equal: n >= 10":           unreached,
		"Least byone: n >= 10":           unreached,
		"Both true: a":                   unreached,
		"Both false: a":                  killed,
		"Both false: b":                  killed, // leaves !a, which is false
		"Both true 2: a":                 unreached,
		"Both true: b":                   unreached,
		"Named true: \"one\"":            killed,
		"Named false: \"one\"":           killed,
		"Named false: \"eins\"":          killed,
		"Named drop: n = 1":              killed,
		"Named drop: log++":              survived,
		"Named drop: n = min(len(s), 5)": killed,
		"Named left: min(len(s), 5)":     killed,
		"Named right: min(len(s), 5)":    killed,
		"First never: <-a":               timeout,
		"First never: <-b":               survived,
		"First true: ok":                 unreached,
		"First false: ok":                unreached,
		"Checked nil: Most(s)":           killed,
		"Never true: log == 0":           unreached,
		"Never false: log == 0":          unreached,
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if got[k] != want[k] {
			t.Errorf("%s: %s, not %q", k, got[k], want[k])
		}
	}
	for k := range want {
		if got[k] == "" {
			t.Errorf("there is no mutant %s", k)
		}
	}
	// Killed stays known for as long as the file does, the rest for as long as
	// all sources do.
	rs, err := openResults(filepath.Join(p.work, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		for _, m := range p.mutants {
			if _, ok := rs.get(p, m); ok {
				n++
			}
		}
		return n
	}
	dead := 0
	for _, s := range got {
		if s == killed || s == timeout {
			dead++
		}
	}
	if n := count(); n != len(got) {
		t.Errorf("%d of %d are known", n, len(got))
	}
	p.all = "other tests"
	if n := count(); n != dead {
		t.Errorf("%d are known after another test, %d were killed", n, dead)
	}
	p.digests[tiny+"/tiny.go"] = "another file"
	if n := count(); n != 0 {
		t.Errorf("%d are known of another file", n)
	}
}

func TestTheListOfSurvivorsIsHeldToWhatSurvives(t *testing.T) {
	p := &project{out: io.Discard, all: "a", digests: map[string]string{"f.go": "d"}}
	rs, err := openResults(filepath.Join(t.TempDir(), "results"))
	if err != nil {
		t.Fatal(err)
	}
	for key, status := range map[string]string{"f.go F drop: a()": killed, "f.go F drop: b()": survived, "f.go F drop: c()": unreached, "f.go F drop: d()": timeout} {
		p.mutants = append(p.mutants, Mutant{File: "f.go", Key: key})
		if err := rs.put(result{Key: key, Status: status, File: "d", All: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		text string
		want int
	}{
		{"", 2},
		{"f.go F drop: b()\nf.go F drop: c()\n\tThey do nothing.\n", 0},
		{"f.go F drop: b()\n\tIt does nothing.\n\tAt all.\n\n# more\nf.go F drop: c()\n\tNor this.\n", 0},
		{"f.go F drop: b()\nf.go F drop: c()\nf.go F drop: a()\n\tOne is killed.\n", 1},
		{"f.go F drop: b()\nf.go F drop: c()\nf.go F drop: d()\n\tOne is killed.\n", 1},
		{"f.go F drop: b()\nf.go F drop: c()\nf.go F drop: e()\n\tOne is gone.\n", 1},
		{"f.go F drop: b()\n", -1},
		{"\tNo key.\n", -1},
		{"f.go F drop: b()\n\tOne.\nf.go F drop: c()\n\tNo line between.\n", -1},
		{"f.go F drop: b()\n\tOne.\n\nf.go F drop: b()\n\tTwice.\n", -1},
	} {
		name := filepath.Join(t.TempDir(), "survivors.txt")
		if err := os.WriteFile(name, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		allowed, err := readAllowed(name)
		if (err != nil) != (row.want < 0) {
			t.Errorf("%q: %v", row.text, err)
		}
		if err == nil {
			if n := p.compare(rs, allowed, regexp.MustCompile("")); n != row.want {
				t.Errorf("%q: %d differ, not %d", row.text, n, row.want)
			}
		}
	}
}
