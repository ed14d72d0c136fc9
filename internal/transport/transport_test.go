package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/transport"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// script answers the attempts in order, the last one for ever, and keeps what
// it was sent.
type script struct {
	steps  []roundTrip
	bodies []string
	open   int // bodies of answers that nobody closed
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		body = string(b)
	}
	step := s.steps[min(len(s.bodies), len(s.steps)-1)]
	s.bodies = append(s.bodies, body)
	resp, err := step(r)
	if resp != nil && resp.Body != nil {
		s.open++
		resp.Body = &counted{resp.Body, s, false}
	}
	return resp, err
}

type counted struct {
	io.ReadCloser
	s      *script
	closed bool
}

func (c *counted) Close() error {
	if !c.closed {
		c.closed = true
		c.s.open--
	}
	return c.ReadCloser.Close()
}

func status(code int, header ...string) roundTrip { return answer(code, "{}", header...) }

func answer(code int, body string, header ...string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i+1 < len(header); i += 2 {
			h.Add(header[i], header[i+1])
		}
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r, ContentLength: -1}, nil
	}
}

func fail(err error) roundTrip {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func torn(code int) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		body := io.MultiReader(strings.NewReader(`{"id":`), errReader{io.ErrUnexpectedEOF})
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(body), Request: r}, nil
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

var (
	reset   = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	refused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	noProxy = &net.OpError{Op: "proxyconnect", Net: "tcp", Err: refused}
)

func newTransport(s *script) *transport.Transport {
	return &transport.Transport{
		HTTP: transport.Prepare(&http.Client{Transport: s}), Now: time.Now,
		Rand: func() float64 { return 0.5 }, Log: slog.New(slog.DiscardHandler), Backoff: backoff,
	}
}

func post() transport.Call {
	return transport.Call{Op: "test", Method: http.MethodPost, URL: "https://hub.test/x", Body: []byte(`{"k":1}`), Timeout: 30 * time.Second}
}

// report: B009 B010 B015 B016
// req: SUB-13 SUB-14 ERR-06
func TestACallIsSentAgainWhereItMayBe(t *testing.T) {
	tests := []struct {
		name      string
		step      roundTrip
		again     bool // with a key
		onceAgain bool // without
	}{
		{"200", status(200), false, false},
		{"202", status(202), false, false},
		{"304", status(304), false, false},
		{"307", status(307, "Location", "https://evil.test/"), false, false},
		{"400", status(400), false, false},
		{"401", status(401), false, false},
		{"403", status(403), false, false},
		{"404", status(404), false, false},
		{"409", status(409), false, false},
		{"410", status(410), false, false},
		{"422", status(422), false, false},
		{"501", status(501), false, false},
		{"408", status(408), true, false},
		{"425", status(425), true, true},
		{"429", status(429), true, true},
		{"500", status(500), true, false},
		{"502", status(502), true, false},
		{"503", status(503), true, false},
		{"504", status(504), true, false},
		{"599", status(599), true, false},
		{"a reset", fail(reset), true, false},
		{"a refused dial", fail(refused), true, true},
		{"a dead proxy", fail(noProxy), true, true},
		{"an end in mid-header", fail(io.ErrUnexpectedEOF), true, false},
		{"a torn 202", torn(202), true, false},
		{"a torn 429", torn(429), true, false},
		{"no answer", hang, true, false},
		{"a bad certificate", fail(&tls.CertificateVerificationError{Err: errors.New("x")}), false, false},
		{"a TLS alert of no TLS", fail(tls.RecordHeaderError{Msg: "x"}), false, false},
		{"plain http", fail(http.ErrSchemeMismatch), false, false},
	}
	for _, tt := range tests {
		for _, once := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &script{steps: []roundTrip{tt.step, status(202)}}
				call := post()
				call.Once = once
				_, err := newTransport(s).Do(t.Context(), call)
				again := tt.again
				if once {
					again = tt.onceAgain
				}
				if got := len(s.bodies) == 2; got != again || len(s.bodies) > 2 {
					t.Errorf("%s, once %v: %d attempts (%v)", tt.name, once, len(s.bodies), err)
				}
				for _, b := range s.bodies {
					if b != `{"k":1}` {
						t.Errorf("%s: an attempt carried %q", tt.name, b)
					}
				}
				if again && err != nil {
					t.Errorf("%s, once %v: %v", tt.name, once, err)
				}
				if s.open != 0 {
					t.Errorf("%s, once %v: %d bodies are open", tt.name, once, s.open)
				}
			})
		}
	}
}

