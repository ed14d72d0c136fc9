package ma2htest_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// req: INB-11 INB-12 SGD-02 ACK-06
func TestADirectiveIsDrainedVerifiedActedOnCommittedAndAcknowledged(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		ids := a.send("pause deploys", "resume deploys")
		a.consume(5*time.Minute, func(o *ma2h.ConsumeOptions) {
			o.Note = func(d *ma2h.Directive) string { return "done: " + d.Title() }
		})
		a.wantActed("pause deploys", "resume deploys")
		for i, id := range ids {
			a.hub.RequireDelivery(t, id, types.Acknowledged)
			d, _ := a.hub.Directive(id)
			if len(d.Deliveries) != 1 || d.Delivery.Ack.Note != "done: "+a.acted[i] || d.Delivery.Ack.By != "agent:"+bot {
				t.Fatalf("%+v, receipt %+v", d, d.Delivery.Ack)
			}
			if state, err := a.ledger.Lookup(t.Context(), ma2h.Act{Key: "directive\x00" + bot + "\x00" + id}); err != nil || state != ma2h.ActDone {
				t.Fatalf("the ledger has %v, %v", state, err)
			}
		}
		if len(a.rejected) != 0 || len(a.buried) != 0 {
			t.Fatalf("rejected %v, buried %v", a.rejected, a.buried)
		}
	})
}

// req: INB-12
func TestAHandlerThatFailsLeavesTheDirectiveToBeDeliveredAgain(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		a.failing["pause deploys"] = 2
		ids := a.send("pause deploys", "resume deploys")
		go func() {
			time.Sleep(90 * time.Second) // two attempts have failed by then
			a.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)
			a.hub.RequireDelivery(t, ids[1], types.Acknowledged)
		}()
		a.consume(5*time.Minute, nil)
		a.wantActed("resume deploys", "pause deploys")
		a.hub.RequireDelivery(t, ids[0], types.Acknowledged)
		if n := a.deliveries(ids[0]); n != 3 {
			t.Fatalf("delivered %d times", n)
		}
	})
}

// req: INB-12 INB-14
func TestADirectiveThatKeepsFailingIsGivenUpOnAndNeverAcknowledged(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		a.failing["pause deploys"] = 99
		ids := a.send("pause deploys", "resume deploys")
		a.consume(20*time.Minute, func(o *ma2h.ConsumeOptions) { o.MaxAttempts = 3 })
		a.wantActed("resume deploys")
		if !slices.Equal(a.buried, []string{"pause deploys"}) || a.failing["pause deploys"] != 96 {
			t.Fatalf("buried %q after %d attempts", a.buried, 99-a.failing["pause deploys"])
		}
		a.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)
		if n := a.deliveries(ids[0]); n < 10 {
			t.Fatalf("delivered %d times", n)
		}
	})
}

// req: INB-13 ACK-06
// report: B090
func TestALostAcknowledgmentIsSentAgainAndTheActIsNot(t *testing.T) {
	for name, fault := range map[string]ma2htest.Fault{
		"consumed, answer lost":   ma2htest.LoseInboxAck(2),
		"never arrived":           ma2htest.ResetBefore(2).On(ma2htest.InboxAck),
		"refused for a while":     ma2htest.Status(503, 2).On(ma2htest.InboxAck),
		"refused for this moment": ma2htest.Status(429, 1, ma2htest.RetryAfter("90")).On(ma2htest.InboxAck),
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, a *agent) {
				a.hub.Fault(fault)
				ids := a.send("pause deploys")
				a.consume(10*time.Minute, nil)
				a.wantActed("pause deploys")
				a.hub.RequireDelivery(t, ids[0], types.Acknowledged)
			})
		})
	}
}

// req: INB-13
// report: B090
func TestARedeliveryOfCommittedWorkIsAcknowledgedWithoutActing(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		a.hub.Fault(ma2htest.Status(400, 1).On(ma2htest.InboxAck)) // final: the consumer gives this acknowledgment up
		ids := a.send("pause deploys")
		a.consume(50*time.Second, nil)
		a.wantActed("pause deploys")
		a.hub.RequireDelivery(t, ids[0], ma2htest.Delivered)
		a.consume(5*time.Minute, nil)
		a.wantActed("pause deploys")
		a.hub.RequireDelivery(t, ids[0], types.Acknowledged)
		if n := a.deliveries(ids[0]); n != 2 {
			t.Fatalf("delivered %d times", n)
		}
	})
}

