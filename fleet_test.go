package ma2h_test

import (
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/ma2htest"
)

// report: B030
func TestAFleetDoesNotComeBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pollers = 300
		begin := time.Now()
		down, up := begin.Add(30*time.Second), begin.Add(10*time.Minute+30*time.Second)
		var mu sync.Mutex
		var first, after []time.Time // the first retry, the first success
		seen := map[string]int{}
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			if now := time.Now(); now.Before(down) {
				time.Sleep(down.Sub(now)) // a healthy hold, until all are cut
				return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[r.URL.Path]++; seen[r.URL.Path] == 1 {
				first = append(first, time.Now())
			}
			if time.Now().Before(up) {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			after = append(after, time.Now())
			id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			return canned(200, view("msg_1", id)), nil
		})
		src := rand.NewChaCha8([32]byte{1})
		cfg := over(rt)
		cfg.Rand = locked{&sync.Mutex{}, src}
		c := connect(t, cfg)
		var wg sync.WaitGroup
		for i := range pollers {
			wg.Go(func() {
				if _, err := c.Wait(t.Context(), "msg_"+strconv.Itoa(i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for name, at := range map[string]struct {
			times []time.Time
			span  time.Duration
			most  int // within a tenth of the span
		}{
			"the first retry": {first, 400 * time.Millisecond, 70},
			"at the bound":    {after, 25 * time.Second, 60},
		} {
			slices.SortFunc(at.times, time.Time.Compare)
			if len(at.times) != pollers {
				t.Fatalf("%s: %d pollers", name, len(at.times))
			}
			span := at.times[pollers-1].Sub(at.times[0])
			if span < at.span {
				t.Errorf("%s: all within %s", name, span)
			}
			for i := range at.times {
				n := 0
				for i+n < pollers && at.times[i+n].Sub(at.times[i]) < span/10 {
					n++
				}
				if n > at.most {
					t.Errorf("%s: %d of %d within %s", name, n, pollers, span/10)
					break
				}
			}
		}
	})
}

type locked struct {
	mu *sync.Mutex
	r  *rand.ChaCha8
}

func (l locked) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}

// report: B028 B030
func TestManyWaitersOnOneClientAreAllWoken(t *testing.T) {
	waiters := 5000
	if testing.Short() {
		waiters = 500
	}
	wakeAll(t, waiters)
}

// wakeAll has so many goroutines wait on one Client over TLS, answers each
// with a value of its own, and checks that each got it.
func wakeAll(t testing.TB, waiters int) {
	hub := ma2htest.NewHub(t, ma2htest.Options{KeepRequests: -1})
	c := connect(t, hub.ConfigTLS(asker))
	ids := make([]string, waiters)
	var wg sync.WaitGroup
	var wrong atomic.Int64
	for i := range waiters {
		ack, err := c.Ask(t.Context(), shipOrHold("k"+strconv.Itoa(i)))
		mustNot(t, err)
		ids[i] = ack.ID
		wg.Go(func() {
			want := [2]string{"ship", "hold"}[i%2]
			if r, err := c.Wait(t.Context(), ids[i]); err != nil || !r.Answered(want) || r.MessageID() != ids[i] {
				wrong.Add(1)
			}
		})
	}
	for _, id := range ids {
		mustNot(t, hub.AwaitHold(t.Context(), id))
	}
	for i, id := range ids {
		mustNot(t, hub.Answer(id, [2]string{"ship", "hold"}[i%2], ma2htest.By(alice)))
	}
	wg.Wait()
	if n := wrong.Load(); n != 0 {
		t.Errorf("%d of %d waiters got no answer or another's", n, waiters)
	}
}
