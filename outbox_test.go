package ma2h_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// run is a process of the agent: a client of its own, a run id of its own and
// the outbox that outlives it.
func run(t testing.TB, hub *ma2htest.Hub, id string, box ma2h.Outbox, edits ...func(*ma2h.Config)) *ma2h.Client {
	t.Helper()
	cfg := hub.Config(asker)
	cfg.Agent.RunID, cfg.Outbox = id, box
	return connect(t, cfg, edits...)
}

// withOutbox runs f in a bubble with a Hub and an outbox in memory.
func withOutbox(t *testing.T, f func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, ma2htest.NewHub(t), memory(t)) })
}

func memory(t testing.TB) *ma2h.MemoryStore {
	t.Helper()
	box, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	mustNot(t, err)
	return box
}

// submits are the bodies of all submits that reached the Hub.
func submits(hub *ma2htest.Hub) (list [][]byte) {
	for _, r := range hub.Requests() {
		if r.Endpoint == ma2htest.Submit {
			list = append(list, r.Body)
		}
	}
	return list
}

func sealed(t testing.TB, plan string) types.Raw {
	t.Helper()
	state, err := sealer(t).Seal(map[string]string{"plan": plan}, ma2h.Bind(asker, "k"))
	mustNot(t, err)
	return state
}

func sealer(t testing.TB) *ma2h.Sealer {
	t.Helper()
	key := sha256.Sum256([]byte("a key of this test"))
	s, err := ma2h.NewSealer(ma2h.SealerConfig{AgentID: asker, Keys: []ma2h.SealKey{ma2h.SealKeyRaw("k1", key[:])}})
	mustNot(t, err)
	return s
}

// crash submits a until patience ends, with every answer lost.
func crash(t testing.TB, hub *ma2htest.Hub, c *ma2h.Client, a ma2h.Ask, fault ma2htest.Fault) {
	t.Helper()
	hub.Fault(fault)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.Ask(ctx, a)
	if lost, ok := errors.AsType[*ma2h.SubmitError](err); !ok || lost.Key != a.IdempotencyKey {
		t.Fatalf("%v, not a SubmitError with the key", err)
	}
	hub.Heal()
}

// req: SUB-12 SUB-13 STA-07
// report: B016 B018
func TestARestartedAgentSendsTheSameBytesAndGetsTheSameMessage(t *testing.T) {
	for name, fault := range map[string]ma2htest.Fault{
		"its answers were lost":     ma2htest.LoseAck(0),
		"its requests were not met": ma2htest.ResetBefore(0),
		"the Hub was down":          ma2htest.Status(503, 0),
	} {
		t.Run(name, func(t *testing.T) {
			withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
				first := shipOrHold("k")
				first.State = sealed(t, "of the first run")
				first.ExpiresAt = time.Now().Add(24 * time.Hour)
				crash(t, hub, run(t, hub, "run_1", box), first, fault)

				time.Sleep(time.Hour)
				again := shipOrHold("k")
				again.State = sealed(t, "of the second run")
				again.ExpiresAt = time.Now().Add(24 * time.Hour)
				c := run(t, hub, "run_2", box)
				id := mustAsk(t, c, again)
				if id2 := mustAsk(t, c, again); id2 != id {
					t.Errorf("asked again, the id is %s and not %s", id2, id)
				}
				hub.RequireMessages(t, 1)
				all := submits(hub)
				for i, body := range all {
					if !bytes.Equal(body, all[0]) {
						t.Errorf("attempt %d of %d differs from the first", i+1, len(all))
					}
				}

				mustNot(t, hub.Answer(id, "ship", ma2htest.By(alice)))
				r, err := c.Wait(t.Context(), id)
				mustNot(t, err)
				var state map[string]string
				mustNot(t, sealer(t).Open(r.State(), &state, ma2h.Bind(asker, "k")))
				if state["plan"] != "of the first run" {
					t.Errorf("the state is %q", state["plan"])
				}
			})
		})
	}
}