// req: SUB-14
func TestAFailureSaysWhetherAnAttemptMayHaveBeenTaken(t *testing.T) {
	tests := []struct {
		name      string
		steps     []roundTrip
		ambiguous bool
		status    int
		attempts  int
	}{
		{"nothing but refused dials", []roundTrip{fail(refused)}, false, 0, 2},
		{"nothing but 429", []roundTrip{status(429)}, false, 429, 2},
		{"nothing but 425", []roundTrip{status(425)}, false, 425, 2},
		{"a reset, then refused dials", []roundTrip{fail(reset), fail(refused)}, true, 0, 2},
		{"503", []roundTrip{status(503)}, true, 503, 2},
		{"408", []roundTrip{status(408)}, true, 408, 2},
		{"503, then resets", []roundTrip{status(503), fail(reset)}, true, 503, 2},
		{"a reset, then 401", []roundTrip{fail(reset), status(401)}, true, 401, 2},
		{"a reset, then a bad certificate", []roundTrip{fail(reset), fail(http.ErrSchemeMismatch)}, true, 0, 2},
		{"a bad certificate", []roundTrip{fail(http.ErrSchemeMismatch)}, false, 0, 1},
		{"too large", []roundTrip{answer(202, strings.Repeat(" ", limits.MaxResponseBody+1))}, true, 0, 1},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			// The second delay, at least 0.5 s after 0.75 s, does not fit.
			ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
			defer cancel()
			s := &script{steps: tt.steps}
			reply, err := newTransport(s).Do(ctx, post())
			f, ok := errors.AsType[*transport.Failure](err)
			if !ok {
				t.Fatalf("%s: %v", tt.name, err)
			}
			got := 0
			if reply != nil {
				got = reply.Status
			}
			if f.Ambiguous != tt.ambiguous || f.Attempts != tt.attempts || got != tt.status {
				t.Errorf("%s: ambiguous %v, %d attempts, status %d: %v", tt.name, f.Ambiguous, f.Attempts, got, err)
			}
			if s.open != 0 {
				t.Errorf("%s: %d bodies are open", tt.name, s.open)
			}
		})
	}
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("shutting down")
	cancel(why)
	s := &script{steps: []roundTrip{status(202)}}
	_, err := newTransport(s).Do(ctx, post())
	f, ok := errors.AsType[*transport.Failure](err)
	if !ok || f.Ambiguous || len(s.bodies) != 0 {
		t.Fatalf("%d attempts: %v", len(s.bodies), err)
	}
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Fatalf("%v", err)
	}
}

func TestACancelledAttemptIsAmbiguousAndCarriesTheCause(t *testing.T) {
	for _, once := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			why := errors.New("shutting down")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(why) })
			call := post()
			call.Once = once
			tr := newTransport(&script{steps: []roundTrip{hang}})
			tr.Log = slog.New(hook(func() { t.Error("says that it will send again") }))
			_, err := tr.Do(ctx, call)
			f, ok := errors.AsType[*transport.Failure](err)
			if !ok || !f.Ambiguous || !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
				t.Fatalf("%v", err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		dialing := func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, refused
		}
		_, err := newTransport(&script{steps: []roundTrip{fail(reset), dialing}}).Do(ctx, post())
		if f, ok := errors.AsType[*transport.Failure](err); !ok || !f.Ambiguous {
			t.Errorf("a dial that ended forgets the doubt of before: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		_, err = newTransport(&script{steps: []roundTrip{dialing}}).Do(ctx, post())
		if f, ok := errors.AsType[*transport.Failure](err); !ok || f.Ambiguous {
			t.Errorf("a dial alone is no doubt: %v", err)
		}
	})
}

