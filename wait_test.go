package ma2h_test

import (
	"context"
	"errors"
	"log/slog"
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

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// req: PUL-03 PUL-04
func TestAnAnswerAfterTwentyThreeHoursTakesOnePollAMinute(t *testing.T) {
	begin := time.Now()
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		id := mustAsk(t, c, shipOrHold("k"))
		go func() {
			time.Sleep(23*time.Hour + 30*time.Second)
			if err := hub.Answer(id, "ship", ma2htest.By(alice)); err != nil {
				t.Error(err)
			}
		}()
		asked := time.Now()
		r, err := c.Wait(t.Context(), id)
		mustNot(t, err)
		if !r.Answered("ship") || time.Since(asked) != 23*time.Hour+30*time.Second {
			t.Errorf("%v after %s", r, time.Since(asked))
		}
		hub.RequireRequests(t, ma2htest.Pull, 23*60+1)
		for _, r := range hub.Requests() {
			if r.Endpoint == ma2htest.Pull && r.Query != "wait=60" {
				t.Fatalf("polled with %q", r.Query)
			}
		}
	})
	t.Logf("23 hours took %s", time.Since(begin))
}

// req: PUL-03 PUL-04
func TestAnAnswerAfterTwentyThreeHoursOverTLS(t *testing.T) {
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)})
	cfg := hub.ConfigTLS(asker)
	cfg.Now = hub.Now
	answered := make(chan struct{}, 1)
	base := cfg.HTTPClient.Transport
	cfg.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if strings.Contains(r.URL.RawQuery, "wait=") {
			answered <- struct{}{}
		}
		return resp, err
	})}
	c := connect(t, cfg)
	id := mustAsk(t, c, shipOrHold("k"))
	done := make(chan *ma2h.Response)
	go func() {
		r, err := c.Wait(t.Context(), id)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	const holds = 23 * 60
	for range holds {
		mustNot(t, hub.AwaitHold(t.Context(), id))
		hub.Advance(time.Minute)
		<-answered
	}
	mustNot(t, hub.AwaitHold(t.Context(), id))
	mustNot(t, hub.Answer(id, "ship", ma2htest.By(alice)))
	if r := <-done; !r.Answered("ship") {
		t.Errorf("%v", r)
	}
	hub.RequireRequests(t, ma2htest.Pull, holds+1)
}

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

// report: B027
// req: PUL-05
func TestNoNewsInAnyFormIsNoNews(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		id := mustAsk(t, c, shipOrHold("k"))
		pull := func(f ma2htest.Fault) ma2htest.Fault { return f.On(ma2htest.Pull) }
		faults := []ma2htest.Fault{
			ma2htest.NotModified(1), ma2htest.NoContent(1), ma2htest.EarlyReturn(1),
			pull(ma2htest.Status(408, 1)), pull(ma2htest.Status(425, 1)), pull(ma2htest.Status(429, 1)), pull(ma2htest.Status(500, 1)),
			pull(ma2htest.Status(502, 1, ma2htest.ContentType("text/html"), ma2htest.Body("<html>"))),
			pull(ma2htest.Status(503, 1, ma2htest.Body(""))), pull(ma2htest.Status(504, 1)),
			pull(ma2htest.ResetBefore(1)), pull(ma2htest.ResetAfter(1)), pull(ma2htest.TornBody(1, 9)), pull(ma2htest.Hang(1)),
			pull(ma2htest.Status(200, 1, ma2htest.ContentType("text/html"), ma2htest.Body("<html>log in</html>"))),
			pull(ma2htest.Status(200, 1, ma2htest.ContentType(""), ma2htest.Body(""), ma2htest.ContentType("text/plain"))),
		}
		hub.Fault(faults...)
		time.AfterFunc(6*time.Hour, func() {
			if err := hub.Answer(id, "hold"); err != nil {
				t.Error(err)
			}
		})
		r, err := c.Wait(t.Context(), id)
		mustNot(t, err)
		if !r.Answered("hold") {
			t.Errorf("%v", r)
		}
		struck := 0
		for _, r := range hub.Requests() {
			if r.Fault != "" {
				struck++
			}
		}
		if struck != len(faults) {
			t.Errorf("%d of %d faults struck", struck, len(faults))
		}
	})
}

