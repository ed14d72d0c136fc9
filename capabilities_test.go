package ma2h_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

const accepted = `{"id":"msg_1","status":"open","poll_url":"https://hub.test/v1/messages/msg_1"}`

// discovery is a Hub whose document is what doc returns; it accepts asks.
type discovery struct {
	mu    sync.Mutex
	doc   func(n int) *http.Response
	docs  int
	posts int
}

func (d *discovery) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	d.mu.Lock()
	if !strings.HasSuffix(r.URL.Path, "/.well-known/ma2h") {
		d.posts++
		d.mu.Unlock()
		return canned(202, accepted), nil
	}
	d.docs++
	n := d.docs
	d.mu.Unlock()
	resp := d.doc(n)
	if resp == nil {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return resp, nil
}

func (d *discovery) counts() (docs, posts int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.docs, d.posts
}

const fullDoc = `{"ma2h_version":"0.4","max_body_bytes":65536,"max_part_bytes":262144,"max_context_parts":16,"auth_schemes":["bearer","x"],` +
	`"callback_auth_schemes":["hmac"],"signature_algs":["hmac-sha256","later"],"rate_limit":{"requests_per_minute":60,"inbox_depth":10,"later":1},` +
	`"retention_days":30,"replay_window_seconds":120,"inbound":{"enabled":true,"signature_algs":["ed25519"]},"ack":{"enabled":true,"signature_algs":["ed25519"]},` +
	`"presence":{"enabled":true,"freshness_seconds":90},"sessions":{"enabled":true},"later":[{"a":null}]}`

func TestManyFirstUsersFetchTheDocumentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &discovery{doc: func(int) *http.Response { time.Sleep(time.Second); return canned(200, fullDoc) }}
		c := connect(t, over(d))
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				var err error
				if i%2 == 0 {
					_, err = c.Capabilities(t.Context())
				} else {
					_, err = c.Ask(t.Context(), shipOrHold("k"))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if docs, posts := d.counts(); docs != 1 || posts != 50 {
			t.Errorf("%d fetches, %d submits", docs, posts)
		}
	})
}

func TestTheDocumentIsKeptTenMinutesAndThenFetchedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &discovery{doc: func(n int) *http.Response {
			if n == 1 {
				return canned(200, fullDoc)
			}
			return canned(200, `{"ma2h_version":"0.4"}`)
		}}
		c := connect(t, over(d))
		step := func(sleep time.Duration, docs int, acks bool) {
			t.Helper()
			time.Sleep(sleep)
			caps, err := c.Capabilities(t.Context())
			mustNot(t, err)
			if got, _ := d.counts(); got != docs || caps.OffersAck() != acks {
				t.Errorf("%d fetches, want %d", got, docs)
			}
		}
		step(0, 1, true)
		step(10*time.Minute-1, 1, true)
		step(1, 2, false)
		step(9*time.Minute, 2, false)
	})
}

func TestAStaleDocumentIsBetterThanNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &discovery{doc: func(n int) *http.Response {
			if n == 1 {
				return canned(200, fullDoc)
			}
			return canned(503, "")
		}}
		c := connect(t, over(d))
		_, err := c.Capabilities(t.Context())
		mustNot(t, err)
		time.Sleep(time.Hour)
		begin := time.Now()
		caps, err := c.Capabilities(t.Context())
		mustNot(t, err)
		if !caps.OffersAck() || time.Since(begin) > 5*time.Second {
			t.Errorf("%v after %s", caps, time.Since(begin))
		}
		before, _ := d.counts()
		// Not again soon after a failure.
		begin = time.Now()
		for range 5 {
			if _, err := c.Capabilities(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := c.Ask(t.Context(), shipOrHold("k"))
			mustNot(t, err)
		}
		if after, _ := d.counts(); after != before || time.Since(begin) != 0 {
			t.Errorf("%d more fetches in %s", after-before, time.Since(begin))
		}
		time.Sleep(30 * time.Second)
		_, err = c.Capabilities(t.Context())
		mustNot(t, err)
		if after, _ := d.counts(); after == before {
			t.Error("not asked again after a while")
		}
	})
}

