package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
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

// req: INB-10
// report: B091
func TestAConsumerWithoutAHandlerAPolicyOrALedgerDoesNotStart(t *testing.T) {
	for name, row := range map[string]struct {
		handler func(*mail) func(context.Context, *ma2h.Directive) error
		edit    func(*ma2h.ConsumeOptions)
		field   string
	}{
		"no handler":           {func(*mail) func(context.Context, *ma2h.Directive) error { return nil }, nil, "ConsumeOptions.handler"},
		"nobody is allowed":    {nil, func(o *ma2h.ConsumeOptions) { o.Authorize = nil }, "ConsumeOptions.Authorize"},
		"concurrency -1":       {nil, func(o *ma2h.ConsumeOptions) { o.Concurrency = -1 }, "ConsumeOptions.Concurrency"},
		"concurrency 1025":     {nil, func(o *ma2h.ConsumeOptions) { o.Concurrency = 1025 }, "ConsumeOptions.Concurrency"},
		"attempts -1":          {nil, func(o *ma2h.ConsumeOptions) { o.MaxAttempts = -1 }, "ConsumeOptions.MaxAttempts"},
		"a lease below 1 s":    {nil, func(o *ma2h.ConsumeOptions) { o.Lease = time.Second - 1 }, "ConsumeOptions.Lease"},
		"a negative lease":     {nil, func(o *ma2h.ConsumeOptions) { o.Lease = -1 }, "ConsumeOptions.Lease"},
		"a negative grace":     {nil, func(o *ma2h.ConsumeOptions) { o.Grace = -1 }, "ConsumeOptions.Grace"},
		"as it is":             {nil, func(*ma2h.ConsumeOptions) {}, ""},
		"as much as it may be": {nil, func(o *ma2h.ConsumeOptions) { o.Concurrency, o.Lease = 1024, time.Second }, ""},
	} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			m.send("pause deploys")
			if row.field == "" {
				m.consume(time.Minute, row.edit)
				m.wantActed("pause deploys")
				return
			}
			handler, opts := m.handle, m.options()
			if row.handler != nil {
				handler = row.handler(m)
			}
			if row.edit != nil {
				row.edit(&opts)
			}
			err := m.inbox.Consume(t.Context(), handler, opts)
			if field, ok := errors.AsType[*ma2h.FieldError](err); !ok || field.Field != row.field {
				t.Errorf("%s: %v", name, err)
			}
			m.hub.RequireRequests(t, "", 0)
		})
	}
	s := always(200, `{"messages":[]}`)
	v, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: ma2h.Keys(ma2h.HMACKey(trustSecret)), AgentID: trustAgent, Replay: newSpyStore(t, time.Now)})
	mustNot(t, err)
	noLedger, err := ma2h.NewInbox(ma2h.InboxConfig{Client: connect(t, s.config()), Verifier: v})
	mustNot(t, err)
	wantsField(t, noLedger.Consume(t.Context(), func(context.Context, *ma2h.Directive) error { return nil }, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom(alice)}), "InboxConfig.Ledger")
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// report: B082
func TestAPanicInWhatAConsumerIsConfiguredWithIsContained(t *testing.T) {
	boom := func() { panic("CANARY in the panic") }
	once := func() func() {
		var first sync.Once
		return func() { first.Do(boom) }
	}
	for name, row := range map[string]struct {
		setup func(*mailSetup)
		edit  func(*mail, *ma2h.ConsumeOptions)
		ready func(*mail)
		check func(*testing.T, *mail, []string, error)
	}{
		"Authorize": {
			edit: func(m *mail, o *ma2h.ConsumeOptions) { o.Authorize = func(string) bool { boom(); return true } },
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed()
				if len(m.rejected) != 1 || !errors.Is(m.rejected[0], ma2h.ErrNotAuthorized) || m.rejected[0].ID != ids[0] {
					t.Errorf("rejected %v", m.rejected)
				}
				m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
			},
		},
		"Note": {
			edit: func(m *mail, o *ma2h.ConsumeOptions) { o.Note = func(*ma2h.Directive) string { boom(); return "done" } },
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed("pause deploys")
				if d, _ := m.hub.Directive(ids[0]); d.Delivery.Ack == nil || d.Delivery.Ack.Note != "" {
					t.Errorf("receipt %+v", d.Delivery.Ack)
				}
			},
		},
		"OnReject": {
			edit: func(m *mail, o *ma2h.ConsumeOptions) {
				o.OnReject = func(context.Context, *ma2h.RejectedError) error { boom(); return nil }
			},
			ready: func(m *mail) { m.hub.Fault(ma2htest.CorruptDirectiveSignature(0)) },
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed()
				wants(t, err, ma2h.ErrPanicked)
			},
		},
		"DeadLetter": {
			edit: func(m *mail, o *ma2h.ConsumeOptions) {
				o.MaxAttempts = 1
				o.DeadLetter = func(context.Context, *ma2h.Directive, error) { boom() }
			},
			ready: func(m *mail) { m.failing["pause deploys"] = errors.New("no") },
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed()
				m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
			},
		},
		"InDoubt": {
			edit: func(m *mail, o *ma2h.ConsumeOptions) {
				o.InDoubt = func(context.Context, ma2h.Act) (ma2h.Doubt, error) {
					m.mu.Lock()
					clear(m.failing) // a second attempt would act
					m.mu.Unlock()
					boom()
					return ma2h.ActAgain, nil
				}
			},
			ready: func(m *mail) { m.failing["pause deploys"] = ma2h.ErrOutcomeUnknown },
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed()
				m.wantBuried("pause deploys")
				m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
			},
		},
		"KeysFunc": {
			setup: func(s *mailSetup) {
				s.keys = func(hub *ma2htest.Hub) ma2h.KeyRing {
					boom := once()
					return ma2h.KeysFunc(func(context.Context) ([]ma2h.Key, error) {
						boom()
						return []ma2h.Key{ma2h.HMACKey(hub.SigningSecret())}, nil
					})
				}
			},
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed("pause deploys")
				if n := m.deliveries(ids[0]); n != 2 || len(m.rejected) != 0 {
					t.Errorf("%d deliveries, rejected %v", n, m.rejected)
				}
			},
		},
		"the ledger": {
			ready: func(m *mail) { m.store.after["Reserve"] = once() },
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed() // reserved by nobody knows whom
				m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
			},
		},
		"the wire of acknowledgments": {
			setup: func(s *mailSetup) {
				boom := once()
				s.wire = func(rt http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						if r.Method == http.MethodPost {
							boom()
						}
						return rt.RoundTrip(r)
					})
				}
			},
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed("pause deploys")
				m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
			},
		},
		"the wire of drains": {
			setup: func(s *mailSetup) {
				s.wire = func(rt http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						if strings.HasSuffix(r.URL.Path, "/inbox") {
							boom()
						}
						return rt.RoundTrip(r)
					})
				}
			},
			check: func(t *testing.T, m *mail, ids []string, err error) {
				m.wantActed()
				wants(t, err, ma2h.ErrPanicked)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			setup := mailSetup{}
			if row.setup != nil {
				row.setup(&setup)
			}
			withMail(t, setup, func(t *testing.T, m *mail) {
				if row.ready != nil {
					row.ready(m)
				}
				ids := m.send("pause deploys")
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
				defer cancel()
				opts := m.options()
				if row.edit != nil {
					row.edit(m, &opts)
				}
				err := m.inbox.Consume(ctx, m.handle, opts)
				if !errors.Is(err, ma2h.ErrPanicked) {
					wants(t, err, context.DeadlineExceeded)
				}
				row.check(t, m, ids, err)
				if log := m.log.String(); strings.Contains(log, "CANARY") || !strings.Contains(log, "a function of the configuration panicked") || !strings.Contains(log, "consume_test.go") {
					t.Errorf("the log says %s", log)
				}
			})
		})
	}
}