// req: SUB-12
// report: B018
func TestWithoutAnOutboxARestartedAgentGetsAConflictAndNoSecondMessage(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.MemoryStore) {
		crash(t, hub, run(t, hub, "run_1", nil), shipOrHold("k"), ma2htest.LoseAck(0))
		time.Sleep(time.Hour)
		_, err := run(t, hub, "run_2", nil).Ask(t.Context(), shipOrHold("k"))
		if _, ok := errors.AsType[*ma2h.ConflictError](err); !ok {
			t.Errorf("%v, not a ConflictError", err)
		}
		hub.RequireMessages(t, 1)
	})
}

func TestAnAgentThatAsksAgainHearsWhatHasBeenDecidedSince(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
		id := mustAsk(t, run(t, hub, "run_1", box), shipOrHold("k"))
		mustNot(t, hub.Answer(id, "hold", ma2htest.By(alice)))
		time.Sleep(time.Hour)
		ack, err := run(t, hub, "run_2", box).Ask(t.Context(), shipOrHold("k"))
		mustNot(t, err)
		if ack.ID != id || ack.Status != types.StatusAnswered || ack.Key != "k" {
			t.Errorf("ack %+v", ack)
		}
		if h := ack.Handle(); h.AgentID != asker || h.MessageID != id {
			t.Errorf("handle %+v", h)
		}
	})
}

// report: B018
func TestAChangedQuestionUnderAnOldKeyIsALocalErrorThatNamesTheFields(t *testing.T) {
	base := func() ma2h.Ask {
		a := shipOrHold("k")
		a.Body, a.Tags = "See the canary", []string{"deploy", "prod"}
		return a
	}
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for _, c := range []struct {
		name   string
		first  func(*ma2h.Ask)
		change func(*ma2h.Ask)
		config func(*ma2h.Config)
		fields []string // nil: it is the same question
	}{
		{name: "nothing", fields: nil},
		{name: "the run", config: func(c *ma2h.Config) { c.Agent.RunID = "run_3" }},
		{name: "the state", change: func(a *ma2h.Ask) { a.State = sealed(t, "canary") }},
		{name: "a state that was none", first: func(a *ma2h.Ask) { a.State = sealed(t, "canary") }},
		{name: "a deadline as far away as before", first: func(a *ma2h.Ask) { a.ExpiresAt = in(time.Hour) }, change: func(a *ma2h.Ask) { a.ExpiresAt = in(time.Hour + time.Minute) }},
		{name: "a deadline at the same time", first: func(a *ma2h.Ask) { a.ExpiresAt = in(72 * time.Hour) }, change: func(a *ma2h.Ask) { a.ExpiresAt = in(71 * time.Hour) }},
		{
			name: "another deadline", first: func(a *ma2h.Ask) { a.ExpiresAt = in(time.Hour) },
			change: func(a *ma2h.Ask) { a.ExpiresAt = in(time.Hour + time.Minute + time.Second) }, fields: []string{"expires_at"},
		},
		{name: "a deadline that was none", change: func(a *ma2h.Ask) { a.ExpiresAt = in(time.Hour) }, fields: []string{"expires_at"}},
		{name: "no deadline", first: func(a *ma2h.Ask) { a.ExpiresAt = in(time.Hour) }, fields: []string{"expires_at"}},
		{name: "the title", change: func(a *ma2h.Ask) { a.Title = "canary" }, fields: []string{"title"}},
		{name: "the body", change: func(a *ma2h.Ask) { a.Body = "" }, fields: []string{"body"}},
		{name: "the priority", change: func(a *ma2h.Ask) { a.Priority = ma2h.High }, fields: []string{"priority"}},
		{name: "the order of tags", change: func(a *ma2h.Ask) { slices.Reverse(a.Tags) }, fields: []string{"tags"}},
		{name: "an attachment", change: func(a *ma2h.Ask) { a.Context = []ma2h.Part{ma2h.Text("canary")} }, fields: []string{"context"}},
		{name: "the label", change: func(a *ma2h.Ask) { a.ClientRef = "canary" }, fields: []string{"client_ref"}},
		{name: "what is sensitive", change: func(a *ma2h.Ask) { a.Sensitive = true }, fields: []string{"sensitive"}},
		{
			name: "who may answer and the options", change: func(a *ma2h.Ask) {
				a.AllowedResolvers = append(a.AllowedResolvers, "human:canary")
				a.Request = ma2h.Select(ma2h.Option{Value: "ship", Label: "canary"}, ma2h.Option{Value: "hold", Label: "Hold"})
			}, fields: []string{"request.allowed_resolvers", "request.options"},
		},
		{name: "the mode", change: func(a *ma2h.Ask) { a.Request = ma2h.Confirm() }, fields: []string{"request.mode", "request.options"}},
		{name: "the callback", change: func(a *ma2h.Ask) { a.Callback = ma2h.PushTo("https://canary.example/") }, fields: []string{"request.callback"}},
		{name: "the runtime", config: func(c *ma2h.Config) { c.Agent.Runtime = ma2h.RuntimeCloud }, fields: []string{"agent.runtime"}},
		{name: "the project", config: func(c *ma2h.Config) { c.Agent.Project = "canary" }, fields: []string{"agent.project"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
				first, again := base(), base()
				if c.first != nil {
					c.first(&first)
				}
				id := mustAsk(t, run(t, hub, "run_1", box), first)
				time.Sleep(time.Hour)
				hub.ForgetRequests()
				if c.change != nil {
					c.change(&again)
				} else if c.first != nil && c.fields == nil {
					again.State = nil
				}
				agent := run(t, hub, "run_2", box)
				if c.config != nil {
					agent = run(t, hub, "run_2", box, c.config)
				}
				ack, err := agent.Ask(t.Context(), again)
				hub.RequireMessages(t, 1)
				if c.fields == nil {
					mustNot(t, err)
					if ack.ID != id {
						t.Errorf("id %s, not %s", ack.ID, id)
					}
					return
				}
				mismatch, ok := errors.AsType[*ma2h.OutboxMismatchError](err)
				if !ok || mismatch.Key != "k" || !slices.Equal(mismatch.Fields, c.fields) {
					t.Fatalf("%v, not a mismatch of %v", err, c.fields)
				}
				wants(t, err, ma2h.ErrIdempotencyConflict)
				if strings.Contains(err.Error(), "canary") {
					t.Errorf("content in %q", err)
				}
				if n := len(hub.Requests()); n != 0 {
					t.Errorf("%d requests were sent", n)
				}
			})
		})
	}
	t.Run("another verb", func(t *testing.T) {
		withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
			c := run(t, hub, "run_1", box)
			mustAsk(t, c, shipOrHold("k"))
			_, err := c.Task(t.Context(), rotate("k"))
			mismatch, ok := errors.AsType[*ma2h.OutboxMismatchError](err)
			if !ok || !slices.Contains(mismatch.Fields, "type") {
				t.Errorf("%v, not a mismatch of the type", err)
			}
			hub.RequireMessages(t, 1)
		})
	})
}