// req: DISC-01
func TestAHubThatDoesNotSayStillGetsTheMessage(t *testing.T) {
	for name, doc := range map[string]func(int) *http.Response{
		"404":                func(int) *http.Response { return canned(404, "") },
		"503":                func(int) *http.Response { return canned(503, "") },
		"no answer":          func(int) *http.Response { return nil },
		"a page":             func(int) *http.Response { return canned(200, "<html>", "Content-Type", "text/html") },
		"no version":         func(int) *http.Response { return canned(200, `{}`) },
		"a bad version":      func(int) *http.Response { return canned(200, `{"ma2h_version":"0.03"}`) },
		"another major":      func(int) *http.Response { return canned(200, `{"ma2h_version":"1.0"}`) },
		"a limit of nothing": func(int) *http.Response { return canned(200, `{"ma2h_version":"0.4","max_body_bytes":0}`) },
		"a limit of text":    func(int) *http.Response { return canned(200, `{"ma2h_version":"0.4","max_body_bytes":"1"}`) },
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &discovery{doc: doc}
			c := connect(t, over(d))
			begin := time.Now()
			_, err := c.Ask(t.Context(), shipOrHold("k"))
			mustNot(t, err)
			if time.Since(begin) > 5*time.Second {
				t.Errorf("%s: held up for %s", name, time.Since(begin))
			}
			before, _ := d.counts()
			_, err = c.Ask(t.Context(), shipOrHold("k"))
			mustNot(t, err)
			if after, posts := d.counts(); after != before || posts != 2 {
				t.Errorf("%s: asked again at once: %d, %d", name, before, after)
			}
			// What needs the document says so, and does nothing else.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, call := range []func() error{
				func() error { _, err := c.Acknowledge(ctx, "msg_1", ""); return err },
				func() error { _, err := c.Presence(ctx, "a"); return err },
				func() error { _, err := c.Capabilities(ctx); return err },
			} {
				err := call()
				if err == nil || errors.Is(err, ma2h.ErrUnsupported) || !strings.Contains(err.Error(), "discover") && !errors.Is(err, ma2h.ErrProtocol) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, posts := d.counts(); posts != 2 {
				t.Errorf("%s: %d other requests", name, posts)
			}
		})
	}
}

func TestASubmitDoesNotWaitForACallerWhoHasAllDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, over(&discovery{doc: func(int) *http.Response { return canned(503, "") }}))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Capabilities(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		for i, most := range []time.Duration{5 * time.Second, 0} {
			begin := time.Now()
			if _, err := c.Ask(t.Context(), shipOrHold("k")); err != nil || time.Since(begin) > most {
				t.Errorf("submit %d: after %s: %v", i, time.Since(begin), err)
			}
		}
		// One that ends does not end what others wait for.
		time.Sleep(time.Minute)
		wg.Go(func() {
			later, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			if _, err := c.Capabilities(later); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
	})
}

func TestAClockThatStandsAtZeroIsAClock(t *testing.T) {
	d := &discovery{doc: func(int) *http.Response { return canned(200, fullDoc) }}
	c := connect(t, over(d), func(cfg *ma2h.Config) { cfg.Now = func() time.Time { return time.Time{} } })
	if caps, err := c.Capabilities(t.Context()); err != nil || !caps.OffersAck() {
		t.Errorf("%v %v", caps, err)
	}
	c = connect(t, over(d), func(cfg *ma2h.Config) { cfg.Now = func() time.Time { return time.Time{}.Add(time.Second) } })
	if _, err := c.Ask(t.Context(), shipOrHold("k")); err != nil {
		t.Error(err)
	}
	if docs, _ := d.counts(); docs != 2 {
		t.Errorf("%d fetches", docs)
	}
}

func TestAFetchThatPanicsDoesNotLockOutTheOthers(t *testing.T) {
	var calls atomic.Int64
	c := connect(t, over(roundTrip(func(*http.Request) (*http.Response, error) {
		if calls.Add(1) == 1 {
			panic("of the caller's RoundTripper")
		}
		return canned(200, fullDoc), nil
	})))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = c.Capabilities(t.Context())
	}()
	if _, err := c.Capabilities(t.Context()); err != nil {
		t.Error(err)
	}
}