// req: INB-12, INB-14
func TestAnErrorOfTheHandlerIsAFailureWhateverItWraps(t *testing.T) {
	for _, sentinel := range []error{
		ma2h.ErrAlreadyActed, ma2h.ErrReplay, ma2h.ErrInFlight, ma2h.ErrInDoubt, ma2h.ErrSecondResolution, ma2h.ErrNotAuthorized,
		ma2h.ErrSignature, ma2h.ErrKeySource, ma2h.ErrStoreUnavailable, context.Canceled,
	} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			m.failing["pause deploys"] = fmt.Errorf("of the handler's own: %w", sentinel)
			ids := m.send("pause deploys")
			m.consume(10*time.Minute, func(o *ma2h.ConsumeOptions) { o.MaxAttempts = 2 })
			m.wantActed()
			m.wantBuried("pause deploys")
			if !errors.Is(m.burials[0], sentinel) || len(m.rejected) != 0 {
				t.Errorf("%v: buried for %v, rejected %v", sentinel, m.burials[0], m.rejected)
			}
			m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
			m.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)
		})
	}
	// One that says that something may have happened is in doubt, whatever else
	// it says.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.failing["pause deploys"] = errors.Join(ma2h.ErrAlreadyActed, ma2h.ErrOutcomeUnknown)
		m.send("pause deploys")
		m.consume(10 * time.Minute)
		delete(m.failing, "pause deploys")
		m.consume(10 * time.Minute)
		m.wantActed()
		m.wantBuried("pause deploys")
		m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
	})
}

// req: INB-12
func TestAnErrorOfTheStoreIsNoneOfTheDirective(t *testing.T) {
	for _, call := range []string{"Lookup", "ClaimJTI", "Reserve"} {
		for _, failure := range []error{errors.New("down"), ma2h.ErrStoreFull, fmt.Errorf("odd: %w", ma2h.ErrAlreadyActed), fmt.Errorf("odd: %w", ma2h.ErrReplay), ma2h.ErrLeaseLost} {
			withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
				m.store.failing(call, failure)
				ids := m.send("pause deploys")
				m.consume(5 * time.Minute)
				m.wantActed()
				m.wantBuried()
				m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
				if len(m.rejected) != 0 {
					t.Errorf("%s, %v: rejected %v", call, failure, m.rejected)
				}
				m.store.failing(call, nil)
				m.consume(5 * time.Minute)
				m.wantActed("pause deploys")
				m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
			})
		}
	}
	// What was done and cannot be recorded is nothing that may be acknowledged,
	// or done again.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.store.failing("Commit", errors.New("down"))
		m.send("pause deploys")
		m.consume(20 * time.Minute)
		m.wantActed("pause deploys")
		m.wantBuried("pause deploys")
		wants(t, m.burials[0], ma2h.ErrOutcomeUnknown)
		m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
	})
}

// req: INB-12 INB-14
func TestADirectiveHasAsManyAttemptsAsItMay(t *testing.T) {
	for set, want := range map[int]int{0: 5, 1: 1, 2: 2, 7: 7} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			m.send("pause deploys")
			attempts := 0
			fails := func(context.Context, *ma2h.Directive) error { attempts++; return errors.New("no") }
			run := func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
				defer cancel()
				wants(t, m.inbox.Consume(ctx, fails, m.options(func(o *ma2h.ConsumeOptions) { o.MaxAttempts = set })), context.DeadlineExceeded)
			}
			run()
			if attempts != want {
				t.Errorf("MaxAttempts %d: %d attempts", set, attempts)
			}
			// Not by another consumer of this process either.
			run()
			if attempts != want {
				t.Errorf("MaxAttempts %d: %d attempts after another Consume", set, attempts)
			}
			m.wantBuried("pause deploys")
			// A new process knows nothing of that.
			m.restart(mailSetup{})
			m.consume(2 * time.Minute)
			m.wantActed("pause deploys")
		})
	}
	// Attempts count for one directive, and up to its success.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.failing["1"], m.failing["2"] = errors.New("no"), errors.New("no")
		m.send("1", "2")
		m.consume(110*time.Second, func(o *ma2h.ConsumeOptions) { o.MaxAttempts = 3 })
		clear(m.failing)
		m.consume(2*time.Minute, func(o *ma2h.ConsumeOptions) { o.MaxAttempts = 3 })
		m.wantActed("1", "2")
		m.wantBuried()
	})
}

func TestADirectiveThatAnotherProcessDidIsAcknowledgedByTheOneThatGaveItUp(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.failing["pause deploys"] = errors.New("no")
		ids := m.send("pause deploys")
		m.consume(2*time.Minute, func(o *ma2h.ConsumeOptions) { o.MaxAttempts = 1 })
		m.wantBuried("pause deploys")
		m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
		act := ma2h.Act{Key: ma2h.ActKey("directive", asker, ids[0])}
		mustNot(t, m.store.Store.Commit(t.Context(), act, reserve(t, m.store, act)))
		m.consume(2 * time.Minute)
		m.wantActed()
		m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
	})
}

