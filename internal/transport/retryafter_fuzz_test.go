package transport_test

import (
	"math/big"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/internal/transport"
)

var digits = regexp.MustCompile(`^[ \t]*([0-9]+)[ \t]*$`)

// asked reads a header line by the grammar of RFC 9110 §10.2.3, with whole
// numbers of any size.
func asked(line string, now time.Time) time.Duration {
	if m := digits.FindStringSubmatch(line); m != nil {
		n, _ := new(big.Int).SetString(m[1], 10)
		n.Mul(n, big.NewInt(int64(time.Second)))
		if !n.IsInt64() {
			return never
		}
		return time.Duration(n.Int64())
	}
	for _, layout := range []string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 MST", time.ANSIC} {
		if at, err := time.Parse(layout, trimBlanks(line)); err == nil && at.After(now) {
			return at.Sub(now)
		}
	}
	return 0
}

func trimBlanks(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// Whatever the lines are, the wait is the longest that one of them asks for, and
// no attempt is made before it is over.
//
// req: RL-01
// report: B003
func FuzzRetryAfterIsTheLongestWaitAskedForAndIsKept(f *testing.F) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	corpus := seeds.For(f)
	lines := []string{
		"", "0", "3", " \t3 ", "007", "-5", "+5", "1.5", "1e3", "5s", "soon", "9223372036", "9223372037", "99999999999999999999999",
		"Mon, 01 Jun 2026 12:01:30 GMT", "Mon, 01 Jun 2026 11:00:00 GMT", "Monday, 01-Jun-26 12:01:30 GMT", "Mon Jun  1 12:01:30 2026", "Fri, 31 Dec 9999 23:59:59 GMT", "3, 4", "٣",
	}
	for i, line := range lines {
		corpus.Add(line, lines[(i+5)%len(lines)], uint8(i), 0.5)
	}
	corpus.Counted(21)
	f.Fuzz(func(t *testing.T, first, second string, attempt uint8, random float64) {
		if !(random >= 0 && random < 1) {
			random = 0.25
		}
		got := transport.RetryAfter(http.Header{"Retry-After": {first, second}}, now)
		if want := max(asked(first, now), asked(second, now)); got != want {
			t.Fatalf("%q and %q ask for %s, read as %s", first, second, want, got)
		}
		if delay := backoff.Delay(int(attempt), got, random); delay < got || delay < backoff.Min {
			t.Fatalf("asked for %s, waits %s", got, delay)
		}
	})
}