func TestAFailureReadsAsOneSentence(t *testing.T) {
	for _, tt := range []struct {
		steps []roundTrip
		want  string
	}{
		{[]roundTrip{status(503)}, "after 1 attempts, the last answered 503: the next attempt does not fit: context deadline exceeded"},
		{[]roundTrip{fail(refused)}, `after 1 attempts: the next attempt does not fit: context deadline exceeded: Post "https://hub.test/x": dial tcp: connect: connection refused`},
		{[]roundTrip{fail(http.ErrSchemeMismatch)}, `after 1 attempts: Post "https://hub.test/x": ` + http.ErrSchemeMismatch.Error()},
		{[]roundTrip{answer(202, "broken")}, "after 1 attempts, the last answered 202: the next attempt does not fit: context deadline exceeded: the answer is not whole"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			call := post()
			call.Broken = func(r *transport.Reply) bool { return string(r.Body) == "broken" }
			if _, err := newTransport(&script{steps: tt.steps}).Do(ctx, call); err == nil || err.Error() != tt.want {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newTransport(&script{steps: []roundTrip{status(202)}}).Do(ctx, post()); err == nil || err.Error() != "after 0 attempts: context canceled" {
		t.Error(err)
	}
}

func TestACallThatIsNoRequestIsAnError(t *testing.T) {
	s := &script{steps: []roundTrip{status(202)}}
	for _, edit := range []func(*transport.Call){func(c *transport.Call) { c.URL = "://" }, func(c *transport.Call) { c.Method = "A B" }} {
		call := post()
		edit(&call)
		if _, err := newTransport(s).Do(t.Context(), call); err == nil {
			t.Error("Do took it")
		}
		if _, err := newTransport(s).Once(t.Context(), call); err == nil {
			t.Error("Once took it")
		}
	}
	if len(s.bodies) != 0 {
		t.Errorf("%d attempts", len(s.bodies))
	}
}

func TestAClientWithoutATransportUsesTheDefault(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer server.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	tr := newTransport(nil)
	tr.HTTP = transport.Prepare(&http.Client{})
	call := post()
	call.URL = server.URL
	if reply, err := tr.Once(t.Context(), call); err != nil || reply.Status != http.StatusTeapot {
		t.Errorf("%v %v", reply, err)
	}
}

func TestAnAnswerThatIsWholeWhenTheTimeIsOverCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			return status(202)(r)
		}
		if reply, err := newTransport(&script{steps: []roundTrip{late}}).Once(t.Context(), post()); err != nil || reply.Status != 202 {
			t.Errorf("%v %v", reply, err)
		}
	})
}

func TestATornAnswerIsNoSilence(t *testing.T) {
	_, err := newTransport(&script{steps: []roundTrip{torn(200)}}).Once(t.Context(), post())
	if !errors.Is(err, io.ErrUnexpectedEOF) || transport.TimedOut(err) {
		t.Error(err)
	}
}

// report: B031
func TestACancelEndsThePauseBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tr := newTransport(&script{steps: []roundTrip{status(503)}})
		tr.Log = slog.New(hook(func() { cancel() }))
		begin := time.Now()
		_, err := tr.Do(ctx, post())
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if d := time.Since(begin); d != 0 {
			t.Fatalf("slept %s through a cancel", d)
		}
	})
}

// hook is a log handler that calls a function for each record.
type hook func()

func (hook) Enabled(context.Context, slog.Level) bool    { return true }
func (h hook) Handle(context.Context, slog.Record) error { h(); return nil }
func (h hook) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h hook) WithGroup(string) slog.Handler             { return h }

// req: TEL-06
func TestALogOfAResendHoldsCodesAndTimesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tr := newTransport(&script{steps: []roundTrip{status(503), fail(reset), status(202)}})
		tr.Log = slog.New(slog.NewTextHandler(&out, nil))
		if _, err := tr.Do(t.Context(), post()); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "op=test attempt=1 status=503 delay=750ms") || !strings.HasSuffix(lines[1], "op=test attempt=2 status=0 delay=1s") {
			t.Errorf("%s", out.String())
		}
	})
}

