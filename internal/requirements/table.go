// Package requirements holds the rows that this library answers for, in its
// own words, and finds the tests that say they prove them. docs/requirements.md
// is written from both; only tests import it.
package requirements

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

// Row is one thing that has to hold.
type Row struct {
	ID      string
	Area    string // the heading it stands under
	Since   string // the minor that brought it, or "own" for a rule of ours; a report has none
	Section string // of the protocol; may be empty
	Words   string
	Later   bool // 0.5 brings it: no test is wanted yet
}

//go:embed rows.txt
var rowsText string

//go:embed reports.txt
var reportsText string

// Table is what tests can name: the rows of the protocol under "// req:", the
// field reports under "// report:".
type Table struct {
	Rows    []Row
	Reports []Row
}

// Load reads the rows of this repository.
func Load() (Table, error) {
	rows, err := parseRows(rowsText, 4)
	if err != nil {
		return Table{}, fmt.Errorf("rows.txt: %w", err)
	}
	reports, err := parseRows(reportsText, 2)
	if err != nil {
		return Table{}, fmt.Errorf("reports.txt: %w", err)
	}
	return Table{rows, reports}, nil
}

var idForm = regexp.MustCompile(`^([A-Z]+-[A-Z]?[0-9]*|B[0-9]{3}|dp-[0-9]{3})$`)

// parseRows reads "ID | since | section | words" or, of two columns, "ID |
// words". A heading begins with "# ", a row for later with "- ".
func parseRows(text string, columns int) ([]Row, error) {
	var rows []Row
	area, seen := "", map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			area = heading
			continue
		}
		line, later := strings.CutPrefix(line, "- ")
		cells := strings.Split(line, "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		if len(cells) != columns {
			return nil, fmt.Errorf("line %d: %d columns, not %d", i+1, len(cells), columns)
		}
		r := Row{ID: cells[0], Area: area, Words: cells[columns-1], Later: later}
		if columns == 4 {
			r.Since, r.Section = cells[1], cells[2]
		}
		switch {
		case !idForm.MatchString(r.ID) || strings.HasSuffix(r.ID, "-"):
			return nil, fmt.Errorf("line %d: %q is no id", i+1, r.ID)
		case seen[r.ID]:
			return nil, fmt.Errorf("line %d: %s is there twice", i+1, r.ID)
		case area == "":
			return nil, fmt.Errorf("line %d: %s stands under no heading", i+1, r.ID)
		case r.Words == "" || columns == 4 && r.Since == "":
			return nil, fmt.Errorf("line %d: %s says nothing", i+1, r.ID)
		}
		seen[r.ID] = true
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no rows")
	}
	return rows, nil
}