// report: B021
func TestAKeyThatTheHubHasForgottenIsNotSentAgainUnlessNamed(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		name bool
		want error
	}{
		{age: 24*time.Hour - 11*time.Second},
		{age: 24 * time.Hour, want: ma2h.ErrKeyExpired},
		{age: 72 * time.Hour, want: ma2h.ErrKeyExpired},
		{age: 72 * time.Hour, name: true},
	} {
		t.Run(fmt.Sprint(c.age, " named: ", c.name), func(t *testing.T) {
			withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
				crash(t, hub, run(t, hub, "run_1", box), shipOrHold("k"), ma2htest.LoseAck(0))
				sent := submits(hub)
				time.Sleep(c.age)
				hub.ForgetRequests()
				a := shipOrHold("k")
				a.ResendExpiredKey = c.name
				if c.name {
					hub.Fault(ma2htest.Status(503, 1).On(ma2htest.Submit)) // resent as any other
				}
				_, err := run(t, hub, "run_2", box).Ask(t.Context(), a)
				wants(t, err, c.want)
				if c.want != nil {
					if n := len(hub.Requests()); n != 0 {
						t.Errorf("%d requests were sent", n)
					}
					return
				}
				if again := submits(hub); len(again) != 1+btoi(c.name) || !bytes.Equal(again[0], sent[0]) || !bytes.Equal(again[len(again)-1], sent[0]) {
					t.Errorf("%d submits, or another one than before", len(again))
				}
			})
		})
	}
}