// req: INB-12
func TestADoubtIsReportedOnceAndThePolicyIsAskedAtEachDelivery(t *testing.T) {
	for name, row := range map[string]struct {
		answers []ma2h.Doubt // the last one stays
		err     error        // of the first
		acts    int
		done    bool
	}{
		"nobody decides":        {nil, nil, 0, false},
		"it is left":            {[]ma2h.Doubt{ma2h.LeaveInDoubt}, nil, 0, false},
		"acted on again":        {[]ma2h.Doubt{ma2h.ActAgain}, nil, 1, true},
		"taken as done":         {[]ma2h.Doubt{ma2h.TakeAsDone}, nil, 0, true},
		"decided later":         {[]ma2h.Doubt{ma2h.LeaveInDoubt, ma2h.LeaveInDoubt, ma2h.ActAgain}, nil, 1, true},
		"no answer at first":    {[]ma2h.Doubt{ma2h.ActAgain, ma2h.TakeAsDone}, errors.New("who knows"), 0, true},
		"an answer of no kind":  {[]ma2h.Doubt{7}, nil, 0, false},
		"an error that is done": {[]ma2h.Doubt{ma2h.LeaveInDoubt}, ma2h.ErrAlreadyActed, 0, false},
	} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			m.failing["pause deploys"] = ma2h.ErrOutcomeUnknown
			ids := m.send("pause deploys")
			m.consume(30 * time.Second)
			clear(m.failing)
			asked := 0
			m.consume(10*time.Minute, func(o *ma2h.ConsumeOptions) {
				if row.answers == nil {
					return
				}
				o.InDoubt = func(_ context.Context, act ma2h.Act) (ma2h.Doubt, error) {
					if act.MessageID() != ids[0] {
						t.Errorf("%s: asked about %s", name, act)
					}
					asked++
					err := row.err
					if asked > 1 {
						err = nil
					}
					return row.answers[min(asked, len(row.answers))-1], err
				}
			})
			if len(m.acted) != row.acts || len(m.rejected) != 0 {
				t.Errorf("%s: %d acts, rejected %v", name, len(m.acted), m.rejected)
			}
			if !row.done && row.answers != nil && asked < 5 {
				t.Errorf("%s: asked %d times", name, asked)
			}
			if d, _ := m.hub.Directive(ids[0]); (d.Delivery.State == types.Acknowledged) != row.done {
				t.Errorf("%s: %s", name, d.Delivery.State)
			}
			m.wantBuried("pause deploys")
			wants(t, m.burials[0], ma2h.ErrOutcomeUnknown)
		})
	}
}

// req: INB-14 INB-03
func TestRejectionsAreReportedOnceEachAndDoNotHideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		forged := func(edit func(string) string) func() string {
			return func() string {
				n++
				return edit(signedRow(t, trustDirective, "j"+strconv.Itoa(n)))
			}
		}
		replace := func(old, with string) func() string {
			return forged(func(row string) string { return strings.Replace(row, old, with, 1) })
		}
		constant := func(row string) func() string { return func() string { return row } }
		rows := []func() string{
			constant(`7`), constant(`8`), constant(`{}`), constant(`{"directive":"none","signature":7}`), constant(`{"directive":"nope","signature":7}`),
			constant(`{"poke":{},"signature":"t=1,jti=a,v1=b"}`), constant(`{"poke":{"a":1},"signature":"t=1,jti=a,v1=b"}`), constant(`{"prod":{"a":1},"signature":"t=1,jti=a,v1=b"}`),
			replace("Pause deploys", "Pause deploys!"), replace("Pause deploys", "Pause deploys?"), // one id, two contents
			replace(`"sensitive":false`, `"sensitive":false,"sensitive":true`), replace(`"sensitive":false`, `"sensitive":false,"priority":"low"`),
			replace(`"sensitive":false`, `"sensitive":false,"action":{}`),
			forged(func(row string) string { return `{"poke":{"b":1},` + row[strings.Index(row, `"signature"`):] }),
		}
		wire := roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/ma2h") {
				return canned(200, `{"ma2h_version":"0.4","inbound":{"enabled":true}}`), nil
			}
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			var texts []string
			for _, row := range rows {
				texts = append(texts, row())
			}
			return canned(200, `{"messages":[`+strings.Join(texts, ",")+`]}`), nil
		})
		in := mailOver(t, wire, trustAgent)
		var mu sync.Mutex
		seen := 0
		for range 2 { // the second consumer is of the same process
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			err := in.Consume(ctx, func(context.Context, *ma2h.Directive) error { t.Error("acted"); return nil }, ma2h.ConsumeOptions{
				Authorize: ma2h.AllowFrom(alice), Concurrency: 100,
				OnReject: func(context.Context, *ma2h.RejectedError) error {
					mu.Lock()
					defer mu.Unlock()
					seen++
					return nil
				},
			})
			cancel()
			wants(t, err, context.DeadlineExceeded)
		}
		if seen != len(rows) {
			t.Errorf("%d reports of %d rows", seen, len(rows))
		}
		if n < 10*5 {
			t.Errorf("only %d signed rows came", n)
		}
	})
}

// req: INB-15
func TestWithoutHooksRejectionsAndFailuresAreLoggedWithoutContent(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.CorruptDirectiveSignature(1))
		ids := m.send("CANARY 1", "CANARY 2")
		m.failing["CANARY 2"] = errors.New("CANARY")
		m.consume(90*time.Second, func(o *ma2h.ConsumeOptions) { o.OnReject, o.DeadLetter, o.MaxAttempts = nil, nil, 1 })
		m.wantActed("CANARY 1")
		log := m.log.String()
		for _, want := range []string{"entry rejected\" id=" + ids[0], "gave up on directive\" id=" + ids[1], "acted on\" id=" + ids[0]} {
			if strings.Count(log, want) != 1 {
				t.Errorf("the log does not say once %q:\n%s", want, log)
			}
		}
		if strings.Contains(log, "CANARY") {
			t.Errorf("the log says %s", log)
		}
	})
}

func TestWhatWasDrainedAsTheCallerStoppedIsNotStarted(t *testing.T) {
	var stop context.CancelFunc
	setup := mailSetup{keys: func(hub *ma2htest.Hub) ma2h.KeyRing {
		return ma2h.KeysFunc(func(context.Context) ([]ma2h.Key, error) {
			stop() // drained, and not begun
			return []ma2h.Key{ma2h.HMACKey(hub.SigningSecret())}, nil
		})
	}}
	withMail(t, setup, func(t *testing.T, m *mail) {
		ids := m.send("pause deploys", "resume deploys")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop = cancel
		begin := time.Now()
		wants(t, m.inbox.Consume(ctx, m.handle, m.options(func(o *ma2h.ConsumeOptions) { o.Concurrency = 4 })), context.Canceled)
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %s to stop", took)
		}
		m.wantActed()
		for _, id := range ids {
			if state, err := m.store.Store.Lookup(t.Context(), ma2h.Act{Key: ma2h.ActKey("directive", asker, id)}); err != nil || state != 0 {
				t.Errorf("the act of %s is %v, %v", id, state, err)
			}
			m.hub.RequireDelivery(t, id, ma2htest.Delivered)
		}
		// A caller that has stopped before drains nothing at all.
		synctest.Wait() // the Hub notes a request that was given up after the caller does
		drains := len(m.queries())
		wants(t, m.inbox.Consume(ctx, m.handle, m.options()), context.Canceled)
		m.hub.RequireRequests(t, ma2htest.Drain, drains)

		stop = func() {}
		m.consume(3*time.Minute, func(o *ma2h.ConsumeOptions) { o.Concurrency = 4 })
		if len(m.acted) != 2 {
			t.Errorf("acted on %q", m.acted)
		}
	})
}