// req: DISC-02 DISC-03 DISC-04
func TestADocumentIsTheCallersOwnCopy(t *testing.T) {
	c := connect(t, over(&discovery{doc: func(int) *http.Response { return canned(200, fullDoc) }}))
	first, err := c.Capabilities(t.Context())
	mustNot(t, err)
	scribble(reflect.ValueOf(first).Elem())
	second, err := c.Capabilities(t.Context())
	mustNot(t, err)
	if second.MaxBodyBytes != 65536 || *second.MaxContextParts != 16 || second.AuthSchemes[0] != "bearer" || second.CallbackAuthSchemes[0] != "hmac" ||
		second.SignatureAlgs[0] != "hmac-sha256" || second.RateLimit.RequestsPerMinute != 60 || !second.OffersInbound() || second.Inbound.SignatureAlgs[0] != "ed25519" ||
		!second.OffersAck() || second.Ack.SignatureAlgs[0] != "ed25519" || !second.OffersPresence() || second.Presence.FreshnessSeconds != 90 {
		t.Errorf("%+v", *second)
	}
	c = connect(t, over(&discovery{doc: func(int) *http.Response { return canned(200, `{"ma2h_version":"0.3"}`) }}))
	least, err := c.Capabilities(t.Context())
	mustNot(t, err)
	if least.OffersAck() || least.OffersInbound() || least.OffersPresence() || least.RateLimit != nil || least.MaxContextParts != nil {
		t.Errorf("%+v", *least)
	}
}

// scribble zeroes whatever can be reached from v, in place.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scribble(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	default:
		v.SetZero()
	}
}

// req: DISC-05 VER-05 VER-06 CB-07 VER-04 ENV-03
func TestWhatTheHubDoesNotOfferIsRefusedWithoutARequest(t *testing.T) {
	push := shipOrHold("k")
	push.Callback = ma2h.PushTo("https://bot.example/ma2h")
	bearer := shipOrHold("k")
	bearer.Callback = ma2h.PushTo("https://bot.example/ma2h")
	bearer.Callback.Auth = &ma2h.CallbackAuth{Scheme: types.AuthBearer, TokenRef: "env:T"}
	pull := shipOrHold("k")
	pull.Callback = &ma2h.Callback{Mode: types.CallbackPull}
	ask := func(a ma2h.Ask) func(context.Context, *ma2h.Client) error {
		return func(ctx context.Context, c *ma2h.Client) error { _, err := c.Ask(ctx, a); return err }
	}
	ackCall := func(ctx context.Context, c *ma2h.Client) error { _, err := c.Acknowledge(ctx, "msg_1", ""); return err }
	presence := func(ctx context.Context, c *ma2h.Client) error { _, err := c.Presence(ctx, "a"); return err }
	for _, tt := range []struct {
		name  string
		doc   string
		call  func(context.Context, *ma2h.Client) error
		taken bool
	}{
		{"an ack of 0.3", `{"ma2h_version":"0.3"}`, ackCall, false},
		{"an ack that is off", `{"ma2h_version":"0.4","ack":{"enabled":false}}`, ackCall, false},
		{"presence of 0.3", `{"ma2h_version":"0.3"}`, presence, false},
		{"presence that is off", `{"ma2h_version":"0.4","presence":{"enabled":false}}`, presence, false},
		{"a push of 0.2", `{"ma2h_version":"0.2"}`, ask(push), false},
		{"a push of 0.3", `{"ma2h_version":"0.3"}`, ask(push), true},
		{"a push of a later minor", `{"ma2h_version":"0.9"}`, ask(push), true},
		{"a pull of 0.2", `{"ma2h_version":"0.2"}`, ask(pull), true},
		{"a scheme that is not offered", `{"ma2h_version":"0.4","callback_auth_schemes":["hmac","later"]}`, ask(bearer), false},
		{"a scheme that is offered", `{"ma2h_version":"0.4","callback_auth_schemes":["hmac","bearer"]}`, ask(bearer), true},
		{"schemes unsaid", `{"ma2h_version":"0.4"}`, ask(bearer), true},
		{"a push without auth", `{"ma2h_version":"0.4","callback_auth_schemes":["hmac"]}`, ask(push), true},
	} {
		d := &discovery{doc: func(int) *http.Response { return canned(200, tt.doc) }}
		err := tt.call(t.Context(), connect(t, over(d)))
		if errors.Is(err, ma2h.ErrUnsupported) == tt.taken || tt.taken && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, posts := d.counts(); (posts == 1) != tt.taken {
			t.Errorf("%s: %d requests", tt.name, posts)
		}
	}
}

