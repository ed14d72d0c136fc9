package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/internal/mutate/mutant"
)

// suite is the test binary of one package.
type suite struct {
	dir    string // of the package, relative to the module
	binary string
	tests  []test
}

// test is one that can be run alone: a top-level one, or of a slow one each
// subtest that has none of its own.
type test struct {
	Name    string
	Took    time.Duration
	Reached []int // mutants that would have changed a value
	Failed  bool  // without any mutant
}

const (
	slow = 5 * time.Second
	// A test that takes longer, with hooks, is left out.
	longest = 40 * time.Second
	// Of what would find a mutant this much is run, the fast tests first.
	patience = 45 * time.Second
	// memory that one test binary may take, in KiB: a mutant may allocate
	// without end.
	memory = 6 << 20
)

// run runs tests of the suite and reports how that ended.
func (p *project) run(s *suite, pattern string, limit time.Duration, env ...string) (out []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Second)
	defer cancel()
	const script = `ulimit -v "$0" 2>/dev/null; exec "$@"`
	cmd := exec.CommandContext(ctx, "sh", "-c", script, strconv.Itoa(memory),
		s.binary, "-test.run", pattern, "-test.failfast", "-test.timeout", limit.String(), "-test.v")
	cmd.Dir = filepath.Join(p.root, s.dir)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err = cmd.Run()
	return b.Bytes(), err
}

// pattern matches exactly the tests named.
func pattern(names ...string) string {
	if len(names) == 1 {
		parts := strings.Split(names[0], "/")
		for i := range parts {
			parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
		}
		return strings.Join(parts, "/")
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// measure runs each test alone and keeps what it reaches and how long it takes.
func (p *project) measure(s *suite, with *regexp.Regexp) error {
	cache := filepath.Join(p.work, strings.ReplaceAll(s.dir, "/", "~")+".reach."+p.all+".json")
	if with.String() != "" {
		cache = filepath.Join(p.work, "some.reach.json")
	} else if b, err := os.ReadFile(cache); err == nil && json.Unmarshal(b, &s.tests) == nil {
		return nil
	}
	out, err := p.run(s, "^$", time.Minute)
	if err != nil {
		return fmt.Errorf("%s does not start: %w\n%s", s.dir, err, out)
	}
	cmd := exec.Command(s.binary, "-test.list", "^(Test|Fuzz|Example)")
	cmd.Dir = filepath.Join(p.root, s.dir)
	if out, err = cmd.Output(); err != nil {
		return err
	}
	names := strings.Fields(string(out))
	names = slices.DeleteFunc(names, func(n string) bool { return !with.MatchString(n) })
	for len(names) > 0 {
		t, subtests := p.measureOne(s, names[0])
		names = names[1:]
		if t.Took > slow && len(subtests) > 0 {
			names = append(names, subtests...)
		}
		p.progress("%s: measuring, %d to go: %s %.1fs", s.dir, len(names), t.Name, t.Took.Seconds())
		if t.Failed {
			fmt.Fprintf(p.out, "\n%s %s fails without a mutant, or takes too long, and is left out\n", s.dir, t.Name)
		}
		s.tests = append(s.tests, t)
	}
	slices.SortFunc(s.tests, func(a, b test) int { return int(a.Took - b.Took) })
	b, err := json.Marshal(s.tests)
	if err != nil {
		return err
	}
	return os.WriteFile(cache, b, 0o600)
}

func (p *project) measureOne(s *suite, name string) (test, []string) {
	file := filepath.Join(p.work, "reached")
	_ = os.Remove(file)
	begin := time.Now()
	out, err := p.run(s, pattern(name), longest, mutant.Reach+"="+file)
	t := test{Name: name, Took: time.Since(begin), Failed: err != nil}
	b, _ := os.ReadFile(file)
	for _, f := range strings.Fields(string(b)) {
		if id, err := strconv.Atoi(f); err == nil {
			t.Reached = append(t.Reached, id)
		}
	}
	slices.Sort(t.Reached) // processes that the test starts write to the same file
	t.Reached = slices.Compact(t.Reached)
	var sub []string
	for line := range strings.Lines(string(out)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "=== RUN   "); ok && strings.HasPrefix(n, name+"/") {
			sub = slices.DeleteFunc(sub, func(o string) bool { return strings.HasPrefix(n, o+"/") })
			sub = append(sub, n)
		}
	}
	return t, sub
}

// result is what became of a mutant.
type result struct {
	Key    string
	Status string // killed, timeout, survived, unreached
	By     string // the suite and the tests that ran last
	File   string // digest of the mutated file
	All    string // digest of all sources, for what was not killed
}

const (
	killed    = "killed"
	timeout   = "timeout"
	survived  = "survived"
	unreached = "unreached"
)

// results remembers what is known, so that a run can be broken off.
type results struct {
	file  *os.File
	known map[string]result
}

func openResults(name string) (*results, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	rs := &results{file: f, known: make(map[string]result)}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r result
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			rs.known[r.Key] = r
		}
	}
	return rs, nil
}