// req: INB-11 INB-13 INB-20
// report: B084
func TestADirectiveThatComesTwiceAtOnceIsActedOnOnce(t *testing.T) {
	for name, fault := range map[string]ma2htest.Fault{
		"in one batch":       ma2htest.DuplicateEntry(0),
		"the window is over": ma2htest.ExpireLease(1),
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, a *agent) {
				a.hub.Fault(fault)
				ids := a.send("pause deploys")
				release := make(chan struct{})
				go func() { time.Sleep(30 * time.Second); close(release) }()
				a.consume(5*time.Minute, func(o *ma2h.ConsumeOptions) {
					o.Concurrency = 4
					o.Note = func(*ma2h.Directive) string { <-release; return "" }
				})
				a.wantActed("pause deploys")
				a.hub.RequireDelivery(t, ids[0], types.Acknowledged)
				if n := a.deliveries(ids[0]); n < 2 {
					t.Fatalf("delivered %d times", n)
				}
				if len(a.rejected) != 0 {
					t.Fatalf("rejected %v", a.rejected)
				}
			})
		})
	}
}

// req: INB-01 DISC-02 VER-05
func TestAnInboxOfAHubWithoutMailboxesSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, ma2htest.NewHub(t, ma2htest.Options{Version: types.V03}))
		err := a.inbox.Consume(t.Context(), a.handle, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom(alice)})
		if !errors.Is(err, ma2h.ErrUnsupported) {
			t.Fatalf("Consume: %v", err)
		}
		if _, err := a.inbox.Drain(t.Context(), ma2h.DrainOptions{}); !errors.Is(err, ma2h.ErrUnsupported) {
			t.Fatalf("Drain: %v", err)
		}
		if err := a.inbox.Ack(t.Context(), []string{"dir_1"}, ""); !errors.Is(err, ma2h.ErrUnsupported) {
			t.Fatalf("Ack: %v", err)
		}
		a.hub.RequireRequests(t, "", 1) // the capability document
	})
}

// report: B085
func TestAConsumerDrainsNoMoreThanItCanStart(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		ids := a.send("1", "2", "3", "4", "5", "6", "7", "8")
		a.consume(10*time.Minute, func(o *ma2h.ConsumeOptions) {
			o.Note = func(*ma2h.Directive) string { time.Sleep(20 * time.Second); return "" } // eight are longer than a window
		})
		a.wantActed("1", "2", "3", "4", "5", "6", "7", "8")
		for _, id := range ids {
			if n := a.deliveries(id); n != 1 {
				t.Fatalf("%s was delivered %d times", id, n)
			}
		}
	})
}

// report: B088
func TestWhatIsDoneWhenTheCallerStopsIsStillAcknowledged(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		ids := a.send("pause deploys", "resume deploys")
		ctx, cancel := context.WithCancel(t.Context())
		err := a.inbox.Consume(ctx, func(ctx context.Context, d *ma2h.Directive) error {
			cancel()
			return a.handle(ctx, d)
		}, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom(alice)})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Consume: %v", err)
		}
		a.wantActed("pause deploys")
		a.hub.RequireDelivery(t, ids[0], types.Acknowledged)
		a.hub.RequireDelivery(t, ids[1], ma2htest.Queued)
	})
}

// req: PRE-03
func TestAConsumerAtWorkIsSeenAsOnline(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		owner, err := ma2h.NewClient(ma2h.Config{
			HubURL: a.hub.MemoryURL(), Credential: ma2h.Bearer(a.hub.OwnerToken()), Agent: ma2h.Agent{ID: "owner"},
			HTTPClient: &http.Client{Transport: a.hub.Transport()},
		})
		if err != nil {
			t.Fatal(err)
		}
		presence := func() types.PresenceState {
			p, err := owner.Presence(t.Context(), bot)
			if err != nil {
				t.Fatal(err)
			}
			return p.State
		}
		if got := presence(); got != types.Unknown {
			t.Fatalf("before: %s", got)
		}
		a.consume(5*time.Minute, nil)
		if got := presence(); got != types.Online {
			t.Fatalf("during: %s", got)
		}
		time.Sleep(2 * time.Minute)
		if got := presence(); got != types.Offline {
			t.Fatalf("after: %s", got)
		}
	})
}

