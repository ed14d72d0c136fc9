package ma2h_test

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// req: PUL-03 PUL-04 GO-11
func TestTheHoldIsWhatEveryoneAllows(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*ma2h.Config)
		wait string
	}{
		{"nothing said", func(*ma2h.Config) {}, "60"},
		{"MaxWait", func(c *ma2h.Config) { c.MaxWait = 25*time.Second + 999*time.Millisecond }, "25"},
		{"the least MaxWait", func(c *ma2h.Config) { c.MaxWait = time.Second }, "1"},
		{"the client's Timeout", func(c *ma2h.Config) { c.HTTPClient.Timeout = 30 * time.Second }, "26"},
		{"the least Timeout", func(c *ma2h.Config) { c.HTTPClient.Timeout = 5 * time.Second }, "1"},
		{"a long Timeout", func(c *ma2h.Config) { c.HTTPClient.Timeout = 10 * time.Minute }, "60"},
		{"MaxWait below Timeout", func(c *ma2h.Config) { c.HTTPClient.Timeout = 30 * time.Second; c.MaxWait = 5 * time.Second }, "5"},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
			c := connect(t, hub.Config(asker), tt.edit)
			id := mustAsk(t, c, shipOrHold("k"))
			time.AfterFunc(150*time.Second+time.Millisecond, func() {
				if err := hub.Answer(id, "ship"); err != nil {
					t.Error(err)
				}
			})
			begin := time.Now()
			_, err := c.Wait(t.Context(), id)
			mustNot(t, err)
			seconds, _ := strconv.Atoi(tt.wait)
			for _, r := range hub.Requests() {
				if r.Endpoint == ma2htest.Pull && r.Query != "wait="+tt.wait {
					t.Errorf("%s: polled with %s, want wait=%s", tt.name, r.Query, tt.wait)
				}
				if r.Fault != "" || r.Endpoint == ma2htest.Pull && r.Status != 200 {
					t.Errorf("%s: a hold was cut: %+v", tt.name, r)
				}
			}
			if time.Since(begin) != 150*time.Second+time.Millisecond {
				t.Errorf("%s: woke after %s", tt.name, time.Since(begin))
			}
			if got, want := pulls(hub), 150/seconds+1; got != want {
				t.Errorf("%s: %d polls, want %d", tt.name, got, want)
			}
		})
	}
}

// hold answers a poll as open after d.
func hold(r *http.Request, d time.Duration, resp *http.Response) *http.Response {
	select {
	case <-time.After(d):
		return resp
	case <-r.Context().Done():
		return canned(499, "")
	}
}

func open() *http.Response {
	text := view(`"answered"`, `"open"`)
	return canned(200, text[:strings.Index(text, `,"response"`)]+"}")
}

// report: B024
func TestAHopThatCutsHoldsShortensThemAndItsPageIsNotRead(t *testing.T) {
	for _, code := range []int{408, 502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var waits []int
			s := &stub{answer: func(r *http.Request) *http.Response {
				wait, _ := strconv.Atoi(r.URL.Query().Get("wait"))
				waits = append(waits, wait)
				if time.Since(begin) > 2*time.Hour {
					return canned(200, view())
				}
				if wait > 29 {
					return hold(r, 30*time.Second, canned(code, "<html>"+view()+"</html>", "Content-Type", "text/html"))
				}
				return hold(r, time.Duration(wait)*time.Second, open())
			}}
			r, err := connect(t, s.config()).Wait(t.Context(), "msg_1")
			mustNot(t, err)
			if !r.Answered("approve") {
				t.Errorf("%d: %v", code, r)
			}
			cut := 0
			for _, w := range waits {
				if w > 29 {
					cut++
				}
			}
			// One cut, then shorter holds, and every twentieth tries a longer one.
			if waits[0] != 60 || waits[1] != 22 || cut < 2 || cut > len(waits)/10 {
				t.Errorf("%d: %d of %d holds were cut: %v", code, cut, len(waits), waits[:min(60, len(waits))])
			}
		})
	}
}