func (rs *results) put(r result) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	rs.known[r.Key] = r
	_, err = rs.file.Write(append(b, '\n'))
	return err
}

// get returns what is known of m and still true: a kill for as long as the
// mutated file is the same, anything else until any source changes.
func (rs *results) get(p *project, m Mutant) (result, bool) {
	r, ok := rs.known[m.Key]
	if !ok || r.File != p.digests[m.File] {
		return result{}, false
	}
	return r, r.Status == killed || r.Status == timeout || r.All == p.all
}

// judge runs what reaches m, in each suite after the other, until a test fails.
func (p *project) judge(m Mutant, suites []*suite) result {
	r := result{Key: m.Key, Status: unreached, File: p.digests[m.File], All: p.all}
	for _, s := range suites {
		for _, batch := range s.batches(m.ID) {
			limit := p.atLeast
			names := make([]string, len(batch))
			for i, t := range batch {
				limit += 10 * t.Took
				names[i] = t.Name
			}
			out, err := p.run(s, pattern(names...), limit, mutant.Active+"="+strconv.Itoa(m.ID))
			r.Status, r.By = survived, s.dir+" "+strings.Join(names[:min(3, len(names))], " ")
			if err == nil {
				continue
			}
			r.Status = killed
			if bytes.Contains(out, []byte("panic: test timed out")) || errors.Is(err, exec.ErrWaitDelay) || strings.Contains(err.Error(), "signal: killed") {
				r.Status = timeout
			}
			if i := bytes.LastIndex(out, []byte("=== RUN   ")); i >= 0 {
				name, _, _ := bytes.Cut(out[i+10:], []byte("\n"))
				r.By = s.dir + " " + string(name)
			}
			return r
		}
	}
	return r
}

// batches are the tests that reach a mutant, in the order in which to run
// them: each batch is one process, and longer than those before it. Slow tests
// are run only if there are no others.
func (s *suite) batches(id int) [][]test {
	var fast, late []test
	for _, t := range s.tests {
		if _, ok := slices.BinarySearch(t.Reached, id); !ok || t.Failed {
			continue
		}
		if t.Took > slow {
			late = append(late, t)
		} else {
			fast = append(fast, t)
		}
	}
	if len(fast) == 0 {
		fast = late[:min(1, len(late))]
	}
	var out [][]test
	var batch []test
	var took, all time.Duration
	size := time.Second / 2
	for _, t := range fast {
		single := strings.Contains(t.Name, "/")
		if len(batch) > 0 && (took+t.Took > size || single) {
			out, batch, took, size = append(out, batch), nil, 0, 3*size
		}
		batch, took, all = append(batch, t), took+t.Took, all+t.Took
		if single {
			out, batch, took = append(out, batch), nil, 0
		}
		if all > patience {
			break
		}
	}
	if len(batch) > 0 {
		out = append(out, batch)
	}
	return out
}