// req: ENV-03 VER-06
func TestAMessageIsStampedWithTheLowestMinorThatTheHubTakes(t *testing.T) {
	for doc, want := range map[string]string{`"0.0"`: "0.2", `"0.1"`: "0.2", `"0.2"`: "0.2", `"0.3"`: "0.3", `"0.4"`: "0.3", `"0.5"`: "0.3", `"0.31"`: "0.3", `"9"`: "0.3"} {
		var sent string
		c := connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return canned(200, `{"ma2h_version":`+doc+`}`), nil
			}
			var m types.Message
			body := new(strings.Builder)
			if _, err := copyBody(body, r); err != nil {
				return nil, err
			}
			if err := types.Decode([]byte(body.String()), &m); err != nil {
				return nil, err
			}
			sent = m.Version
			return canned(202, accepted), nil
		})))
		if _, err := c.Ask(t.Context(), shipOrHold("k")); err != nil || sent != want {
			t.Errorf("to a Hub of %s: %q, %v", doc, sent, err)
		}
	}
}

// req: DISC-15 RL-04 ENV-09 AMB-18
func TestALimitIsHeldAtItsValueAndRefusedOnePast(t *testing.T) {
	caps := func(edit func(*types.Capability)) ma2htest.Options { return ma2htest.Options{Capability: edit} }
	overhead := len(`{"kind":"text","text":""}`)
	none := int64(0)
	two := int64(2)
	for _, tt := range []struct {
		name  string
		opts  ma2htest.Options
		edit  func(*ma2h.Notify)
		field string // "": taken
	}{
		{"a body at", caps(func(c *types.Capability) { c.MaxBodyBytes = 10 }), func(n *ma2h.Notify) { n.Body = strings.Repeat("é", 5) }, ""},
		{"a body past", caps(func(c *types.Capability) { c.MaxBodyBytes = 10 }), func(n *ma2h.Notify) { n.Body = strings.Repeat("é", 5) + "x" }, "body"},
		{"parts at", caps(func(c *types.Capability) { c.MaxContextParts = &two }), func(n *ma2h.Notify) { n.Context = []ma2h.Part{ma2h.Text("a"), ma2h.Text("b")} }, ""},
		{"parts past", caps(func(c *types.Capability) { c.MaxContextParts = &two }), func(n *ma2h.Notify) { n.Context = []ma2h.Part{ma2h.Text("a"), ma2h.Text("b"), ma2h.Text("c")} }, "context"},
		{"no part allowed, none sent", caps(func(c *types.Capability) { c.MaxContextParts = &none }), func(*ma2h.Notify) {}, ""},
		{"no part allowed", caps(func(c *types.Capability) { c.MaxContextParts = &none }), func(n *ma2h.Notify) { n.Context = []ma2h.Part{ma2h.Text("a")} }, "context"},
		{"a part at", caps(func(c *types.Capability) { c.MaxPartBytes = 100 }), func(n *ma2h.Notify) {
			n.Context = []ma2h.Part{ma2h.Text("a"), ma2h.Text(strings.Repeat("x", 100-overhead))}
		}, ""},
		{"a part past", caps(func(c *types.Capability) { c.MaxPartBytes = 100 }), func(n *ma2h.Notify) {
			n.Context = []ma2h.Part{ma2h.Text("a"), ma2h.Text(strings.Repeat("x", 101-overhead))}
		}, "context[1]"},
		{"nothing said", caps(func(c *types.Capability) { c.MaxBodyBytes, c.MaxPartBytes, c.MaxContextParts = 0, 0, nil }), func(n *ma2h.Notify) { n.Body = strings.Repeat("x", 1<<20) }, ""},
	} {
		bubble(t, tt.opts, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			n := ma2h.Notify{Title: "x"}
			tt.edit(&n)
			_, err := c.Notify(t.Context(), n)
			if tt.field == "" {
				if err != nil {
					t.Errorf("%s: %v", tt.name, err)
				}
				hub.RequireMessages(t, 1)
				return
			}
			fe, ok := errors.AsType[*ma2h.FieldError](err)
			if !ok || fe.Field != tt.field || fe.Section != "§8.6" {
				t.Errorf("%s: %v", tt.name, err)
			}
			hub.RequireRequests(t, ma2htest.Submit, 0)
			// Where the document cannot be had, the Hub's own answer counts.
			blind := connect(t, hub.Config(asker))
			hub.Fault(ma2htest.Status(404, 0).On(ma2htest.Discover))
			_, err = blind.Notify(t.Context(), n)
			wants(t, err, ma2h.ErrInvalidField)
		})
	}
}