// report: B024
func TestAHoldThatIsCutAtOnceNeverFallsBelowASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := &stub{answer: func(r *http.Request) *http.Response {
			if r.URL.Query().Get("wait") == "0" {
				t.Error("asked for no hold")
			}
			if time.Since(begin) > 10*time.Minute {
				return canned(200, view())
			}
			return hold(r, time.Second, canned(504, "<html>", "Content-Type", "text/html"))
		}}
		if _, err := connect(t, s.config()).Wait(t.Context(), "msg_1"); err != nil {
			t.Fatal(err)
		}
		if n := s.calls.Load(); n > 100 {
			t.Errorf("%d polls in ten minutes", n)
		}
	})
}

// report: B025
// req: PUL-04
func TestAHubThatDoesNotHoldIsNotAskedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		s := &stub{answer: func(r *http.Request) *http.Response {
			at = append(at, time.Since(begin))
			switch d := time.Since(begin); {
			case d < 10*time.Minute: // answers at once
				return open()
			case d < 20*time.Minute: // holds again
				return hold(r, 60*time.Second, open())
			}
			return canned(200, view())
		}}
		_, err := connect(t, s.config()).Wait(t.Context(), "msg_1")
		mustNot(t, err)
		early, late := 0, 0
		for _, d := range at {
			if d < 2*time.Second {
				early++
			}
			if d >= 10*time.Minute {
				late++
			}
		}
		if early > 4 {
			t.Errorf("%d requests in two seconds", early)
		}
		if n := len(at) - late; n > 10*60/7 {
			t.Errorf("%d requests in ten minutes", n)
		}
		if late > 12 {
			t.Errorf("%d requests in ten minutes of holds", late)
		}
		// The pace is normal once holds work again: no gap after a full hold.
		if last := at[len(at)-1] - at[len(at)-2]; last != 60*time.Second {
			t.Errorf("a gap of %s after a full hold", last-60*time.Second)
		}
		for i := 1; i < 6; i++ {
			if gap := at[i] - at[i-1]; gap < 500*time.Millisecond {
				t.Errorf("gap %d is %s", i, gap)
			}
		}
	})
}

// report: B028
func TestADeadConnectionIsGivenUpAtHoldPlusGrace(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		c := connect(t, hub.Config(asker), func(cfg *ma2h.Config) { cfg.MaxWait = 2 * time.Second })
		id := mustAsk(t, c, shipOrHold("k"))
		mustNot(t, hub.Answer(id, "ship"))
		hub.Fault(ma2htest.Hang(1).On(ma2htest.Pull))
		begin := time.Now()
		_, err := c.Wait(t.Context(), id)
		mustNot(t, err)
		if d := time.Since(begin); d < 12*time.Second || d > 13*time.Second {
			t.Errorf("came back after %s", d)
		}
	})
}

func TestAFailureAtOnceSaysNothingAboutHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []string
		c := connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
			waits = append(waits, r.URL.Query().Get("wait"))
			switch len(waits) {
			case 1:
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			case 2:
				time.Sleep(999 * time.Millisecond)
				return canned(503, ""), nil
			}
			return canned(200, view()), nil
		})))
		_, err := c.Wait(t.Context(), "msg_1")
		mustNot(t, err)
		if got := strings.Join(waits, " "); got != "60 60 60" {
			t.Errorf("holds of %s", got)
		}
	})
}

// report: B024 B028
func TestAHopThatForgetsSilentConnectionsGetsShorterHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var waits []string
		s := &stub{answer: func(r *http.Request) *http.Response {
			wait, _ := strconv.Atoi(r.URL.Query().Get("wait"))
			waits = append(waits, r.URL.Query().Get("wait"))
			switch {
			case time.Since(begin) > time.Hour:
				return canned(200, view())
			case wait > 20: // nothing comes back after twenty silent seconds
				return hold(r, time.Hour, nil)
			}
			return hold(r, time.Duration(wait)*time.Second, open())
		}}
		c := connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := s.RoundTrip(r)
			if r.Context().Err() != nil {
				return nil, r.Context().Err()
			}
			return resp, err
		})))
		if r, err := c.Wait(t.Context(), "msg_1"); err != nil || !r.Answered("approve") {
			t.Fatal(r, err)
		}
		// A silence halves the hold, and a short one shows that the Hub is there.
		if got := strings.Join(waits[:6], " "); got != "60 1 30 1 15 15" {
			t.Errorf("holds of %s", got)
		}
	})
}
