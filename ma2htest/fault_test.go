package ma2htest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// overBoth runs a test of faults over both transports.
func overBoth(t *testing.T, test func(t *testing.T, hub *Hub, w *wire)) {
	for name, via := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "tls": overTLS} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t)
			test(t, hub, via(t, hub))
		})
	}
	t.Run("tls 1.1", func(t *testing.T) {
		hub := NewHub(t)
		w := overTLS(t, hub)
		roots := hub.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}} // without HTTP/2
		defer tr.CloseIdleConnections()
		w.http = &http.Client{Transport: tr}
		test(t, hub, w)
	})
}

// wantReset wants what a client sees of a cut connection: a transport error
// that is neither a time-out nor the end of its own context.
func wantReset(t *testing.T, err error) {
	t.Helper()
	ue, ok := errors.AsType[*url.Error](err)
	if !ok || ue.Timeout() || isError(err, context.Canceled) || isError(err, context.DeadlineExceeded) {
		t.Fatalf("%v is not a reset", err)
	}
}

// req: FH-15 SUB-06 SUB-12 SUB-13
func TestAfterALostAckTheReplayHasTheSameID(t *testing.T) {
	overBoth(t, func(t *testing.T, hub *Hub, w *wire) {
		hub.Fault(LoseAck(2))
		w.do("POST", "/v1/messages", notify("", fields{"title": ""})).wantError(t, http.StatusBadRequest, types.CodeValidation)
		for range 2 {
			_, err := w.try(t.Context(), "POST", "/v1/messages", ask("k1"))
			wantReset(t, err)
			hub.RequireMessages(t, 1)
		}
		stored := hub.Messages()[0].ID
		if id := w.submit(ask("k1")); id != stored {
			t.Fatalf("replay gave %s, the Hub stored %s", id, stored)
		}
		hub.RequireMessages(t, 1)
		hub.RequireRequests(t, Submit, 4)
		if r := hub.Requests()[1]; r.Fault != "LoseAck" || r.Status != 0 {
			t.Fatalf("%+v", r)
		}
	})
}

// req: FH-15
func TestAResetBeforeHasNoEffectAndOneAfterHas(t *testing.T) {
	overBoth(t, func(t *testing.T, hub *Hub, w *wire) {
		hub.Fault(ResetBefore(1), ResetAfter(1))
		_, err := w.try(t.Context(), "POST", "/v1/messages", ask("k1"))
		wantReset(t, err)
		hub.RequireMessages(t, 0)
		_, err = w.try(t.Context(), "POST", "/v1/messages", ask("k1"))
		wantReset(t, err)
		hub.RequireMessages(t, 1)
		id := w.submit(ask("k1"))
		hub.Fault(ResetAfter(1).On(Cancel))
		_, err = w.try(t.Context(), "POST", "/v1/messages/"+id+"/cancel", "")
		wantReset(t, err)
		hub.RequireStatus(t, id, types.StatusCancelled)
	})
}

// req: FH-15
func TestATornBodyEndsInUnexpectedEOF(t *testing.T) {
	overBoth(t, func(t *testing.T, hub *Hub, w *wire) {
		for _, n := range []int{0, 10, 1 << 20} {
			hub.Fault(TornBody(1, n))
			g, err := w.try(t.Context(), "POST", "/v1/messages", ask("k1"))
			if !isError(err, io.ErrUnexpectedEOF) || g.status != http.StatusAccepted {
				t.Fatalf("%d bytes: %d %v", n, g.status, err)
			}
			if n == 10 && len(g.body) != n {
				t.Fatalf("%d bytes arrived", len(g.body))
			}
		}
		hub.RequireMessages(t, 1)
		w.submit(ask("k1"))
	})
}