func TestManyConsumersOfOneInboxActOnEachDirectiveOnce(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.RandomFaults(1, 3, ma2htest.Chance{Weight: 1, Fault: ma2htest.ExpireLease(1)}, ma2htest.Chance{Weight: 1, Fault: ma2htest.DuplicateEntry(1)}).On(ma2htest.Drain))
		var titles []string
		for i := range 100 {
			titles = append(titles, fmt.Sprintf("%03d", i))
		}
		ids := m.send(titles...)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { m.consume(30*time.Minute, func(o *ma2h.ConsumeOptions) { o.Concurrency = 3 }) })
		}
		wg.Wait()
		slices.Sort(m.acted)
		m.wantActed(titles...)
		for _, id := range ids {
			m.hub.RequireDelivery(t, id, types.Acknowledged)
		}
	})
}

// req: INB-20
// report: B084
func TestAnActThatOutlastsItsWindowIsOneActForTwoConsumers(t *testing.T) {
	setup := mailSetup{hub: ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.VisibilityTimeoutSeconds = 2 }}}
	withMail(t, setup, func(t *testing.T, m *mail) {
		ids := m.send("pause deploys")
		first := m.inbox
		m.restart(setup)
		slow := func(ctx context.Context, d *ma2h.Directive) error {
			time.Sleep(5 * time.Second)
			if n := len(m.acks()); n != 0 {
				t.Errorf("%d acknowledgments while it is acted on", n)
			}
			return m.handle(ctx, d)
		}
		var wg sync.WaitGroup
		for _, in := range []*ma2h.Inbox{first, m.inbox} {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				wants(t, in.Consume(ctx, slow, m.options()), context.DeadlineExceeded)
			})
		}
		wg.Wait()
		m.wantActed("pause deploys")
		m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
		if n := m.deliveries(ids[0]); n < 3 || len(m.rejected) != 0 {
			t.Errorf("%d deliveries, rejected %v", n, m.rejected)
		}
	})
}

// report: B087
func TestOneFailureOfABatchKeepsItsOwnAcknowledgmentBackAndNoOther(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.failing["4"] = errors.New("no")
		ids := m.send("1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
		m.consume(30*time.Second, func(o *ma2h.ConsumeOptions) { o.Concurrency = 10 })
		acked := slices.Concat(m.acks()...)
		slices.Sort(acked)
		want := slices.Delete(slices.Clone(ids), 3, 4)
		slices.Sort(want)
		if !slices.Equal(acked, want) {
			t.Errorf("acknowledged %q, want %q", acked, want)
		}
	})
}

// report: B085
// req: INB-01
func TestADrainAsksForNoMoreThanThereAreFreeHandsFor(t *testing.T) {
	setup := mailSetup{hub: ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.MaxBatch = 3 }}}
	withMail(t, setup, func(t *testing.T, m *mail) {
		m.send("1", "2", "3", "4", "5", "6")
		var running, most atomic.Int32
		slow := func(ctx context.Context, d *ma2h.Directive) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(5 * time.Second)
			return m.handle(ctx, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		wants(t, m.inbox.Consume(ctx, slow, m.options(func(o *ma2h.ConsumeOptions) { o.Concurrency = 5 })), context.DeadlineExceeded)
		if got := m.queries(); !slices.Equal(got, []string{"max=3&wait=60", "max=2&wait=60"}) || most.Load() != 5 {
			t.Errorf("asked %q, %d at a time", got, most.Load())
		}
	})
	// A Hub that gives more than was asked for does not change that.
	withMail(t, mailSetup{wire: func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Has("max") {
				q.Set("max", "32")
				r.URL.RawQuery = q.Encode()
			}
			return rt.RoundTrip(r)
		})
	}}, func(t *testing.T, m *mail) {
		ids := m.send("1", "2", "3", "4", "5", "6")
		var running, most atomic.Int32
		act := func(ctx context.Context, d *ma2h.Directive) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Second)
			return m.handle(ctx, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		wants(t, m.inbox.Consume(ctx, act, m.options(func(o *ma2h.ConsumeOptions) { o.Concurrency = 2 })), context.DeadlineExceeded)
		if len(m.acted) != 6 || most.Load() != 2 {
			t.Errorf("acted on %q, %d at a time", m.acted, most.Load())
		}
		for _, id := range ids {
			m.hub.RequireDelivery(t, id, types.Acknowledged)
		}
	})
}

// report: B025
func TestAHubThatDoesNotHoldOrHideIsNotAskedInALoop(t *testing.T) {
	// It does not hold.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.EarlyReturn(0).On(ma2htest.Drain))
		m.consume(time.Hour)
		if n := len(m.queries()); n < 200 || n > 500 {
			t.Errorf("%d drains in an hour", n)
		}
		// Nor does a burst teach it to be slow.
		m.send(strings.Split(strings.Repeat("x", 40), "")...)
		go func() { time.Sleep(11 * time.Minute); m.send("late") }()
		var at time.Duration
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
		defer cancel()
		wants(t, m.inbox.Consume(ctx, func(_ context.Context, d *ma2h.Directive) error {
			if d.Title() == "late" {
				at = time.Since(begin) - 11*time.Minute
			} else if took := time.Since(begin); took > time.Second {
				t.Errorf("the burst took %s", took)
			}
			return nil
		}, m.options()), context.DeadlineExceeded)
		if at > 15*time.Second || at == 0 {
			t.Errorf("a directive waited for %s", at)
		}
	})
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.EarlyReturn(0).On(ma2htest.Drain))
		m.send("1", "2", "3", "4", "5", "6", "7", "8")
		go func() { time.Sleep(100 * time.Millisecond); m.send("next") }()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wants(t, m.inbox.Consume(ctx, func(_ context.Context, d *ma2h.Directive) error {
			if took := time.Since(begin); d.Title() == "next" && took > time.Second {
				t.Errorf("after a burst the next directive waited for %s", took)
			}
			return m.handle(ctx, d)
		}, m.options()), context.DeadlineExceeded)
		if len(m.acted) != 9 {
			t.Errorf("acted on %q", m.acted)
		}
	})
	// It does not hide what is being acted on, what this process gave up on,
	// what it rejected, or what it cannot acknowledge.
	for name, ready := range map[string]func(*mail){
		"in flight": func(m *mail) { m.slow = 10 * time.Minute },
		"given up":  func(m *mail) { m.failing["1"] = errors.New("no") },
		"rejected":  func(*mail) {},
		"in doubt":  func(m *mail) { m.failing["1"] = ma2h.ErrOutcomeUnknown },
		"not taken": func(m *mail) { m.hub.Fault(ma2htest.Status(503, 0).On(ma2htest.InboxAck)) },
		"no store":  func(m *mail) { m.store.failing("Lookup", errors.New("down")) },
		"no claim":  func(m *mail) { m.store.failing("ClaimJTI", errors.New("down")) },
	} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			ready(m)
			m.hub.Fault(ma2htest.ExpireLease(0))
			from := alice
			if name == "rejected" {
				from = "human:mallory"
			}
			m.sendDraft(ma2htest.DirectiveDraft{From: from, Title: "1"})
			m.consume(5*time.Minute, func(o *ma2h.ConsumeOptions) { o.Concurrency = 4; o.MaxAttempts = 2; o.Grace = time.Second })
			if n := len(m.queries()); n < 10 || n > 60 {
				t.Errorf("%s: %d drains in 5 minutes", name, n)
			}
		})
	}
}

