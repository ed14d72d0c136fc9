package ma2h_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// req: PUL-03 PUL-04 AMB-28
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
			c = connect(t, hub.Config(asker), func(cfg *ma2h.Config) {
				cfg.Logger = slog.New(onLog{"poll got no answer", func() { t.Error("the end of a wait is logged as a failed poll") }})
			})
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

func (o onLog) WithGroup(string) slog.Handler { return o }

// report: B031
func TestACancelJustBeforeThePauseEndsIt(t *testing.T) {
	for _, message := range []string{"poll got no answer", "poll got no news"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			s := roundTrip(func(r *http.Request) (*http.Response, error) {
				asked++
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
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

func TestACancelDuringAHoldAsksNothingMore(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			cfg := over(roundTrip(func(*http.Request) (*http.Response, error) {
				asked++
				time.Sleep(time.Minute)
				cancel()
				return open(), nil
			}))
			cfg.Logger = slog.New(onLog{"poll got", func() { t.Error("a cancel is logged as a failed poll") }})
			_, err := connect(t, cfg).Wait(ctx, "msg_1")
			wants(t, err, context.Canceled)
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q says it twice", err)
			}
		})
	}
}

func TestAnAnswerThatComesWithTheDeadlineIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := connect(t, over(roundTrip(func(*http.Request) (*http.Response, error) {
			cancel()
			return canned(200, view()), nil
		})))
		if r, err := c.Wait(ctx, "msg_1"); err != nil || !r.Answered("approve") {
			t.Errorf("%v %v", r, err)
		}
	})
}

// req: RL-01
func TestARateLimitThatFitsTheDeadlineIsObeyed(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		id := mustAsk(t, c, shipOrHold("k"))
		mustNot(t, hub.Answer(id, "ship"))
		hub.Fault(ma2htest.Status(429, 1, ma2htest.RetryAfter("5")).On(ma2htest.Pull))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if _, err := c.Wait(ctx, id); err != nil || time.Since(begin) < 5*time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

// A pause that ends with the deadline would leave no time to ask.
//
// req: RL-01
func TestARateLimitThatEndsWithTheDeadlineIsReturnedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := always(429, "{}", "Retry-After", "10").config()
		cfg.Rand = zeros{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := connect(t, cfg).Wait(ctx, "msg_1")
		wants(t, err, ma2h.ErrRateLimited)
		if took := time.Since(begin); took != 0 {
			t.Errorf("after %s", took)
		}
	})
}

// zeros is a source of no randomness.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// req: PUL-03
func TestNoNewsThatComesAtOnceIsFollowedByAPauseWhateverItsForm(t *testing.T) {
	for name, answer := range map[string]func() *http.Response{
		"304":    func() *http.Response { return canned(304, "") },
		"204":    func() *http.Response { return canned(204, "") },
		"open":   open,
		"a page": func() *http.Response { return canned(200, "<html>", "Content-Type", "text/html") },
		"503":    func() *http.Response { return canned(503, "") },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stub{answer: func(*http.Request) *http.Response { return answer() }}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			_, err := connect(t, s.config()).Wait(ctx, "msg_1")
			wants(t, err, context.DeadlineExceeded)
			if n := s.calls.Load(); n < 15 || n > 120 {
				t.Errorf("%s: %d polls in ten minutes", name, n)
			}
		})
	}
}

func TestAWaitThatEndsSaysWhatTheLastPollCameTo(t *testing.T) {
	for says, answer := range map[string]*http.Response{
		"the last poll was answered 503":                              canned(503, ""),
		"the last poll was answered with a page that is not of a Hub": canned(200, "<html>", "Content-Type", "text/html"),
		"the last poll got no answer":                                 nil,
		"":                                                            open(),
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := connect(t, over(roundTrip(func(*http.Request) (*http.Response, error) {
				if answer == nil {
					return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
				}
				again := *answer
				again.Body = io.NopCloser(strings.NewReader(view(`"answered"`, `"open"`)[:strings.Index(view(`"answered"`, `"open"`), `,"response"`)] + "}"))
				return &again, nil
			}))).Wait(ctx, "msg_1")
			wants(t, err, context.DeadlineExceeded)
			if _, last, said := strings.Cut(err.Error(), "; "); said != (says != "") || last != says {
				t.Errorf("%v, not: %s", err, says)
			}
		})
	}
	// A hold that the caller ends is no failure.
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		id := mustAsk(t, c, shipOrHold("k"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.Wait(ctx, id); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "the last poll") {
			t.Error(err)
		}
	})
}

// req: SUB-16
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

// halved cuts the 200s to calls of a path, the first n of them, in good order:
// the length is that of what is left.
func halved(rt http.RoundTripper, path string, n int64) (http.RoundTripper, *atomic.Int64) {
	var calls atomic.Int64
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err != nil || !strings.HasSuffix(r.URL.Path, path) || calls.Add(1) > n {
			return resp, err
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		cut := canned(resp.StatusCode, string(body[:len(body)/2]))
		cut.Request = r
		return cut, resp.Body.Close()
	}), &calls
}

// report: B009
func TestAnAnswerThatAHopCutInGoodOrderIsNoNews(t *testing.T) {
	for cuts, want := range map[int64]error{1: nil, 2: nil, 3: ma2h.ErrProtocol} {
		for name, call := range map[string]struct {
			path string
			do   func(context.Context, *ma2h.Client, string) error
		}{
			"wait": {"", func(ctx context.Context, c *ma2h.Client, id string) error { _, err := c.Wait(ctx, id); return err }},
			"read": {"", func(ctx context.Context, c *ma2h.Client, id string) error { _, err := c.Message(ctx, id); return err }},
			"acknowledge": {"/ack", func(ctx context.Context, c *ma2h.Client, id string) error {
				_, err := c.Acknowledge(ctx, id, "")
				return err
			}},
			"discover": {"/.well-known/ma2h", func(ctx context.Context, c *ma2h.Client, _ string) error { _, err := c.Capabilities(ctx); return err }},
		} {
			bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
				id := mustAsk(t, c, shipOrHold("k"))
				mustNot(t, hub.Answer(id, "ship"))
				_, err := c.Message(t.Context(), id)
				mustNot(t, err)
				path := call.path
				if path == "" {
					path = "/v1/messages/" + id
				}
				rt, calls := halved(hub.Transport(), path, cuts)
				cfg := hub.Config(asker)
				cfg.HTTPClient = &http.Client{Transport: rt}
				if err := call.do(t.Context(), connect(t, cfg), id); !errors.Is(err, want) {
					t.Errorf("%s, %d cut: %v", name, cuts, err)
				}
				if n := calls.Load(); n != min(cuts+1, 3) {
					t.Errorf("%s, %d cut: %d calls", name, cuts, n)
				}
			})
		}
	}
}
