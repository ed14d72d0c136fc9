// Command mutate changes one check at a time in the code that trust and
// delivery rest on, and sees that a test fails for it. How to use it, and what
// it found, stands in docs/mutation.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// target is a package whose files are mutated, all or some, and the packages
// whose tests must find that, in the order in which they are tried.
type target struct {
	dir   string
	files []string
	tests []string
}

var targets = []target{
	{".", []string{
		"acknowledge.go", "callback.go", "callback_http.go", "callback_outcome.go", "callback_process.go", "cancel.go",
		"consume.go", "consume_memory.go", "decision.go", "directive.go", "handle.go", "inbox.go", "inbox_ack.go",
		"inbox_batch.go", "key.go", "keys.go", "memory.go", "memory_outbox.go", "memory_table.go", "outbox.go",
		"pipeline.go", "replay.go", "response.go", "response_decode.go", "resume.go", "state.go", "state_binding.go",
		"state_json.go", "state_key.go", "state_token.go", "verify.go", "wait.go",
	}, []string{".", "ma2htest"}},
	{"internal/canon", nil, []string{"internal/canon", "."}},
	{"internal/header", nil, []string{"internal/header", "."}},
	{"internal/signed", nil, []string{"internal/signed", "."}},
	{"internal/strict", nil, []string{"internal/strict", "."}},
	{"internal/transport", nil, []string{"internal/transport", "."}},
	{"store/internal/storekit", nil, []string{"store/internal/storekit", "store/sqlstore/sqlite", "store/redisstore"}},
	{"store/sqlstore", nil, []string{"store/sqlstore", "store/sqlstore/sqlite"}},
	{"store/sqlstore/sqlite", nil, []string{"store/sqlstore/sqlite"}},
	{"store/redisstore", nil, []string{"store/redisstore"}},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run() error {
	work := flag.String("work", filepath.Join(os.TempDir(), "ma2h-mutate"), "where the binaries and the results are kept; a run that was broken off goes on from there")
	only := flag.String("only", "", "a pattern: the mutants to judge, by file, function, change or text")
	with := flag.String("with", "", "a pattern: the tests to judge with; what they do not kill is not recorded")
	list := flag.Bool("list", false, "list the mutants and run nothing")
	report := flag.Bool("report", false, "write docs/mutation.md")
	flag.Parse()
	onlyRE, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	withRE, err := regexp.Compile(*with)
	if err != nil {
		return err
	}
	for _, d := range []string{"src", "bin"} {
		if err := os.MkdirAll(filepath.Join(*work, d), 0o700); err != nil {
			return err
		}
	}
	p, err := openProject(".", *work)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := p.mutate(t.dir, t.files); err != nil {
			return err
		}
	}
	allowed, err := readAllowed(filepath.Join(p.root, "internal/mutate/survivors.txt"))
	if err != nil {
		return err
	}
	rs, err := openResults(filepath.Join(*work, "results.jsonl"))
	if err != nil {
		return err
	}
	if err := p.judgeAll(rs, onlyRE, withRE, *list); err != nil || *list {
		return err
	}
	failed := p.compare(rs, allowed, onlyRE)
	if *report && *only == "" && *with == "" {
		if err := p.writeReport(rs, allowed, filepath.Join(p.root, "docs/mutation.md")); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d mutants are not as survivors.txt says", failed)
	}
	return nil
}

// judgeAll judges the mutants that only matches and that are not known yet.
func (p *project) judgeAll(rs *results, only, with *regexp.Regexp, list bool) error {
	suites := make(map[string]*suite)
	counts := make(map[string]int)
	begin := time.Now()
	for _, t := range targets {
		var todo []Mutant
		for _, m := range p.mutants {
			if _, known := rs.get(p, m); filepath.Dir(m.File) == filepath.Clean(t.dir) && only.MatchString(m.Key) && !known {
				todo = append(todo, m)
			}
		}
		if list {
			for _, m := range todo {
				fmt.Fprintln(p.out, m.Key)
			}
			continue
		}
		if len(todo) == 0 {
			continue
		}
		var use []*suite
		for _, dir := range t.tests {
			s := suites[dir]
			if s == nil {
				s = &suite{dir: dir}
				suites[dir] = s
				p.progress("%s: building", dir)
				var err error
				if s.binary, err = p.build(dir); err != nil {
					return err
				}
				if err := p.measure(s, with); err != nil {
					return err
				}
			}
			use = append(use, s)
		}
		for i, m := range todo {
			r := p.judge(m, use)
			counts[r.Status]++
			p.progress("%s %d of %d, %s: %v", t.dir, i+1, len(todo), time.Since(begin).Round(time.Second), counts)
			if r.Status == survived || r.Status == unreached {
				fmt.Fprintf(p.out, "\n%s:%d: %s %s\n", m.File, m.Line, r.Status, strings.TrimPrefix(m.Key, m.File+" "))
				if with.String() != "" {
					continue
				}
			}
			if err := rs.put(r); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(p.out)
	return nil
}

func (p *project) progress(format string, args ...any) {
	fmt.Fprintf(p.out, "\r\x1b[K"+format, args...)
}

var errKeys = errors.New("survivors.txt has a reason without a mutant, or a mutant without a reason")