// req: INB-01
func TestADrainThatIsCutInGoodOrderIsAskedAgainAndNotForEver(t *testing.T) {
	for name, row := range map[string]struct {
		fault ma2htest.Fault
		ends  error
	}{
		"twice no JSON":     {ma2htest.CorruptJSON(2).On(ma2htest.Drain), nil},
		"cut":               {ma2htest.Status(200, 2, ma2htest.Body(`{"messages":[{"directive":{"id":"dir_1"`)).On(ma2htest.Drain), nil},
		"empty":             {ma2htest.Status(200, 2, ma2htest.Body("")).On(ma2htest.Drain), nil},
		"three times":       {ma2htest.CorruptJSON(3).On(ma2htest.Drain), ma2h.ErrProtocol},
		"another shape":     {ma2htest.Status(200, 1, ma2htest.Body(`[]`)).On(ma2htest.Drain), ma2h.ErrProtocol},
		"a page of a proxy": {ma2htest.Status(200, 9, ma2htest.Body("<html>"), ma2htest.ContentType("text/html")).On(ma2htest.Drain), nil},
		"no entitlement":    {ma2htest.Status(403, 1).On(ma2htest.Drain), ma2h.ErrNotAuthorized},
		"no credential":     {ma2htest.Status(401, 1).On(ma2htest.Drain), ma2h.ErrUnauthenticated},
		"no mailbox":        {ma2htest.Status(404, 1).On(ma2htest.Drain), ma2h.ErrNotFound},
		"an outage":         {ma2htest.Status(503, 9).On(ma2htest.Drain), nil},
	} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			m.hub.Fault(row.fault)
			ids := m.send("pause deploys")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			err := m.inbox.Consume(ctx, m.handle, m.options())
			if row.ends != nil {
				if !errors.Is(err, row.ends) || len(m.acted) != 0 {
					t.Errorf("%s: %v, acted on %q", name, err, m.acted)
				}
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) || len(m.acted) != 1 {
				t.Errorf("%s: %v, acted on %q", name, err, m.acted)
			}
			m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
		})
	}
	// Accidents apart from each other do not add up.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		for i := range 5 {
			m.hub.Fault(ma2htest.CorruptJSON(1).On(ma2htest.Drain).After(2*i + 1))
		}
		go func() {
			for i := range 12 {
				m.send(strconv.Itoa(i))
				time.Sleep(20 * time.Second)
			}
		}()
		m.consume(20 * time.Minute)
		if len(m.acted) != 12 {
			t.Errorf("acted on %q", m.acted)
		}
	})
}

// report: B090
func TestAnAcknowledgmentThatIsNotTakenWaitsOnceHoweverOftenItsDirectiveComes(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.Status(503, 0).On(ma2htest.InboxAck))
		ids := m.send("1", "2", "3")
		go func() { time.Sleep(20 * time.Minute); m.hub.Heal() }()
		notes := make(map[string]int)
		m.consume(30*time.Minute, func(o *ma2h.ConsumeOptions) {
			o.Concurrency = 3
			o.Note = func(d *ma2h.Directive) string { notes[d.Title()]++; return "" }
		})
		if len(m.acted) != 3 || m.deliveries(ids[0]) < 10 {
			t.Errorf("acted on %q after %d deliveries", m.acted, m.deliveries(ids[0]))
		}
		for _, batch := range m.acks() {
			slices.Sort(batch)
			if len(slices.Compact(batch)) != len(batch) {
				t.Errorf("one acknowledgment has %q", batch)
			}
		}
		taken := 0
		for _, r := range m.hub.Requests() {
			if r.Endpoint == ma2htest.InboxAck && r.Status == 200 {
				taken++
			}
		}
		if taken > 2 {
			t.Errorf("%d acknowledgments were taken", taken)
		}
		for title, n := range notes {
			if n > 2 {
				t.Errorf("the note of %s was asked for %d times", title, n)
			}
		}
		for _, id := range ids {
			m.hub.RequireDelivery(t, id, types.Acknowledged)
		}
	})
}

func TestAcknowledgmentsThatWaitAreBoundedAndNoneIsLost(t *testing.T) {
	const n, bound = 10_300, 10_000
	withMail(t, mailSetup{hub: ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.MaxBatch, c.Inbound.VisibilityTimeoutSeconds = 1000, 3600 }}}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.Status(503, 0).On(ma2htest.InboxAck))
		for i := range n {
			m.send(strconv.Itoa(i))
		}
		acked := func() (k int) {
			for _, d := range m.hub.Directives(asker) {
				if d.Delivery.State == types.Acknowledged {
					k++
				}
			}
			return k
		}
		go func() {
			time.Sleep(30 * time.Minute)
			m.hub.Heal()
			time.Sleep(10 * time.Minute)
			if k := acked(); k != bound {
				t.Errorf("%d acknowledgments were kept", k)
			}
		}()
		m.consume(3*time.Hour, func(o *ma2h.ConsumeOptions) { o.Concurrency = 1000 })
		if k := acked(); k != n || len(m.acted) != n {
			t.Errorf("%d of %d acknowledged, %d acts", k, n, len(m.acted))
		}
		for _, batch := range m.acks() {
			if len(batch) > 256 {
				t.Errorf("an acknowledgment of %d", len(batch))
			}
		}
	})
}

func TestAHubThatTakesFewIdsAtOnceGetsFew(t *testing.T) {
	for _, status := range []int{400, 413, 422} {
		var poisoned string
		first := true
		setup := mailSetup{wire: func(rt http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPost {
					return rt.RoundTrip(r)
				}
				if first {
					first = false
					return canned(503, ""), nil // so that the others gather
				}
				text, err := io.ReadAll(r.Body)
				mustNot(t, err)
				r.Body = io.NopCloser(strings.NewReader(string(text)))
				resp, err := rt.RoundTrip(r)
				if err == nil && (strings.Count(string(text), "dir_") > 5 || strings.Contains(string(text), poisoned)) {
					_ = resp.Body.Close()
					return canned(status, `{"error":{"code":"","message":""}}`), nil
				}
				return resp, err
			})
		}}
		withMail(t, setup, func(t *testing.T, m *mail) {
			var titles []string
			for i := range 20 {
				titles = append(titles, strconv.Itoa(i))
			}
			ids := m.send(titles...)
			poisoned = ids[7]
			m.consume(30*time.Second, func(o *ma2h.ConsumeOptions) { o.Concurrency = 20 })
			taken := make(map[string]bool)
			for _, batch := range m.acks() {
				if len(batch) <= 5 && !slices.Contains(batch, poisoned) {
					for _, id := range batch {
						taken[id] = true
					}
				}
			}
			if len(taken) != len(ids)-1 || len(m.acks()) > 30 {
				t.Errorf("%d: %d of %d taken in %d acknowledgments", status, len(taken), len(ids), len(m.acks()))
			}
		})
	}
	// A refusal that is about none of them is not tried with fewer.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.Status(503, 1).On(ma2htest.InboxAck), ma2htest.Status(403, 0).On(ma2htest.InboxAck))
		m.send("1", "2", "3", "4")
		m.consume(30*time.Second, func(o *ma2h.ConsumeOptions) { o.Concurrency = 4 })
		if n := len(m.acks()); n > 3 {
			t.Errorf("%d acknowledgments of what is refused", n)
		}
	})
}