// req: FH-15
func TestACorruptAnswerIsCompleteAndNotJSON(t *testing.T) {
	overBoth(t, func(t *testing.T, hub *Hub, w *wire) {
		hub.Fault(CorruptJSON(1))
		g := w.do("POST", "/v1/messages", ask("k1"))
		var v any
		if err := types.Decode(g.body, &v); err == nil || g.status != http.StatusAccepted {
			t.Fatalf("%d %s", g.status, g.body)
		}
		hub.RequireMessages(t, 1)
		w.submit(ask("k1"))
	})
}

// req: FH-15 RL-01
func TestAStatusIsAnsweredAsScripted(t *testing.T) {
	overBoth(t, func(t *testing.T, hub *Hub, w *wire) {
		hub.Fault(
			Status(429, 1, RetryAfter("7")),
			Status(429, 1, RetryAfter(" soon, or not")),
			Status(503, 1),
			Status(502, 1, Body("<h1>Bad gateway</h1>"), ContentType("text/html")),
			Status(200, 1, Body("")),
		)
		g := w.do("POST", "/v1/messages", ask("k1"))
		g.wantError(t, 429, types.CodeRateLimited)
		if v := g.header.Get("Retry-After"); v != "7" {
			t.Fatalf("Retry-After %q", v)
		}
		if v := w.do("POST", "/v1/messages", ask("k1")).header.Get("Retry-After"); v != "soon, or not" && v != " soon, or not" {
			t.Fatalf("Retry-After %q", v)
		}
		g = w.do("POST", "/v1/messages", ask("k1"))
		g.wantError(t, 503, "unavailable")
		if _, ok := g.header["Retry-After"]; ok {
			t.Fatal("Retry-After unasked")
		}
		g = w.do("POST", "/v1/messages", ask("k1"))
		if g.status != 502 || string(g.body) != "<h1>Bad gateway</h1>" || g.header.Get("Content-Type") != "text/html" {
			t.Fatalf("%d %s", g.status, g.body)
		}
		if g = w.do("POST", "/v1/messages", ask("k1")); g.status != 200 || len(g.body) != 0 {
			t.Fatalf("%d %q", g.status, g.body)
		}
		hub.RequireMessages(t, 0)
		w.submit(ask("k1"))
	})
}

// req: FH-15 PUL-05
func TestAPullIsAnsweredWithNoNewsAsScripted(t *testing.T) {
	overBoth(t, func(t *testing.T, hub *Hub, w *wire) {
		id := w.submit(ask("k1"))
		hub.Fault(NotModified(1), NoContent(1), EarlyReturn(1))
		path := "/v1/messages/" + id + "?wait=60"
		for _, want := range []int{304, 204} {
			if g := w.do("GET", path, ""); g.status != want || len(g.body) != 0 {
				t.Fatalf("%d %q", g.status, g.body)
			}
		}
		if v := w.do("GET", path, "").view(t); v.Status != types.StatusOpen {
			t.Fatal(v.Status)
		}
		if r := hub.Requests()[3]; r.Fault != "EarlyReturn" || r.Status != 200 {
			t.Fatalf("%+v", r)
		}
	})
}

// req: FH-15 PUL-04
func TestAHangEndsWithTheCaller(t *testing.T) {
	overBoth(t, func(t *testing.T, hub *Hub, w *wire) {
		hub.Fault(Hang(1))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.try(ctx, "POST", "/v1/messages", ask("k1")); !isError(err, context.Canceled) {
				t.Error(err)
			}
		})
		if err := hub.AwaitRequests(t.Context(), Submit, 1); err != nil {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()
		hub.RequireMessages(t, 0)
		w.submit(ask("k1"))
	})
}

// req: FH-15
func TestADelayTakesTheHubsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		hub.Fault(Delay(2, time.Hour))
		began := time.Now()
		w.submit(ask("k1"))
		if took := time.Since(began); took != time.Hour {
			t.Fatal(took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.try(ctx, "POST", "/v1/messages", ask("k2")); !isError(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		synctest.Wait()
		hub.RequireMessages(t, 1)
	})
}

