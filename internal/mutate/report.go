package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// readAllowed reads the survivors that are known: a key on a line of its own,
// with as many of them as have the same reason, and the reason indented.
func readAllowed(name string) (map[string]string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	allowed := make(map[string]string)
	var keys, reason []string
	flush := func() error {
		if (len(keys) == 0) != (len(reason) == 0) {
			return errKeys
		}
		for _, k := range keys {
			if allowed[k] != "" {
				return fmt.Errorf("survivors.txt has %q twice", k)
			}
			allowed[k] = strings.Join(reason, " ")
		}
		keys, reason = nil, nil
		return nil
	}
	for line := range strings.Lines(string(b) + "\n") {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case text == "":
			if err := flush(); err != nil {
				return nil, err
			}
		case line[0] == '\t':
			reason = append(reason, text)
		case len(reason) > 0:
			return nil, errKeys
		default:
			keys = append(keys, text)
		}
	}
	return allowed, flush()
}

// compare tells of the mutants that are not what survivors.txt says.
func (p *project) compare(rs *results, allowed map[string]string, only *regexp.Regexp) (failed int) {
	known := make(map[string]bool)
	for _, m := range p.mutants {
		known[m.Key] = true
		r, ok := rs.get(p, m)
		if !ok || !only.MatchString(m.Key) {
			continue
		}
		dead := r.Status == killed || r.Status == timeout
		switch {
		case dead && allowed[m.Key] != "":
			fmt.Fprintf(p.out, "listed, and killed by %s: %s\n", r.By, m.Key)
		case !dead && allowed[m.Key] == "":
			fmt.Fprintf(p.out, "%s, and not listed: %s\n", r.Status, m.Key)
		default:
			continue
		}
		failed++
	}
	for k := range allowed {
		if !known[k] {
			fmt.Fprintf(p.out, "listed, and no mutant: %s\n", k)
			failed++
		}
	}
	return failed
}

const (
	tableBegin = "<!-- written by internal/mutate: begin -->\n"
	tableEnd   = "<!-- written by internal/mutate: end -->\n"
)

// writeReport replaces the generated part of the report.
func (p *project) writeReport(rs *results, allowed map[string]string, name string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(old, []byte(tableBegin))
	_, tail, ok2 := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the table", name)
	}
	var b bytes.Buffer
	b.Write(head)
	b.WriteString(tableBegin)
	p.table(&b, rs, allowed)
	b.WriteString(tableEnd)
	b.Write(tail)
	return os.WriteFile(name, b.Bytes(), 0o644)
}

func (p *project) table(b *bytes.Buffer, rs *results, allowed map[string]string) {
	type row struct{ all, killed, timeouts, left int }
	rows := make(map[string]*row)
	var files []string
	var sum row
	for _, m := range p.mutants {
		if rows[m.File] == nil {
			rows[m.File] = new(row)
			files = append(files, m.File)
		}
		r, _ := rs.get(p, m)
		for _, to := range []*row{rows[m.File], &sum} {
			to.all++
			switch r.Status {
			case killed:
				to.killed++
			case timeout:
				to.killed++
				to.timeouts++
			default:
				to.left++
			}
		}
	}
	b.WriteString("| file | mutants | killed | of these by a timeout | left |\n|---|---:|---:|---:|---:|\n")
	for _, f := range files {
		r := rows[f]
		fmt.Fprintf(b, "| `%s` | %d | %d | %d | %d |\n", f, r.all, r.killed, r.timeouts, r.left)
	}
	fmt.Fprintf(b, "| all | %d | %d | %d | %d |\n", sum.all, sum.killed, sum.timeouts, sum.left)
	reasons := make(map[string][]string)
	var order []string
	for _, m := range p.mutants {
		if why := allowed[m.Key]; why != "" {
			if reasons[why] == nil {
				order = append(order, why)
			}
			reasons[why] = append(reasons[why], m.Key)
		}
	}
	b.WriteString("\n## What is left, and why\n")
	for _, why := range order {
		fmt.Fprintf(b, "\n%s\n\n", why)
		for _, k := range slices.Compact(reasons[why]) {
			fmt.Fprintf(b, "- `%s`\n", k)
		}
	}
}