// report: B088
func TestAConsumerEndsInTimeWhateverHangs(t *testing.T) {
	// The acknowledgment.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.Hang(0).On(ma2htest.InboxAck))
		ids := m.send("pause deploys")
		begin := time.Now()
		m.consume(10 * time.Second)
		if took := time.Since(begin); took != 25*time.Second {
			t.Errorf("it took %s", took)
		}
		m.wantActed("pause deploys")
		m.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)
		m.hub.Heal()
		m.consume(5 * time.Minute)
		m.wantActed("pause deploys")
		m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
	})
	// The act.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.send("pause deploys")
		release, over := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		warned := make(chan time.Duration, 1)
		err := m.inbox.Consume(ctx, func(ctx context.Context, d *ma2h.Directive) error {
			<-ctx.Done()
			warned <- time.Since(begin)
			<-release
			defer close(over)
			return m.handle(ctx, d)
		}, m.options(func(o *ma2h.ConsumeOptions) { o.Grace = 7 * time.Second }))
		wants(t, err, context.DeadlineExceeded)
		wants(t, err, ma2h.ErrOutcomeUnknown)
		if at, took := <-warned, time.Since(begin); at != 17*time.Second || took != 27*time.Second {
			t.Errorf("warned after %s, ended after %s", at, took)
		}
		close(release)
		<-over
	})
	// Without a word the grace is 30 s, and an act that ends in it is no news.
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		ids := m.send("pause deploys")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := m.inbox.Consume(ctx, func(ctx context.Context, d *ma2h.Directive) error {
			time.Sleep(39 * time.Second)
			if ctx.Err() != nil {
				t.Error("its context has ended within its grace")
			}
			return m.handle(ctx, d)
		}, m.options())
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ma2h.ErrOutcomeUnknown) {
			t.Error(err)
		}
		m.wantActed("pause deploys")
		m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
	})
}

// req: INB-14 INB-15
func TestAnErrorOfOnRejectEndsTheConsumerAndTheActsThatRunEndWell(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		ids := m.send("slow")
		stop := errors.New("stop")
		go func() {
			time.Sleep(time.Second)
			m.sendDraft(ma2htest.DirectiveDraft{From: "human:mallory", Title: "drop the tables"})
			m.send("later")
		}()
		err := m.inbox.Consume(t.Context(), func(ctx context.Context, d *ma2h.Directive) error {
			time.Sleep(20 * time.Second)
			return m.handle(ctx, d)
		}, m.options(func(o *ma2h.ConsumeOptions) {
			o.Concurrency = 2
			o.OnReject = func(context.Context, *ma2h.RejectedError) error { return stop }
		}))
		if !errors.Is(err, stop) || errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		m.wantActed("slow")
		m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
	})
}

// req: INB-11 INB-23
func TestADirectiveIsActedOnWhateverItsUnsignedTimesSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := strings.NewReplacer("2026-06-21T12:00:00Z", "1999-01-01T00:00:00Z", "2026-06-22T12:00:00Z", "1999-01-02T00:00:00Z").Replace(trustDirective)
		row := signedRow(t, old, "j")
		in, s := mailOf(t, row)
		acts := 0
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		wants(t, in.Consume(ctx, func(_ context.Context, d *ma2h.Directive) error { acts++; return nil }, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom(alice)}), context.DeadlineExceeded)
		if acts != 1 {
			t.Errorf("%d acts", acts)
		}
		// The Hub gives it again and again, in the very bytes: it is
		// acknowledged, which a stub cannot take, and not acted on.
		if n := s.calls.Load(); n < 3 {
			t.Errorf("%d requests", n)
		}
	})
}

// req: SGD-03 INB-14
func TestADeliveryThatWasTakenByHandIsAReplayToAConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := mailOf(t, signedRow(t, trustDirective, "j"))
		if entries, err := in.Drain(t.Context(), ma2h.DrainOptions{}); err != nil || len(entries) != 1 {
			t.Fatal(len(entries), err)
		}
		var rejected []*ma2h.RejectedError
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wants(t, in.Consume(ctx, func(context.Context, *ma2h.Directive) error { t.Error("acted"); return nil }, ma2h.ConsumeOptions{
			Authorize: ma2h.AllowFrom(alice),
			OnReject:  func(_ context.Context, r *ma2h.RejectedError) error { rejected = append(rejected, r); return nil },
		}), context.DeadlineExceeded)
		if len(rejected) != 1 || rejected[0].ID != "dir_1" || !errors.Is(rejected[0], ma2h.ErrReplay) {
			t.Errorf("rejected %v", rejected)
		}
	})
}

// req: INB-12
func TestAProcessReportsTheDoubtThatItFinds(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		ids := m.send("pause deploys", "resume deploys")
		act := ma2h.Act{Key: ma2h.ActKey("directive", asker, ids[0])}
		if _, err := m.store.Store.Reserve(t.Context(), act, 90*time.Second, false); err != nil {
			t.Fatal(err)
		}
		m.consume(80 * time.Second) // it may still be at it
		m.wantActed("resume deploys")
		m.wantBuried()
		m.consume(10 * time.Minute)
		m.wantActed("resume deploys")
		m.wantBuried("pause deploys")
		wants(t, m.burials[0], ma2h.ErrInDoubt)
		m.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)
		m.hub.RequireDelivery(t, ids[1], types.Acknowledged)
	})
}