// req: FH-15 DISC-14
func TestARedirectPointsElsewhere(t *testing.T) {
	overBoth(t, func(t *testing.T, hub *Hub, w *wire) {
		hub.Fault(Redirect(1, "https://evil.example/steal"))
		careful := *w
		careful.http = &http.Client{Transport: w.http.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		g := careful.do("POST", "/v1/messages", ask("k1"))
		if g.status != http.StatusTemporaryRedirect || g.header.Get("Location") != "https://evil.example/steal" {
			t.Fatalf("%d %s", g.status, g.header.Get("Location"))
		}
		hub.RequireMessages(t, 0)
		hub.RequireRequests(t, "", 1)
	})
}

func TestAFollowedRedirectIsSeenWithItsHost(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	hub.Fault(Redirect(1, "https://evil.example/steal"))
	w.do("POST", "/v1/messages", ask("k1")).wantError(t, http.StatusNotFound, types.CodeNotFound)
	if r := hub.Requests()[1]; r.Host != "evil.example" || r.Path != "/steal" {
		t.Fatalf("%+v", r)
	}
}

func TestAFaultStrikesItsEndpointAfterSomeAndAsOftenAsSaid(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	pulls := func() (statuses []int) {
		for range 5 {
			statuses = append(statuses, w.do("GET", "/v1/messages/"+id, "").status)
		}
		return statuses
	}
	hub.Fault(Status(503, 2).On(Pull).After(1))
	w.submit(ask("k1"))
	if got := pulls(); !slices.Equal(got, []int{200, 503, 503, 200, 200}) {
		t.Error(got)
	}
	hub.Fault(Status(500, 1).On(Pull), Status(502, 1).On(Pull))
	if got := pulls(); !slices.Equal(got, []int{500, 502, 200, 200, 200}) {
		t.Error(got)
	}
	hub.Fault(Status(500, 0).On(""))
	if got := pulls(); !slices.Equal(got, []int{500, 500, 500, 500, 500}) {
		t.Error(got)
	}
	if g := w.do("GET", "/.well-known/ma2h", ""); g.status != 500 {
		t.Error(g.status)
	}
	hub.Heal()
	if got := pulls(); !slices.Equal(got, []int{200, 200, 200, 200, 200}) {
		t.Error(got)
	}
}

// req: FH-15 SUB-06
func TestTwoThousandRandomSubmitsEndInOneMessageEach(t *testing.T) {
	attempts := func(seed uint64, submits int) (attempts int) {
		hub := NewHub(t, Options{Start: start})
		w := memory(t, hub)
		hub.Fault(RandomFaults(seed, 4,
			Chance{2, LoseAck(1)}, Chance{1, ResetBefore(1)}, Chance{1, ResetAfter(1)}, Chance{1, TornBody(1, 5)},
			Chance{1, CorruptJSON(1)}, Chance{1, Status(503, 1)}, Chance{1, Status(429, 1, RetryAfter("1"))}, Chance{0, Hang(1)}))
		for i := range submits {
			key := stamp(start.Add(time.Duration(i) * time.Second))
			for {
				attempts++
				g, err := w.try(t.Context(), "POST", "/v1/messages", ask(key))
				var ack types.SubmitAck
				if err == nil && g.status == http.StatusAccepted && types.Decode(g.body, &ack) == nil {
					break
				}
			}
		}
		hub.RequireMessages(t, submits)
		return attempts
	}
	if n := attempts(1, 2000); n <= 2000 {
		t.Fatalf("%d attempts", n)
	}
	if one, again, other := attempts(2, 200), attempts(2, 200), attempts(3, 200); one != again || one == other {
		t.Fatalf("attempts %d and %d of one seed, %d of another", one, again, other)
	}
}

func TestRandomFaultsOfNothingStrikeNothing(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	hub.Fault(RandomFaults(1, 0), RandomFaults(1, -1, Chance{-1, ResetBefore(1)}))
	for range 10 {
		w.submit(notify(""))
	}
}