// report: B021
func TestAKeyThatTheHubForgetsMeanwhileIsNotSentAgain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, acked := range []bool{false, true} {
		t.Run(fmt.Sprint("with an ack on record: ", acked), func(t *testing.T) {
			withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
				first := ""
				if acked {
					first = mustAsk(t, run(t, hub, "run_1", box), shipOrHold("k"))
				} else {
					crash(t, hub, run(t, hub, "run_1", box), shipOrHold("k"), ma2htest.LoseAck(0))
				}
				time.Sleep(23 * time.Hour)
				hub.ForgetRequests()
				up := time.Now().Add(2 * time.Hour)
				c := run(t, hub, "run_2", box, func(c *ma2h.Config) {
					base := c.HTTPClient.Transport
					c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
						if time.Now().Before(up) {
							return nil, refused
						}
						return base.RoundTrip(r)
					})}
				})
				ack, err := c.Ask(t.Context(), shipOrHold("k"))
				if acked {
					mustNot(t, err)
					if ack.ID != first {
						t.Errorf("the id is %s, not %s", ack.ID, first)
					}
				} else if lost, ok := errors.AsType[*ma2h.SubmitError](err); !ok || !lost.Unknown || !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%v, not a SubmitError of unknown outcome", err)
				}
				if n := len(submits(hub)); n != 0 {
					t.Errorf("%d submits after the Hub's day", n)
				}
				hub.RequireMessages(t, 1)
			})
		})
	}
}

// Attempts that cannot have been taken do not age a new question.
//
// report: B021
func TestANewQuestionOutlastsAnOutageOfMoreThanADay(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
		up := time.Now().Add(30 * time.Hour)
		c := run(t, hub, "run_1", box, func(c *ma2h.Config) {
			base := c.HTTPClient.Transport
			c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if time.Now().Before(up) && r.Method == http.MethodPost {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				}
				return base.RoundTrip(r)
			})}
		})
		mustAsk(t, c, shipOrHold("k"))
		hub.RequireMessages(t, 1)
	})
}

// report: B021
func TestAnAckOnRecordOutlivesTheHubsMemoryOfTheKey(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
		first, err := run(t, hub, "run_1", box).Ask(t.Context(), shipOrHold("k"))
		mustNot(t, err)
		time.Sleep(24 * time.Hour)
		hub.ForgetRequests()
		ack, err := run(t, hub, "run_2", box).Ask(t.Context(), shipOrHold("k"))
		mustNot(t, err)
		if *ack != *first {
			t.Errorf("%+v, not %+v", ack, first)
		}
		if n := len(hub.Requests()); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

func TestAHubThatForgotItsKeyTooSoonIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, box := ma2htest.NewHub(t, ma2htest.Options{KeyTTL: time.Hour}), memory(t)
		id := mustAsk(t, run(t, hub, "run_1", box), shipOrHold("k"))
		time.Sleep(2 * time.Hour)
		ack, err := run(t, hub, "run_2", box).Ask(t.Context(), shipOrHold("k"))
		wants(t, err, ma2h.ErrProtocol)
		if ack == nil || ack.ID != id {
			t.Errorf("ack %+v, not of the first message", ack)
		}
		hub.RequireMessages(t, 2)
		c := run(t, hub, "run_3", box, func(c *ma2h.Config) { c.KeyRetention = time.Hour })
		if again := mustAsk(t, c, shipOrHold("k")); again != id {
			t.Errorf("with the Hub's KeyRetention the id is %s, not %s", again, id)
		}
	})
}

// faulty is an outbox some of whose calls fail.
type faulty struct {
	ma2h.Outbox
	get, put, ack, drop error
}

func (f faulty) DropSubmit(ctx context.Context, key ma2h.SubmitKey) error {
	if f.drop != nil {
		return f.drop
	}
	return f.Outbox.DropSubmit(ctx, key)
}

func (f faulty) GetSubmit(ctx context.Context, key ma2h.SubmitKey) (ma2h.Submit, error) {
	if f.get != nil {
		return ma2h.Submit{}, f.get
	}
	return f.Outbox.GetSubmit(ctx, key)
}