// report: B007
func TestAPauseThatDoesNotFitEndsTheCallAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		begin := time.Now()
		reply, err := newTransport(&script{steps: []roundTrip{status(503)}}).Do(ctx, post())
		if time.Since(begin) != 0 {
			t.Fatalf("took %s", time.Since(begin))
		}
		if !errors.Is(err, context.DeadlineExceeded) || reply == nil || reply.Status != 503 {
			t.Fatalf("%v %v", reply, err)
		}
	})
}

// report: B001 B003
func TestAnAskedDelayIsKeptToTheSecond(t *testing.T) {
	for _, code := range []int{408, 425, 429, 503} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			_, err := newTransport(&script{steps: []roundTrip{status(code, "Retry-After", "3600"), status(202)}}).Do(t.Context(), post())
			if d := time.Since(begin); err != nil || d < time.Hour || d > time.Hour+time.Second {
				t.Fatalf("%d: after %s: %v", code, d, err)
			}
		})
	}
}

// report: B021
func TestACallIsNotSentAgainOnceTheHubMayHaveForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := post()
		call.Remembered = 24 * time.Hour
		s := &script{steps: []roundTrip{fail(reset), fail(refused)}}
		begin := time.Now()
		_, err := newTransport(s).Do(t.Context(), call)
		f, ok := errors.AsType[*transport.Failure](err)
		if !ok || !f.Ambiguous || !errors.Is(err, transport.ErrForgotten) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > 24*time.Hour || d < 24*time.Hour-time.Minute {
			t.Fatalf("gave up after %s", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// Nothing that the Hub could know: it may go on.
		call := post()
		call.Remembered = 24 * time.Hour
		begin := time.Now()
		step := func(r *http.Request) (*http.Response, error) {
			if time.Since(begin) < 72*time.Hour {
				return nil, refused
			}
			return status(202)(r)
		}
		if _, err := newTransport(&script{steps: []roundTrip{step}}).Do(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	})
}

// report: B009
func TestABrokenSuccessIsALostAnswerButNotForEver(t *testing.T) {
	broken := func(r *transport.Reply) bool { return string(r.Body) == "broken" }
	synctest.Test(t, func(t *testing.T) {
		call := post()
		call.Broken = broken
		s := &script{steps: []roundTrip{answer(202, "broken"), answer(202, "broken"), answer(202, "whole")}}
		reply, err := newTransport(s).Do(t.Context(), call)
		if err != nil || string(reply.Body) != "whole" || reply.Attempts != 3 || s.open != 0 {
			t.Fatalf("%+v %v", reply, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		call := post()
		call.Broken = broken
		s := &script{steps: []roundTrip{answer(202, "broken")}}
		reply, err := newTransport(s).Do(t.Context(), call)
		if err != nil || string(reply.Body) != "broken" || len(s.bodies) != 3 || s.open != 0 {
			t.Fatalf("%d attempts: %+v %v", len(s.bodies), reply, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// A refusal is not looked at, nor is a call without the rule.
		call := post()
		call.Broken = broken
		for _, c := range []transport.Call{post(), call} {
			code := 202
			if c.Broken != nil {
				code = 422
			}
			s := &script{steps: []roundTrip{answer(code, "broken")}}
			if reply, err := newTransport(s).Do(t.Context(), c); err != nil || reply.Attempts != 1 {
				t.Fatalf("%+v %v", reply, err)
			}
		}
	})
}

// report: B006
func TestARoundTripperThatWrapsTheBodyIsSentAllOfItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []roundTrip{status(503), status(202)}}
		var seen bytes.Buffer
		tr := newTransport(s)
		tr.HTTP = transport.Prepare(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.GetBody = nil
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &seen), r.Body}
			return s.RoundTrip(r)
		})})
		if _, err := tr.Do(t.Context(), post()); err != nil {
			t.Fatal(err)
		}
		if seen.String() != `{"k":1}{"k":1}` {
			t.Fatalf("saw %q", seen.String())
		}
	})
}