func TestABurstIsDrainedWithoutAPauseWhateverItBrings(t *testing.T) {
	titles := strings.Split("123456789", "")
	for name, ready := range map[string]func(*mail) []string{
		"to act on": func(m *mail) []string { return m.send(titles...) },
		"to reject": func(m *mail) (ids []string) {
			for _, title := range titles {
				ids = append(ids, m.sendDraft(ma2htest.DirectiveDraft{From: "human:mallory", Title: title}))
			}
			return ids
		},
		"to acknowledge": func(m *mail) []string {
			ids := m.send(titles...)
			for _, id := range ids {
				act := ma2h.Act{Key: ma2h.ActKey("directive", asker, id)}
				mustNot(m.t, m.store.Store.Commit(m.t.Context(), act, reserve(m.t, m.store, act)))
			}
			return ids
		},
	} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			ids := ready(m)
			m.consume(100 * time.Millisecond)
			for _, id := range ids {
				if n := m.deliveries(id); n != 1 {
					t.Errorf("%s: %d deliveries", name, n)
				}
			}
			if n := len(m.acted) + len(m.rejected) + len(slices.Concat(m.acks()...)); n != len(titles)*(1+btoi(name == "to act on")) {
				t.Errorf("%s: acted on %d, rejected %d, acknowledged %d", name, len(m.acted), len(m.rejected), len(m.acks()))
			}
		})
	}
}

// req: ACK-06
func TestEachReceiptHasItsOwnNote(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.Status(503, 1).On(ma2htest.InboxAck)) // so that they gather
		ids := m.send("1", "2", "3", "2", "1")
		m.consume(time.Minute, func(o *ma2h.ConsumeOptions) {
			o.Concurrency = 5
			o.Note = func(d *ma2h.Directive) string { return "done " + d.Title() }
		})
		for _, id := range ids {
			d, _ := m.hub.Directive(id)
			if d.Delivery.Ack == nil || d.Delivery.Ack.Note != "done "+d.Title {
				t.Errorf("%s: receipt %+v", d.Title, d.Delivery.Ack)
			}
		}
		if n := len(m.acks()); n > 5 {
			t.Errorf("%d acknowledgments", n)
		}
	})
}

func TestWhatIsDoneIsForgotten(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.failing["1"], m.failing["2"] = errors.New("no"), ma2h.ErrOutcomeUnknown
		m.send("1", "2")
		m.consume(30 * time.Second)
		if attempts, lettered := m.inbox.Remembered(); attempts != 1 || lettered != 1 {
			t.Errorf("%d attempts, %d letters", attempts, lettered)
		}
		clear(m.failing)
		m.consume(5*time.Minute, func(o *ma2h.ConsumeOptions) {
			o.InDoubt = func(context.Context, ma2h.Act) (ma2h.Doubt, error) { return ma2h.ActAgain, nil }
		})
		slices.Sort(m.acted)
		m.wantActed("1", "2")
		if attempts, lettered := m.inbox.Remembered(); attempts != 0 || lettered != 0 {
			t.Errorf("%d attempts, %d letters are kept", attempts, lettered)
		}
	})
}

// report: B085
func TestAWindowIsCountedFromWhenTheHubOpenedIt(t *testing.T) {
	// The Hub takes the directive out, and its answer is long on the way.
	const slow = 10 * time.Second
	setup := mailSetup{wire: func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := rt.RoundTrip(r)
			if strings.HasSuffix(r.URL.Path, "/inbox") {
				time.Sleep(slow)
			}
			return resp, err
		})
	}}
	withMail(t, setup, func(t *testing.T, m *mail) {
		m.send("pause deploys")
		entries, err := m.inbox.Drain(t.Context(), ma2h.DrainOptions{})
		if err != nil || len(entries) != 1 {
			t.Fatal(len(entries), err)
		}
		if left := time.Until(entries[0].Lapses()); left != time.Minute-slow {
			t.Errorf("the Hub's window ends in %s, and is taken to end in %s", time.Minute-slow, left)
		}
	})
}

// Once the caller has stopped, the Hub is not asked again, wherever the loop
// was.
func TestAConsumerThatWasStoppedSendsNothingMore(t *testing.T) {
	for name, row := range map[string]struct {
		stopped time.Duration // after a drain that brought something, or nothing
		act     time.Duration
	}{
		"during an act that takes the only hand": {time.Second, 5 * time.Second},
		"during the pause":                       {1500 * time.Millisecond, 0},
	} {
		for range 8 { // a select chooses by chance
			var stop context.CancelFunc
			var stopped atomic.Bool
			after := 0
			setup := mailSetup{hub: ma2htest.Options{}, wire: func(rt http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					drain := strings.HasSuffix(r.URL.Path, "/inbox")
					if stopped.Load() && drain {
						after++
					}
					if drain && row.act == 0 {
						return canned(200, `{"messages":[]}`), nil // a Hub that does not hold
					}
					return rt.RoundTrip(r)
				})
			}}
			withMail(t, setup, func(t *testing.T, m *mail) {
				m.slow = row.act
				m.send("pause deploys", "resume deploys")
				ctx, cancel := context.WithCancel(t.Context())
				stop = func() { stopped.Store(true); cancel() }
				time.AfterFunc(row.stopped, stop)
				begin := time.Now()
				wants(t, m.inbox.Consume(ctx, m.handle, m.options()), context.Canceled)
				if took := time.Since(begin); after != 0 || took != max(row.stopped, row.act) {
					t.Errorf("%s: %d drains after it, ended after %s", name, after, took)
				}
			})
		}
	}
}

// slowLedger takes its time to reserve.
type slowLedger struct{ *spyStore }

func (s slowLedger) Reserve(ctx context.Context, act ma2h.Act, lease time.Duration, takeDoubt bool) (ma2h.Reservation, error) {
	time.Sleep(10 * time.Second)
	return s.spyStore.Reserve(ctx, act, lease, takeDoubt)
}

// A batch of which nothing is known yet does not hold up the end.
func TestAStopWhileTheBatchBeforeIsUnderWayEndsWell(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.inbox.SetLedger(slowLedger{m.store})
		m.send("1", "2", "3")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		err := m.inbox.Consume(ctx, m.handle, m.options(func(o *ma2h.ConsumeOptions) { o.Concurrency = 2 }))
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ma2h.ErrOutcomeUnknown) || took > 25*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// report: B088
func TestAnActThatEndsWhenItIsToldIsWaitedFor(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.slow = time.Hour
		m.send("pause deploys")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		err := m.inbox.Consume(ctx, m.handle, m.options(func(o *ma2h.ConsumeOptions) { o.Grace = 7 * time.Second }))
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ma2h.ErrOutcomeUnknown) || took != 17*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// req: INB-15
func TestAnEntryIsLeftWhileThereAreNoKeysAndRejectedByNobody(t *testing.T) {
	down := true
	setup := mailSetup{keys: func(hub *ma2htest.Hub) ma2h.KeyRing {
		return ma2h.KeysFunc(func(context.Context) ([]ma2h.Key, error) {
			if down {
				return nil, errors.New("down")
			}
			return []ma2h.Key{ma2h.HMACKey(hub.SigningSecret())}, nil
		})
	}}
	withMail(t, setup, func(t *testing.T, m *mail) {
		ids := m.send("pause deploys")
		m.consume(90 * time.Second)
		m.wantActed()
		if len(m.rejected) != 0 || m.deliveries(ids[0]) < 2 {
			t.Errorf("rejected %v after %d deliveries", m.rejected, m.deliveries(ids[0]))
		}
		down = false
		m.consume(2 * time.Minute)
		m.wantActed("pause deploys")
		if len(m.rejected) != 0 {
			t.Errorf("rejected %v", m.rejected)
		}
	})
}