// report: B085
func TestALoopOverTheInboxSkipsWhatTheHubHasShownToOthersMeanwhile(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		a.send("1", "2", "3", "4")
		for e, err := range a.inbox.All(t.Context()) {
			if err != nil {
				t.Fatal(err) // a signature that is stale because it lay here is no news
			}
			if !time.Now().Before(e.Lapses()) {
				t.Fatalf("%s is yielded past its window", e.ID())
			}
			a.acted = append(a.acted, e.Title())
			time.Sleep(40 * time.Second)
			if err := e.Ack(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			if len(a.acted) == 4 {
				break
			}
		}
		slices.Sort(a.acted)
		a.wantActed("1", "2", "3", "4")
	})
}

func TestAnEntryThatWasWaitedForHasItsWholeWindow(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		go func() { time.Sleep(50 * time.Second); a.send("pause deploys") }()
		entries, err := a.inbox.Drain(t.Context(), ma2h.DrainOptions{Wait: time.Minute})
		if err != nil || len(entries) != 1 {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		// Never later than the Hub, and not a hold's length earlier.
		if left := time.Until(entries[0].Lapses()); left > time.Minute || left < 45*time.Second {
			t.Fatalf("lapses in %s", left)
		}
	})
}

// req: INB-12
func TestANoteThatIsTooLongOrNoTextDoesNotKeepAnAcknowledgmentBack(t *testing.T) {
	for name, row := range map[string]struct{ note, want string }{
		"cut within a character": {"x" + strings.Repeat("é", 4096), "x" + strings.Repeat("é", 2047)},
		"not Unicode":            {"done\xff.", "done\ufffd."},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, a *agent) {
				ids := a.send("pause deploys")
				a.consume(5*time.Minute, func(o *ma2h.ConsumeOptions) { o.Note = func(*ma2h.Directive) string { return row.note } })
				a.wantActed("pause deploys")
				d, _ := a.hub.Directive(ids[0])
				if d.Delivery.Ack == nil || d.Delivery.Ack.Note != row.want {
					t.Fatalf("receipt %+v", d.Delivery.Ack)
				}
			})
		})
	}
}

// report: B088
func TestWhatIsDoneAtTheEndOfItsGraceIsStillAcknowledged(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		ids := a.send("pause deploys")
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan struct{})
		go func() { <-started; cancel() }()
		begin := time.Now()
		err := a.inbox.Consume(ctx, func(ctx context.Context, d *ma2h.Directive) error {
			close(started)
			<-ctx.Done()
			return a.handle(ctx, d)
		}, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom(alice), Grace: 10 * time.Second})
		if !errors.Is(err, context.Canceled) || time.Since(begin) != 10*time.Second {
			t.Fatalf("Consume: %v after %s", err, time.Since(begin))
		}
		a.wantActed("pause deploys")
		a.hub.RequireDelivery(t, ids[0], types.Acknowledged)
	})
}

func TestAHandlerThatPanicsIsAFailureAndNotTheEnd(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		ids := a.send("pause deploys", "resume deploys")
		first := true
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		err := a.inbox.Consume(ctx, func(ctx context.Context, d *ma2h.Directive) error {
			if first {
				first = false
				panic(d.Title())
			}
			return a.handle(ctx, d)
		}, ma2h.ConsumeOptions{Authorize: ma2h.AllowFrom(alice)})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Consume: %v", err)
		}
		a.wantActed("resume deploys", "pause deploys")
		a.hub.RequireDelivery(t, ids[0], types.Acknowledged)
	})
}

// report: B085
func TestWhatTookItsWindowToVerifyIsLeftForTheNextDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		slow := 61 * time.Second
		a := agentWith(t, hub, ma2h.KeysFunc(func(context.Context) ([]ma2h.Key, error) {
			time.Sleep(slow)
			slow = 0
			return []ma2h.Key{ma2h.HMACKey(hub.SigningSecret())}, nil
		}))
		ids := a.send("pause deploys")
		a.consume(5*time.Minute, func(o *ma2h.ConsumeOptions) {
			o.Note = func(*ma2h.Directive) string {
				if n := a.deliveries(ids[0]); n != 2 {
					t.Errorf("acted after %d deliveries", n)
				}
				return ""
			}
		})
		a.wantActed("pause deploys")
		a.hub.RequireDelivery(t, ids[0], types.Acknowledged)
	})
}