func (f faulty) PutSubmit(ctx context.Context, key ma2h.SubmitKey, body []byte) (ma2h.Submit, error) {
	if f.put != nil {
		return ma2h.Submit{}, f.put
	}
	return f.Outbox.PutSubmit(ctx, key, body)
}

func (f faulty) AckSubmit(ctx context.Context, key ma2h.SubmitKey, ack []byte) error {
	if f.ack != nil {
		return f.ack
	}
	return f.Outbox.AckSubmit(ctx, key, ack)
}

func TestAnOutboxThatIsDownBeforeTheFirstAttemptStopsIt(t *testing.T) {
	down := errors.New("down")
	for name, box := range map[string]faulty{"at the look": {get: down}, "at the put": {put: down}} {
		t.Run(name, func(t *testing.T) {
			withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, store *ma2h.MemoryStore) {
				box.Outbox = store
				_, err := run(t, hub, "run_1", box).Ask(t.Context(), shipOrHold("k"))
				wants(t, err, ma2h.ErrStoreUnavailable)
				wants(t, err, down)
				hub.RequireMessages(t, 0)
				if n := len(submits(hub)); n != 0 {
					t.Errorf("%d submits were sent", n)
				}
				hub.ForgetRequests()
				box.get, box.put = nil, nil
				mustAsk(t, run(t, hub, "run_1", box), shipOrHold("k"))
			})
		})
	}
}

func TestAnAckThatCannotBeKeptIsAnAckAllTheSame(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, store *ma2h.MemoryStore) {
		var log bytes.Buffer
		box := faulty{Outbox: store, ack: errors.New("down")}
		id := mustAsk(t, run(t, hub, "run_1", box, func(c *ma2h.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }), shipOrHold("k"))
		if !strings.Contains(log.String(), "ack not kept") || strings.Contains(log.String(), "Ship") {
			t.Errorf("the log is %q", log.String())
		}
		if again := mustAsk(t, run(t, hub, "run_2", store), shipOrHold("k")); again != id {
			t.Errorf("id %s, not %s", again, id)
		}
		hub.RequireMessages(t, 1)
	})
}

func TestAMessageThatTheHubRefusedLeavesItsKeyFreeForABetterOne(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
		c := run(t, hub, "run_1", box)
		hub.Fault(ma2htest.Status(422, 1))
		_, err := c.Ask(t.Context(), shipOrHold("k"))
		wants(t, err, ma2h.ErrInvalidField)
		better := shipOrHold("k")
		better.Title = "Ship 1.4.1 to prod?"
		mustAsk(t, c, better)
		hub.RequireMessages(t, 1)
	})
}

func TestARefusalAfterAnAttemptOfUnknownFateKeepsTheMessage(t *testing.T) {
	for name, earlier := range map[string]func(testing.TB, *ma2htest.Hub, *ma2h.MemoryStore){
		"in this run": func(_ testing.TB, hub *ma2htest.Hub, _ *ma2h.MemoryStore) { hub.Fault(ma2htest.LoseAck(1)) },
		"in a run before": func(t testing.TB, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
			crash(t, hub, run(t, hub, "run_0", box), shipOrHold("k"), ma2htest.LoseAck(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
				earlier(t, hub, box)
				hub.Fault(ma2htest.Status(401, 1))
				c := run(t, hub, "run_1", box)
				_, err := c.Ask(t.Context(), shipOrHold("k"))
				wants(t, err, ma2h.ErrUnauthenticated)
				better := shipOrHold("k")
				better.Title = "Ship 1.4.1 to prod?"
				_, err = c.Ask(t.Context(), better)
				if _, ok := errors.AsType[*ma2h.OutboxMismatchError](err); !ok {
					t.Errorf("%v, not a mismatch", err)
				}
				mustAsk(t, c, shipOrHold("k"))
				hub.RequireMessages(t, 1)
			})
		})
	}
}

// report: B022
func TestFiftyAsksUnderOneKeyFromManyRunsAreOneMessage(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
		ids := make([]string, 50)
		var done sync.WaitGroup
		for i := range ids {
			c := run(t, hub, fmt.Sprint("run_", i), box)
			done.Go(func() {
				time.Sleep(time.Duration(i%7) * time.Millisecond)
				ack, err := c.Ask(t.Context(), shipOrHold("k"))
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = ack.ID
			})
		}
		done.Wait()
		hub.RequireMessages(t, 1)
		for i, id := range ids {
			if id != ids[0] {
				t.Errorf("ask %d got %s, not %s", i, id, ids[0])
			}
		}
	})
}