func TestAnAnswerIsReadUpToItsBound(t *testing.T) {
	for size, want := range map[int]error{limits.MaxResponseBody: nil, limits.MaxResponseBody + 1: transport.ErrTooLarge} {
		s := &script{steps: []roundTrip{answer(200, strings.Repeat("x", size))}}
		reply, err := newTransport(s).Once(t.Context(), post())
		if !errors.Is(err, want) || want == nil && (len(reply.Body) != size || reply.Attempts != 1) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if s.open != 0 {
			t.Errorf("%d bytes: %d bodies are open", size, s.open)
		}
	}
}

func TestAnAttemptEndsAtItsTimeWhereverItHangs(t *testing.T) {
	stuck := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(ctxReader{r.Context()})}, nil
	}
	for name, step := range map[string]roundTrip{"no header": hang, "no body": stuck} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			s := &script{steps: []roundTrip{step}}
			call := post()
			call.Timeout = 7 * time.Second
			_, err := newTransport(s).Once(t.Context(), call)
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() || time.Since(begin) != 7*time.Second {
				t.Errorf("%s: after %s: %v", name, time.Since(begin), err)
			}
			if s.open != 0 {
				t.Errorf("%s: %d bodies are open", name, s.open)
			}
		})
	}
}

type ctxReader struct{ ctx context.Context }

func (r ctxReader) Read([]byte) (int, error) {
	<-r.ctx.Done()
	return 0, r.ctx.Err()
}

func TestARoundTripperThatBreaksItsContractDoesNotPanic(t *testing.T) {
	for name, step := range map[string]roundTrip{
		"nothing":      func(*http.Request) (*http.Response, error) { return nil, nil },
		"without body": func(r *http.Request) (*http.Response, error) { return &http.Response{StatusCode: 200, Request: r}, nil },
	} {
		reply, err := newTransport(&script{steps: []roundTrip{step}}).Once(t.Context(), post())
		if (err == nil) == (reply == nil) {
			t.Errorf("%s: %v %v", name, reply, err)
		}
	}
}

// report: B028
func TestTheRequestAfterASilenceAsksForItsConnectionToBeItsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last []bool
		note := func(step roundTrip) roundTrip {
			return func(r *http.Request) (*http.Response, error) {
				last = append(last, r.Close)
				return step(r)
			}
		}
		s := &script{steps: []roundTrip{note(status(503)), note(fail(reset)), note(hang), note(status(503)), note(status(202))}}
		if _, err := newTransport(s).Do(t.Context(), post()); err != nil {
			t.Fatal(err)
		}
		if want := []bool{false, false, false, true, false}; !slices.Equal(last, want) {
			t.Errorf("%v, want %v", last, want)
		}
	})
}

// report: B012
// req: DISC-14
func TestARedirectIsHandedBackAndNotFollowed(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := &script{steps: []roundTrip{status(code, "Location", "https://evil.test/")}}
		tr := newTransport(s)
		reply, err := tr.Do(t.Context(), post())
		if err != nil || reply.Status != code || len(s.bodies) != 1 {
			t.Errorf("%d: %d attempts, %v", code, len(s.bodies), err)
		}
	}
}

// idler counts how often its idle connections were closed.
type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

func TestAFailingCallLeavesTheCallersClientAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &idler{RoundTripper: &script{steps: []roundTrip{status(503)}}}
		own := &http.Client{Transport: base, Timeout: time.Minute}
		tr := newTransport(nil)
		tr.HTTP = transport.Prepare(own)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tr.Do(ctx, post()); err == nil {
			t.Fatal("no error")
		}
		if base.closed != 0 {
			t.Error("the idle connections of a shared client were closed")
		}
		if own.Transport != http.RoundTripper(base) || own.CheckRedirect != nil || own.Timeout != time.Minute || own.Jar != nil {
			t.Error("the caller's client was changed")
		}
	})
}
