package requirements

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Proof is which tests name which id.
type Proof map[string][]Test

// Match puts rows and tests together. Problems are rows that no test names,
// rows for later that one does, and tags that name no row, or one twice.
func (table Table) Match(tests []Test) (proof Proof, problems []string) {
	proof = Proof{}
	for _, side := range []struct {
		tag   string
		rows  []Row
		named func(Test) []string
	}{
		{"req", table.Rows, func(t Test) []string { return t.Rows }},
		{"report", table.Reports, func(t Test) []string { return t.Reports }},
	} {
		known := map[string]bool{}
		for _, r := range side.rows {
			known[r.ID] = true
		}
		for _, t := range tests {
			for i, id := range side.named(t) {
				switch {
				case !known[id]:
					problems = append(problems, fmt.Sprintf("%s: %s: // %s: names %s, and there is no such row", t.File, t.Name, side.tag, id))
				case slices.Contains(side.named(t)[:i], id):
					problems = append(problems, fmt.Sprintf("%s: %s: names %s twice", t.File, t.Name, id))
				default:
					proof[id] = append(proof[id], t)
				}
			}
		}
		for _, r := range side.rows {
			switch {
			case len(proof[r.ID]) == 0 && !r.Later:
				problems = append(problems, fmt.Sprintf("%s (%s) has no test: tag one with // %s: %s", r.ID, r.Words, side.tag, r.ID))
			case len(proof[r.ID]) > 0 && r.Later:
				problems = append(problems, fmt.Sprintf("%s is marked as for later, and %s names it", r.ID, proof[r.ID][0]))
			}
		}
	}
	return proof, problems
}

const preamble = `# What is required, and what proves it

Each row is a thing that has to hold, in our words; the section is where the
protocol says it, "own" marks a rule that it does not state and safety wants.
The tests name their rows in a comment. A row without a test, a tag without a
row and a stale copy of this page fail the build. Do not edit it: it is written
from internal/requirements by

` + "```sh\ngo test ./internal/requirements -update\n```\n"

// Page is docs/requirements.md.
func (table Table) Page(proof Proof) []byte {
	var b bytes.Buffer
	b.WriteString(preamble)
	wanted, later := 0, 0
	for _, r := range table.Rows {
		if r.Later {
			later++
		} else {
			wanted++
		}
	}
	fmt.Fprintf(&b, "\n%d rows of 0.2 to 0.4, %d that 0.5 brings, %d reports from the field.\n", wanted, later, len(table.Reports))
	area := ""
	for _, r := range table.Rows {
		if r.Area != area {
			area = r.Area
			fmt.Fprintf(&b, "\n## %s\n\n| id | since | § | row | tests |\n|---|---|---|---|---|\n", area)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.ID, r.Since, r.Section, r.Words, cell(r, proof[r.ID]))
	}
	b.WriteString("\n# What goes wrong in the field\n\nKinds of failure that people reported of other software that does this job,\nand the tests that keep them out of ours.\n")
	area = ""
	for _, r := range table.Reports {
		if r.Area != area {
			area = r.Area
			fmt.Fprintf(&b, "\n## %s\n\n| id | kind of failure | tests |\n|---|---|---|\n", area)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, r.Words, cell(r, proof[r.ID]))
	}
	return b.Bytes()
}

func cell(r Row, tests []Test) string {
	if r.Later {
		return "later: 0.5"
	}
	links := make([]string, len(tests))
	for i, t := range tests {
		links[i] = fmt.Sprintf("[%s](../%s)", t, t.File)
	}
	return strings.Join(links, "<br>")
}