// req: PUL-06 ERR-06
func TestWhatWaitingCannotMendEndsItAtOnce(t *testing.T) {
	for _, tt := range []struct {
		code int
		want error
	}{
		{400, ma2h.ErrValidation}, {401, ma2h.ErrUnauthenticated}, {403, ma2h.ErrNotAuthorized}, {404, ma2h.ErrNotFound},
		{410, ma2h.ErrGone}, {422, ma2h.ErrInvalidField}, {418, ma2h.ErrProtocol}, {501, ma2h.ErrUnavailable}, {307, ma2h.ErrRedirect},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			id := mustAsk(t, c, shipOrHold("k"))
			hub.Fault(ma2htest.Status(tt.code, 1).On(ma2htest.Pull).After(2))
			begin := time.Now()
			r, err := c.Wait(t.Context(), id)
			wants(t, err, tt.want)
			if r != nil || time.Since(begin) != 2*time.Minute {
				t.Errorf("%d: %v after %s", tt.code, r, time.Since(begin))
			}
			hub.RequireRequests(t, ma2htest.Pull, 3)
			hub.RequireStatus(t, id, types.StatusOpen)
			if api, ok := errors.AsType[*ma2h.APIError](err); !ok || api.Status != tt.code || api.ID != id {
				t.Errorf("%d: %v", tt.code, err)
			}
		})
	}
}

func TestAWaitEndsWithItsContextAndLeavesTheMessageOpen(t *testing.T) {
	why := errors.New("the job is over")
	for name, faults := range map[string][]ma2htest.Fault{
		"in a hold":  nil,
		"in a pause": {ma2htest.Status(503, 0, ma2htest.RetryAfter("86400")).On(ma2htest.Pull)},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			id := mustAsk(t, c, shipOrHold("k"))
			hub.Fault(faults...)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(100*time.Second, func() { cancel(why) })
			begin := time.Now()
			_, err := c.Wait(ctx, id)
			if !errors.Is(err, why) || !errors.Is(err, context.Canceled) || time.Since(begin) != 100*time.Second {
				t.Errorf("%s: after %s: %v", name, time.Since(begin), err)
			}
			hub.RequireStatus(t, id, types.StatusOpen)

			ctx, stop := context.WithTimeout(t.Context(), 7*time.Second)
			defer stop()
			begin = time.Now()
			_, err = c.Wait(ctx, id)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 7*time.Second {
				t.Errorf("%s: after %s: %v", name, time.Since(begin), err)
			}
			if !strings.Contains(err.Error(), "stays open") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAWaitWithAnEndedContextAsksNothing(t *testing.T) {
	s := always(200, view())
	c := connect(t, s.config())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Wait(ctx, "msg_1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s.calls.Load() != 0 {
		t.Errorf("%d requests", s.calls.Load())
	}
}

// report: B001
// req: RL-01
func TestARateLimitThatDoesNotFitTheDeadlineIsReturnedAtOnce(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		id := mustAsk(t, c, shipOrHold("k"))
		hub.Fault(ma2htest.Status(429, 1, ma2htest.RetryAfter("3600")).On(ma2htest.Pull))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		_, err := c.Wait(ctx, id)
		wants(t, err, ma2h.ErrRateLimited)
		if api, ok := errors.AsType[*ma2h.APIError](err); !ok || api.RetryAfter != time.Hour || time.Since(begin) != 0 {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		// Without a deadline it is obeyed.
		hub.Fault(ma2htest.Status(429, 1, ma2htest.RetryAfter("3600")).On(ma2htest.Pull))
		mustNot(t, hub.Answer(id, "ship"))
		begin = time.Now()
		_, err = c.Wait(t.Context(), id)
		mustNot(t, err)
		if d := time.Since(begin); d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("waited %s", d)
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

// onLog calls a function for each record with the message.
type onLog struct {
	message string
	call    func()
}

func (onLog) Enabled(context.Context, slog.Level) bool { return true }
func (o onLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, o.message) {
		o.call()
	}
	return nil
}
func (o onLog) WithAttrs([]slog.Attr) slog.Handler { return o }
func (o onLog) WithGroup(string) slog.Handler      { return o }

// report: B031
func TestACancelJustBeforeThePauseEndsIt(t *testing.T) {
	for _, message := range []string{"poll got no answer", "poll got no news"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := roundTrip(func(r *http.Request) (*http.Response, error) {
				if message == "poll got no answer" {
					return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
				}
				return canned(503, "{}"), nil
			})
			cfg := over(s)
			cfg.Logger = slog.New(onLog{message, cancel})
			c := connect(t, cfg)
			begin := time.Now()
			_, err := c.Wait(ctx, "msg_1")
			wants(t, err, context.Canceled)
			if d := time.Since(begin); d != 0 {
				t.Errorf("slept %s through a cancel", d)
			}
		})
	}
}

// report: B033
func TestAWaitResumesInAnotherProcessWithNothingButTheHandle(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ack, err := c.Ask(t.Context(), shipOrHold("k"))
		mustNot(t, err)
		ctx, kill := context.WithCancel(t.Context())
		time.AfterFunc(90*time.Second, kill)
		_, err = c.Wait(ctx, ack.ID)
		wants(t, err, context.Canceled)
		kept := ack.Handle().String()

		mustNot(t, hub.Answer(ack.ID, "ship"))
		h, err := ma2h.ParseHandle(kept)
		mustNot(t, err)
		second := connect(t, hub.Config(h.AgentID))
		r, err := second.Wait(t.Context(), h.MessageID)
		mustNot(t, err)
		again, err := second.Wait(t.Context(), h.MessageID)
		mustNot(t, err)
		if m, _ := hub.Message(ack.ID); r.ResolutionID() != m.Resolved.ResolutionID || again.ResolutionID() != r.ResolutionID() {
			t.Errorf("%s and %s", r.ResolutionID(), again.ResolutionID())
		}
	})
}

