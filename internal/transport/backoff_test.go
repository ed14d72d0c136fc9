package transport_test

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/internal/transport"
)

const never = time.Duration(math.MaxInt64)

var backoff = transport.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// req: RL-01 RL-02
func TestADelayIsNeverBelowTheFloorNorBelowWhatWasAsked(t *testing.T) {
	for n := 1; n < 200; n++ {
		for _, asked := range []time.Duration{0, 1, time.Second, time.Hour, never - 1, never} {
			for _, random := range []float64{0, 0.5, 1 - 1e-16, 1} {
				got := backoff.Delay(n, asked, random)
				if got < asked || asked == 0 && got < backoff.Min {
					t.Fatalf("attempt %d, asked %s, random %g: %s", n, asked, random, got)
				}
				if asked == 0 && got > backoff.Min+backoff.Max {
					t.Fatalf("attempt %d, random %g: %s", n, random, got)
				}
			}
		}
	}
}

func TestADelayDoublesUpToItsBound(t *testing.T) {
	for n, want := range []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		if got := backoff.Delay(n+1, 0, 1) - backoff.Min; got != want*time.Millisecond {
			t.Errorf("attempt %d: %s, want %dms", n+1, got, want)
		}
	}
	for _, n := range []int{31, 32, 33, 63, 64, 65, math.MaxInt} {
		if got := backoff.Delay(n, 0, 1); got != backoff.Min+backoff.Max {
			t.Errorf("attempt %d: %s", n, got)
		}
	}
}

func TestABoundBelowTheFloorIsNotPassed(t *testing.T) {
	b := transport.Backoff{Min: 3 * time.Second, Max: 2 * time.Second}
	for n := range 5 {
		if got := b.Delay(n, 0, 1); got != 5*time.Second {
			t.Errorf("attempt %d: %s", n, got)
		}
	}
}

func TestABoundWithoutLimitDoesNotOverflow(t *testing.T) {
	b := transport.Backoff{Min: time.Second, Max: never}
	for _, n := range []int{1, 30, 33, 34, 40, 1000} {
		for _, random := range []float64{0, 0.999999999999999999, 1} {
			if got := b.Delay(n, 0, random); got < time.Second {
				t.Errorf("attempt %d, random %g: %s", n, random, got)
			}
		}
	}
}

// report: B030
func TestDelaysAreSpreadAlsoAtTheBound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, asked := range []time.Duration{0, time.Minute} {
		var got []time.Duration
		for range 300 {
			got = append(got, backoff.Delay(50, asked, r.Float64()))
		}
		slices.Sort(got)
		if spread := got[299] - got[0]; spread < 25*time.Second {
			t.Errorf("asked %s: all within %s", asked, spread)
		}
		most := 0
		for i := range got {
			n := 0
			for n < 300-i && got[i+n] < got[i]+time.Second {
				n++
			}
			most = max(most, n)
		}
		if most > 40 {
			t.Errorf("asked %s: %d of 300 within one second", asked, most)
		}
	}
}

// report: B003
// req: RL-01
func TestRetryAfterIsReadInBothForms(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	tests := []struct {
		name   string
		values []string
		want   time.Duration
	}{
		{"absent", nil, 0},
		{"empty", []string{""}, 0},
		{"zero", []string{"0"}, 0},
		{"negative", []string{"-5"}, 0},
		{"a sign", []string{"+5"}, 0},
		{"a fraction", []string{"1.5"}, 0},
		{"an exponent", []string{"1e3"}, 0},
		{"a unit", []string{"5s"}, 0},
		{"a word", []string{"soon"}, 0},
		{"three", []string{"3"}, 3 * time.Second},
		{"blanks around", []string{" \t3 "}, 3 * time.Second},
		{"leading zeros", []string{"007"}, 7 * time.Second},
		{"an hour", []string{"3600"}, time.Hour},
		{"the most that fits", []string{"9223372036"}, 9223372036 * time.Second},
		{"over the most", []string{"9223372037"}, never},
		{"no int64", []string{"99999999999999999999999"}, never},
		{"a date to come", []string{date(90 * time.Second)}, 90 * time.Second},
		{"now", []string{date(0)}, 0},
		{"a past date", []string{date(-time.Hour)}, 0},
		{"a date of RFC 850", []string{now.Add(time.Minute).Format("Monday, 02-Jan-06 15:04:05 GMT")}, time.Minute},
		{"a date of asctime", []string{now.Add(time.Minute).Format(time.ANSIC)}, time.Minute},
		{"a date of RFC 3339", []string{now.Add(time.Minute).Format(time.RFC3339)}, 0},
		{"two, the longer last", []string{"2", "9"}, 9 * time.Second},
		{"two, the longer first", []string{"9", "2"}, 9 * time.Second},
		{"two, one junk", []string{"junk", "4"}, 4 * time.Second},
		{"a list", []string{"3, 9"}, 0},
	}
	for _, tt := range tests {
		h := http.Header{}
		for _, v := range tt.values {
			h.Add("Retry-After", v)
		}
		if got := transport.RetryAfter(h, now); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
