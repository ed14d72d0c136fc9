// Bench measures the library beside its yardsticks in one run and prints one
// table. It is a module of its own, so that what it compares with is no
// dependency of the library.
//
//	go -C bench run .
//	go -C bench run . -only verify -reference DIR
//
// DIR is the folder reference of a checkout of
// github.com/autnmy/ma2h-protocol, after npm install.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"text/tabwriter"
	"time"
)

// sections of the table, by the name that -only takes.
var sections = []struct {
	name string
	rows func(context.Context, *meter) ([]row, error)
}{
	{"verify", verify},
	{"size", verifySizes},
	{"replay", replay},
	{"callback", callback},
	{"submit", submit},
	{"wake-up", wakeUp},
	{"waiters", waiters},
	{"inbox", inbox},
	{"sqlite", claimsOn(sqliteEngine)},
	{"postgres", claimsOn(postgresEngine)},
	{"redis", claimsOn(redisEngine)},
}

func main() {
	if role := os.Getenv(roleEnv); role != "" {
		exit(play(role))
	}
	m := &meter{}
	only := flag.String("only", "", "measure only the sections whose `name` matches")
	profile := flag.String("profile", "", "write a CPU profile to `file`")
	flag.IntVar(&m.rounds, "rounds", 7, "how often each is measured; the least counts")
	flag.DurationVar(&m.slice, "slice", 150*time.Millisecond, "how long each is measured in a round")
	flag.StringVar(&m.reference, "reference", "", "`folder` of the TypeScript reference, with its npm packages installed")
	flag.Parse()
	exit(run(m, *only, *profile))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(m *meter, only, profile string) (err error) {
	which, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if m.rounds < 1 || m.slice <= 0 || flag.NArg() > 0 {
		return errors.New("there must be a round and a slice, and nothing but flags")
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Printf("%s, %s/%s, %d cores. Ours and the yardsticks in turn, %d rounds of %s each; the least of each counts.\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), m.rounds, m.slice)
	var table []row
	for _, s := range sections {
		if !which.MatchString(s.name) {
			continue
		}
		rows, err := s.rows(context.Background(), m)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		table = append(table, rows...)
	}
	if len(table) == 0 {
		return fmt.Errorf("no section matches %q", only)
	}
	return write(os.Stdout, table)
}

// row is one line of the table. ours stays empty where the line goes on from
// the one above it.
type row struct {
	what, ours        string
	yardstick, theirs string
	ratio             float64 // ours to theirs; 0 where there is none
	reach             reach
}

// reach is a number to keep below or to come up to. The zero value is none.
type reach struct {
	text string
	met  bool
}

func atMost(got, limit float64, unit string) reach {
	return reach{fmt.Sprintf("<= %v%s", limit, unit), got <= limit}
}

func atLeast(got, limit float64, unit string) reach {
	return reach{fmt.Sprintf(">= %v%s", limit, unit), got >= limit}
}

func (r reach) verdict() string {
	switch {
	case r.text == "":
		return ""
	case r.met:
		return "met"
	}
	return "missed"
}

func write(out io.Writer, table []row) error {
	columns := [][]string{{"what", "ours", "beside", "theirs", "ratio", "reach", ""}}
	for _, r := range table {
		ratio := ""
		if r.ratio != 0 {
			ratio = fmt.Sprintf("%.2f", r.ratio)
		}
		columns = append(columns, []string{r.what, r.ours, r.yardstick, r.theirs, ratio, r.reach.text, r.reach.verdict()})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range columns {
		last := len(line)
		for last > 0 && line[last-1] == "" {
			last--
		}
		for i, cell := range line[:last] {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// beside makes the row of two times of one operation in nanoseconds.
func beside(what string, ours float64, yardstick string, theirs float64) row {
	return row{what: what, ours: span(ours), yardstick: yardstick, theirs: span(theirs), ratio: ours / theirs}
}

func notMeasured(what, yardstick, why string) row {
	return row{what: what, yardstick: yardstick, theirs: "not measured: " + why}
}

// span writes nanoseconds with three digits.
func span(ns float64) string {
	switch {
	case ns >= 1e6:
		return threeDigits(ns/1e6) + " ms"
	case ns >= 1e3:
		return threeDigits(ns/1e3) + " µs"
	}
	return threeDigits(ns) + " ns"
}

func threeDigits(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// rate writes operations a second.
func rate(ns float64) string { return fmt.Sprintf("%.0f/s", 1e9/ns) }