// req: INB-12
// report: B085
func TestWhatCouldNotBeJudgedWithinItsWindowIsNotBegun(t *testing.T) {
	first := true
	setup := mailSetup{keys: func(hub *ma2htest.Hub) ma2h.KeyRing {
		return ma2h.KeysFunc(func(context.Context) ([]ma2h.Key, error) {
			if first {
				first = false
				time.Sleep(61 * time.Second)
			}
			return []ma2h.Key{ma2h.HMACKey(hub.SigningSecret())}, nil
		})
	}}
	withMail(t, setup, func(t *testing.T, m *mail) {
		ids := m.send("pause deploys")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		wants(t, m.inbox.Consume(ctx, func(ctx context.Context, d *ma2h.Directive) error {
			if n := m.deliveries(ids[0]); n < 2 {
				t.Errorf("acted on in a window that was over, at delivery %d", n)
			}
			return m.handle(ctx, d)
		}, m.options()), context.DeadlineExceeded)
		m.wantActed("pause deploys")
	})
}

// The Authorize of a caller is asked about authors that are proved, and a
// rejection has the reason that it has.
//
// req: INB-14 INB-15
func TestAForgeryIsReportedAsOneAndItsAuthorIsAskedAboutByNobody(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.hub.Fault(ma2htest.CorruptDirectiveSignature(0))
		m.send("pause deploys")
		m.consume(2*time.Minute, func(o *ma2h.ConsumeOptions) {
			o.Authorize = func(from string) bool { t.Errorf("asked about %q", from); return true }
		})
		m.wantActed()
		if len(m.rejected) != 1 || !errors.Is(m.rejected[0], ma2h.ErrSignature) || errors.Is(m.rejected[0], ma2h.ErrNotAuthorized) {
			t.Errorf("rejected %v", m.rejected)
		}
	})
}

// lyingLedger says that all is done, and that it does not know.
type lyingLedger struct{ *spyStore }

func (lyingLedger) Lookup(context.Context, ma2h.Act) (ma2h.ActState, error) {
	return ma2h.ActDone, errors.New("down")
}

func TestAStoreThatFailsSaysNothingWhateverItSaysBeside(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.failing["pause deploys"] = errors.New("no")
		m.send("pause deploys")
		m.consume(30*time.Second, func(o *ma2h.ConsumeOptions) { o.MaxAttempts = 1 })
		m.wantBuried("pause deploys")
		m.inbox.SetLedger(lyingLedger{m.store})
		m.consume(3 * time.Minute)
		m.wantActed()
		m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
	})
}

// req: INB-14
func TestAnErrorOfOnRejectAboutAReplayEndsTheConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := mailOf(t, signedRow(t, trustDirective, "j"))
		if entries, err := in.Drain(t.Context(), ma2h.DrainOptions{}); err != nil || len(entries) != 1 {
			t.Fatal(len(entries), err)
		}
		stop := errors.New("stop")
		wants(t, in.Consume(t.Context(), func(context.Context, *ma2h.Directive) error { t.Error("acted"); return nil }, ma2h.ConsumeOptions{
			Authorize: ma2h.AllowFrom(alice),
			OnReject:  func(context.Context, *ma2h.RejectedError) error { return stop },
		}), stop)
	})
}

func TestAConsumerThatGaveUpOnTooManyEndsAndSaysSo(t *testing.T) {
	for _, failure := range []error{errors.New("no"), ma2h.ErrOutcomeUnknown} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			m.inbox.GiveUpOnTooMany()
			m.failing["pause deploys"] = failure
			m.send("pause deploys")
			wants(t, m.inbox.Consume(t.Context(), m.handle, m.options(func(o *ma2h.ConsumeOptions) { o.MaxAttempts = 1 })), ma2h.ErrStoreFull)
			m.wantBuried()
			m.hub.RequireRequests(t, ma2htest.InboxAck, 0)
		})
	}
}

// req: INB-12
func TestAnActOfUnknownOutcomeIsThePolicysAndGoesToNobodyElse(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.failing["pause deploys"] = ma2h.ErrOutcomeUnknown
		ids := m.send("pause deploys")
		m.consume(5*time.Minute, func(o *ma2h.ConsumeOptions) {
			o.InDoubt = func(context.Context, ma2h.Act) (ma2h.Doubt, error) {
				m.mu.Lock()
				defer m.mu.Unlock()
				clear(m.failing)
				return ma2h.ActAgain, nil
			}
		})
		m.wantActed("pause deploys")
		m.wantBuried()
		m.hub.RequireDelivery(t, ids[0], types.Acknowledged)
	})
}

// Hooks that are not set are not called, and one that is set is all that is
// told.
func TestAConsumerWithoutHooksHasNothingThatPanics(t *testing.T) {
	withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
		m.failing["2"], m.failing["3"] = errors.New("no"), ma2h.ErrOutcomeUnknown
		m.send("1", "2", "3")
		m.consume(3*time.Minute, func(o *ma2h.ConsumeOptions) { o.MaxAttempts = 1 })
		m.wantActed("1")
		slices.Sort(m.buried)
		m.wantBuried("2", "3")
		if log := m.log.String(); strings.Contains(log, ma2h.ErrPanicked.Error()) || strings.Contains(log, "gave up on directive") {
			t.Errorf("the log says %s", log)
		}
	})
}

// req: ACK-06
func TestANoteIsCutToWhatAHubTakes(t *testing.T) {
	for note, want := range map[string]string{
		"done":                                        "done",
		strings.Repeat("a", ma2h.MaxNote):             strings.Repeat("a", ma2h.MaxNote),
		strings.Repeat("a", ma2h.MaxNote) + "b":       strings.Repeat("a", ma2h.MaxNote),
		strings.Repeat("a", ma2h.MaxNote-1) + "ö":     strings.Repeat("a", ma2h.MaxNote-1),
		strings.Repeat("ö", ma2h.MaxNote):             strings.Repeat("ö", ma2h.MaxNote/2),
		"bad \xff UTF-8":                              "bad \ufffd UTF-8",
		strings.Repeat("a", ma2h.MaxNote-2) + "\xffb": strings.Repeat("a", ma2h.MaxNote-2),
	} {
		withMail(t, mailSetup{}, func(t *testing.T, m *mail) {
			ids := m.send("pause deploys")
			m.consume(time.Minute, func(o *ma2h.ConsumeOptions) { o.Note = func(*ma2h.Directive) string { return note } })
			if d, _ := m.hub.Directive(ids[0]); d.Delivery.Ack == nil || d.Delivery.Ack.Note != want {
				t.Errorf("a note of %d bytes: receipt %+v", len(note), d.Delivery.Ack)
			}
		})
	}
}