func TestAHubMayNameOneURLForTheMailboxAndItsAcknowledgments(t *testing.T) {
	var calls []string
	c := connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
		resp := canned(200, `{"messages":[]}`)
		if strings.HasSuffix(r.URL.Path, "/.well-known/ma2h") {
			resp = canned(200, `{"ma2h_version":"0.4","inbound":{"enabled":true,"poll_url":"https://hub.test/box","ack_url":"https://hub.test/box"}}`)
		} else {
			calls = append(calls, r.Method+" "+r.URL.Path)
		}
		resp.Request = r
		return resp, nil
	})))
	v, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: ma2h.Keys(ma2h.HMACKey("a secret of this test")), AgentID: asker, Replay: memory(t)})
	mustNot(t, err)
	in, err := ma2h.NewInbox(ma2h.InboxConfig{Client: c, Verifier: v})
	mustNot(t, err)
	_, err = in.Drain(t.Context(), ma2h.DrainOptions{})
	mustNot(t, err)
	mustNot(t, in.Ack(t.Context(), []string{"dir_1"}, ""))
	if want := []string{"GET /box", "POST /box"}; !slices.Equal(calls, want) {
		t.Errorf("%v, not %v", calls, want)
	}
}

// A gateway that parses and writes JSON anew may write every number as a
// double. That is the same document (RFC 8785 §3.2.2.3).
//
// req: DISC-04
func TestADocumentWhoseNumbersAHopSpelledAnewIsTheSameDocument(t *testing.T) {
	serve := func(doc, presence string) *ma2h.Client {
		return connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
			resp := canned(200, presence)
			if strings.HasSuffix(r.URL.Path, "/.well-known/ma2h") {
				resp = canned(200, doc)
			}
			resp.Request = r
			return resp, nil
		})))
	}
	const presence = `{"agent_id":"a","state":"unknown","freshness_seconds":90}`
	doc := fullDoc
	for old, spelled := range map[string]string{"65536": "6.5536e4", ":16": ":16.0", ":60": ":60e0", ":30": ":3.0E+1"} {
		doc = strings.Replace(doc, old, spelled, 1)
	}
	want, err := serve(fullDoc, presence).Capabilities(t.Context())
	mustNot(t, err)
	c := serve(doc, strings.Replace(presence, "90", "9e1", 1))
	got, err := c.Capabilities(t.Context())
	mustNot(t, err)
	if !reflect.DeepEqual(got, want) || got.MaxBodyBytes != 65536 {
		t.Errorf("%+v, not %+v", got, want)
	}
	p, err := c.Presence(t.Context(), "a")
	mustNot(t, err)
	if p.FreshnessSeconds != 90 {
		t.Errorf("fresh for %d s", p.FreshnessSeconds)
	}

	// The twin: what no spelling makes an integer.
	_, err = serve(strings.Replace(fullDoc, "65536", "65536.5", 1), "").Capabilities(t.Context())
	wants(t, err, ma2h.ErrProtocol)
	_, err = serve(fullDoc, strings.Replace(presence, "90", "90.5", 1)).Presence(t.Context(), "a")
	wants(t, err, ma2h.ErrProtocol)
}
