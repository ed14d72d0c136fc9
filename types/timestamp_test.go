package types_test

import (
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// The same language as a pattern and the calendar give.
//
// req: ENV-05
func TestATimestampIsWhatThePatternAndTheCalendarTake(t *testing.T) {
	form := regexp.MustCompile(`^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	want := func(s string) bool {
		_, err := time.Parse(time.RFC3339Nano, s)
		return form.MatchString(s) && err == nil
	}
	seeds := []string{
		"2026-06-04T15:48:30Z", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2000-02-29T23:59:59.123456789+23:59", "1900-02-29T00:00:00Z",
		"0000-01-01T00:00:00-00:00", "2026-04-31T00:00:00Z", "2026-12-31T23:59:60Z", "2026-06-04T24:00:00Z", "2026-06-04t15:48:30z",
		"2026-06-04T15:48:30.Z", "2026-06-04T15:48:30.1234567890Z", "2026-06-04T15:48:30+24:00", "2026-06-04T15:48:30+00:60", "2026-06-04", "",
	}
	taken := 0
	r := rand.New(rand.NewPCG(1, 2))
	const alphabet = "0123456789-+:.TZtz "
	for _, seed := range seeds {
		for i := range 20_000 {
			s := []byte(seed)
			for range i % 4 {
				if len(s) == 0 {
					break
				}
				switch at := r.IntN(len(s)); r.IntN(4) {
				case 0:
					s = append(s[:at], s[at+1:]...)
				case 1:
					s = append(s[:at], append([]byte{alphabet[r.IntN(len(alphabet))]}, s[at:]...)...)
				default:
					s[at] = alphabet[r.IntN(len(alphabet))]
				}
			}
			if got := types.ValidTimestamp(string(s)); got != want(string(s)) {
				t.Fatalf("%q is %v", s, got)
			} else if got {
				taken++
			}
		}
	}
	if taken < 10_000 {
		t.Errorf("only %d of the texts were timestamps", taken)
	}
}
