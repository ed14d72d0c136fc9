package transport

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Backoff spreads attempts: exponential up to Max, with full jitter, so that a
// fleet that failed together does not come back together.
type Backoff struct {
	Min time.Duration // no wait is shorter
	Max time.Duration // no wait is longer, but for one that the Hub asked for
}

// Delay returns the wait before the attempt that follows attempt n (1 is the
// first), never shorter than asked. random is uniform in [0,1).
func (b Backoff) Delay(n int, asked time.Duration, random float64) time.Duration {
	ceiling := min(b.Min, b.Max)
	for ; n > 1 && ceiling < b.Max; n-- {
		ceiling += min(ceiling, b.Max-ceiling)
	}
	// The jitter is taken after the cap: at the cap all would be equal else.
	spread := ceiling
	if f := random * float64(ceiling); f < float64(ceiling) {
		spread = time.Duration(f)
	}
	least := b.Min
	if asked > 0 {
		least = asked
	}
	if least > math.MaxInt64-spread {
		return least
	}
	return least + spread
}

// RetryAfter reads what the Hub asked to wait: delay seconds or an HTTP date.
// It returns zero for what is absent, past or not of that grammar, and the
// longest of several.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	var most time.Duration
	for _, v := range h.Values("Retry-After") {
		most = max(most, retryAfter(strings.Trim(v, " \t"), now))
	}
	return most
}

func retryAfter(v string, now time.Time) time.Duration {
	if strings.Trim(v, "0123456789") == "" {
		n, _ := strconv.ParseInt(v, 10, 64) // too large a number is the largest
		if n > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64
		}
		return time.Duration(n) * time.Second
	}
	at, _ := http.ParseTime(v) // what is no date is the zero time, long past
	return max(0, at.Sub(now))
}