func TestANotifyGoesThroughTheOutboxOnlyWithAKey(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
		c := run(t, hub, "run_1", box)
		for range 2 {
			_, err := c.Notify(t.Context(), ma2h.Notify{Title: "Digest"})
			mustNot(t, err)
		}
		hub.RequireMessages(t, 2)
		for i := range 2 {
			_, err := run(t, hub, fmt.Sprint("run_", i), box).Notify(t.Context(), ma2h.Notify{Title: "Digest", IdempotencyKey: "k"})
			mustNot(t, err)
			time.Sleep(time.Second)
		}
		hub.RequireMessages(t, 3)
	})
}

func TestAnEntryThatCannotBeReadIsNotSent(t *testing.T) {
	for name, entry := range map[string]struct{ body, ack, says string }{
		"no JSON":           {body: "{", says: "at byte 1"},
		"two of a name":     {body: `{"title":"a","title":"b"}`, says: "duplicate"},
		"an array":          {body: `[]`},
		"an ack without id": {ack: `{"status":"open"}`},
		"an ack of no type": {ack: `{"id":"msg_1","status":7}`},
		"an ack of no JSON": {ack: `x`},
	} {
		t.Run(name, func(t *testing.T) {
			withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
				key := ma2h.SubmitKey{Hub: hub.MemoryURL(), AgentID: asker, Key: "k"}
				if entry.body == "" {
					mustAsk(t, run(t, hub, "run_1", faulty{Outbox: box, ack: errors.New("down")}), shipOrHold("k"))
					mustNot(t, box.AckSubmit(t.Context(), key, []byte(entry.ack)))
				} else {
					_, err := box.PutSubmit(t.Context(), key, []byte(entry.body))
					mustNot(t, err)
				}
				hub.ForgetRequests()
				_, err := run(t, hub, "run_2", box).Ask(t.Context(), shipOrHold("k"))
				wants(t, err, ma2h.ErrMalformed)
				if !strings.Contains(err.Error(), entry.says) {
					t.Errorf("%v does not say %q", err, entry.says)
				}
				if n := len(hub.Requests()); n != 0 {
					t.Errorf("%d requests were sent", n)
				}
			})
		})
	}
}

// What is kept is compared as it is, whatever wrote it.
//
// report: B021
func TestAMemberOfAnotherShapeIsADifference(t *testing.T) {
	for field, edit := range map[string]func(string) string{
		"action":     func(body string) string { return strings.Replace(body, "{", `{"action":7,`, 1) },
		"expires_at": func(body string) string { return strings.Replace(body, "{", `{"expires_at":"never",`, 1) },
		"agent": func(body string) string {
			return regexp.MustCompile(`"agent":\{[^}]*\}`).ReplaceAllString(body, `"agent":7`)
		},
	} {
		withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
			crash(t, hub, run(t, hub, "run_1", memory(t)), shipOrHold("k"), ma2htest.LoseAck(0))
			sent := submits(hub)
			body := edit(string(sent[0]))
			if body == string(sent[0]) {
				t.Fatal(field, body)
			}
			_, err := box.PutSubmit(t.Context(), ma2h.SubmitKey{Hub: hub.MemoryURL(), AgentID: asker, Key: "k"}, []byte(body))
			mustNot(t, err)
			_, err = run(t, hub, "run_2", box).Ask(t.Context(), shipOrHold("k"))
			other, ok := errors.AsType[*ma2h.OutboxMismatchError](err)
			if !ok || !slices.Contains(other.Fields, field) || len(submits(hub)) != len(sent) {
				t.Errorf("%s: %v, %d submits", field, err, len(submits(hub))-len(sent))
			}
		})
	}
}