// req: PUL-01
func TestAnAnswerOverFourMebibytesIsReadAndOneWithoutBoundIsNot(t *testing.T) {
	text := strings.Repeat("x", 5<<20)
	c := connect(t, always(200, view(`"idempotency_key"`, `"body":"`+text+`","idempotency_key"`)).config())
	if r, err := c.Wait(t.Context(), "msg_1"); err != nil || !r.Answered("approve") {
		t.Errorf("%v %v", r, err)
	}
	s := always(200, view(`"idempotency_key"`, `"body":"`+text+text+text+text+`","idempotency_key"`))
	c = connect(t, s.config())
	if r, err := c.Wait(t.Context(), "msg_1"); r != nil || !errors.Is(err, ma2h.ErrProtocol) || s.calls.Load() != 1 {
		t.Errorf("%v %v after %d polls", r, err, s.calls.Load())
	}
}

func TestACertificateThatDoesNotHoldEndsAWait(t *testing.T) {
	hub := ma2htest.NewHub(t)
	cfg := hub.Config(asker)
	cfg.HubURL = hub.URL()
	own := &http.Transport{} // trusts nobody of ours
	t.Cleanup(own.CloseIdleConnections)
	cfg.HTTPClient = &http.Client{Transport: own}
	c := connect(t, cfg)
	if _, err := c.Wait(t.Context(), "msg_1"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	_, err := c.Ask(t.Context(), shipOrHold("k"))
	se, ok := errors.AsType[*ma2h.SubmitError](err)
	if !ok || se.Unknown || se.Attempts != 1 {
		t.Errorf("%v", err)
	}
	hub.RequireRequests(t, "", 0)
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
// with a value of its own, and checks that each got it. It returns the peak of
// the process' memory over what it was before, in bytes.
func wakeAll(t testing.TB, waiters int) (used uint64) {
	hub := ma2htest.NewHub(t, ma2htest.Options{KeepRequests: -1})
	c := connect(t, hub.ConfigTLS(asker))
	before := memoryInUse()
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
	used = memoryInUse() - before
	for i, id := range ids {
		mustNot(t, hub.Answer(id, [2]string{"ship", "hold"}[i%2], ma2htest.By(alice)))
	}
	wg.Wait()
	if n := wrong.Load(); n != 0 {
		t.Errorf("%d of %d waiters got no answer or another's", n, waiters)
	}
	return used
}