func TestTheMembersThatDifferAreNamedInOrder(t *testing.T) {
	for range 10 { // maps are walked by chance
		withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
			mustAsk(t, run(t, hub, "run_1", box), shipOrHold("k"))
			a := shipOrHold("k")
			a.Title, a.Body, a.Tags, a.Priority, a.Sensitive = "Hold?", "b", []string{"t"}, ma2h.Urgent, true
			_, err := run(t, hub, "run_2", box).Ask(t.Context(), a)
			if other, ok := errors.AsType[*ma2h.OutboxMismatchError](err); !ok || !slices.Equal(other.Fields, []string{"body", "priority", "sensitive", "tags", "title"}) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A question that is no message is not compared with one that was.
func TestAQuestionThatCannotBeWrittenIsNotTheKeptOne(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
		mustAsk(t, run(t, hub, "run_1", box), shipOrHold("k"))
		hub.ForgetRequests()
		for _, state := range []string{`{"a":}`, `{"a":1,"a":2}`} {
			a := shipOrHold("k")
			a.State = types.Raw(state)
			ack, err := run(t, hub, "run_2", box).Ask(t.Context(), a)
			if err == nil || ack != nil || len(hub.Requests()) != 0 {
				t.Errorf("%s: %v, %v, %d requests", state, ack, err, len(hub.Requests()))
			}
		}
	})
}

// Only a Hub that has said no frees a key.
func TestWhatNeverLeftTheMachineStaysInTheOutbox(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, box *ma2h.MemoryStore) {
		c := run(t, hub, "run_1", box, func(c *ma2h.Config) {
			base := c.HTTPClient.Transport
			c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					return nil, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
				}
				return base.RoundTrip(r)
			})}
		})
		_, err := c.Ask(t.Context(), shipOrHold("k"))
		if _, refused := errors.AsType[*ma2h.APIError](err); err == nil || refused {
			t.Fatal(err)
		}
		kept, err := box.GetSubmit(t.Context(), ma2h.SubmitKey{Hub: hub.MemoryURL(), AgentID: asker, Key: "k"})
		if err != nil || kept.Body == nil {
			t.Errorf("%v, %v", kept, err)
		}
	})
}

func TestAKeyThatCannotBeFreedIsLogged(t *testing.T) {
	for _, drop := range []error{nil, errors.New("down")} {
		withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, store *ma2h.MemoryStore) {
			var log bytes.Buffer
			hub.Fault(ma2htest.Status(422, 1).On(ma2htest.Submit))
			c := run(t, hub, "run_1", faulty{Outbox: store, drop: drop}, func(c *ma2h.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			if _, err := c.Ask(t.Context(), shipOrHold("k")); err == nil {
				t.Error("it was taken")
			}
			if said := strings.Contains(log.String(), "refused message stays in the outbox"); said != (drop != nil) {
				t.Errorf("drop fails with %v, the log says %s", drop, &log)
			}
		})
	}
}

// What is on record is not written again.
func TestAnAckThatIsKeptIsNotKeptAgain(t *testing.T) {
	withOutbox(t, func(t *testing.T, hub *ma2htest.Hub, store *ma2h.MemoryStore) {
		id := mustAsk(t, run(t, hub, "run_1", store), shipOrHold("k"))
		var log bytes.Buffer
		c := run(t, hub, "run_2", faulty{Outbox: store, ack: errors.New("down")}, func(c *ma2h.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if again := mustAsk(t, c, shipOrHold("k")); again != id || strings.Contains(log.String(), "not kept") {
			t.Errorf("%s, not %s, log %s", again, id, &log)
		}
	})
}

func TestKeyRetentionHasABound(t *testing.T) {
	cfg := over(roundTrip(nil))
	cfg.KeyRetention = time.Minute
	connect(t, cfg)
	cfg.KeyRetention--
	_, err := ma2h.NewClient(cfg)
	wantsField(t, err, "Config.KeyRetention")
}

func TestAnEntryOfTheOutboxPrintsNothingOfItsContent(t *testing.T) {
	s := ma2h.Submit{Body: []byte("canary"), Ack: []byte("canary")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if text := fmt.Sprintf(verb, s); strings.Contains(text, "canary") || strings.Contains(text, "63616e617279") {
			t.Errorf("%s prints %q", verb, text)
		}
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "submit", s)
	if strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), "Submit{size=6}") || fmt.Sprint(s) != "Submit{size=6}" {
		t.Errorf("logged %q", log.String())
	}
}
