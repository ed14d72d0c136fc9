package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// agent is a run of ship against a fake Hub.
type agent struct {
	shipped int
	done    chan error
}

func start(t *testing.T, hub *ma2htest.Hub) *agent {
	client, err := ma2h.NewClient(hub.Config("deploybot/dev-team"))
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{done: make(chan error, 1)}
	go func() {
		a.done <- ship(t.Context(), client, "1.4", "human:alice", func(string) error { a.shipped++; return nil })
	}()
	return a
}

// ends waits for the run and says how often it must have shipped.
func (a *agent) ends(t *testing.T, want error, shipped int) {
	t.Helper()
	if err := <-a.done; !errors.Is(err, want) || a.shipped != shipped {
		t.Errorf("shipped %d times, %v", a.shipped, err)
	}
}

// question is what the human sees.
func question(t *testing.T, hub *ma2htest.Hub) ma2htest.Snapshot {
	t.Helper()
	q, err := hub.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestAYesShips(t *testing.T) {
	hub := ma2htest.NewHub(t)
	a := start(t, hub)
	q := question(t, hub)
	if err := hub.Answer(q.ID, ma2h.ValueApprove, ma2htest.By("human:alice")); err != nil {
		t.Fatal(err)
	}
	a.ends(t, nil, 1)
}

func TestANoDoesNotShip(t *testing.T) {
	hub := ma2htest.NewHub(t)
	a := start(t, hub)
	q := question(t, hub)
	if err := hub.Answer(q.ID, ma2h.ValueDeny, ma2htest.By("human:alice")); err != nil {
		t.Fatal(err)
	}
	a.ends(t, errNotApproved, 0)
}

func TestAnotherHumanCannotAnswer(t *testing.T) {
	hub := ma2htest.NewHub(t)
	a := start(t, hub)
	q := question(t, hub)
	err := hub.Answer(q.ID, ma2h.ValueApprove, ma2htest.By("human:mallory"))
	if !errors.Is(err, ma2htest.ErrNotAuthorized) {
		t.Errorf("mallory: %v", err)
	}
	if err := hub.Decline(q.ID, ma2htest.By("human:alice")); err != nil {
		t.Fatal(err)
	}
	a.ends(t, errNotApproved, 0)
}

func TestADayOfSilenceDoesNotShip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock jumps when all wait
		hub := ma2htest.NewHub(t)
		asked := time.Now()
		start(t, hub).ends(t, errNotApproved, 0)
		if waited := time.Since(asked); waited < 24*time.Hour {
			t.Errorf("it gave up after %s", waited)
		}
	})
}

func TestABadNetworkAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		hub.Fault(
			ma2htest.ResetBefore(1),                             // the question does not arrive
			ma2htest.LoseAck(1),                                 // it arrives, and the 202 is lost
			ma2htest.Status(503, 1, ma2htest.RetryAfter("120")), // the Hub is busy
			ma2htest.ResetAfter(2).On(ma2htest.Pull),            // polls break off
		)
		a := start(t, hub)
		q := question(t, hub)
		if err := hub.Answer(q.ID, ma2h.ValueApprove, ma2htest.By("human:alice")); err != nil {
			t.Fatal(err)
		}
		a.ends(t, nil, 1)
		hub.RequireMessages(t, 1)
		hub.RequireRequests(t, ma2htest.Submit, 4)
	})
}

// pushed asks with a callback, has somebody approve, and returns how often the
// callback shipped.
func pushed(t *testing.T, human string, faults ...ma2htest.Fault) (shipped int) {
	t.Helper()
	const callbackURL = "https://bot.example/ma2h/resume"
	hub := ma2htest.NewHub(t)
	cfg := hub.Config("deploybot/dev-team")
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{
		Keys:        ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())),
		CallbackURL: callbackURL, AgentID: cfg.Agent.ID, Replay: store,
		Now: hub.Now, // the test moves the Hub's clock
	})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := ma2h.NewCallbackHandler(ma2h.CallbackConfig{
		Verifier: verifier, Ledger: store, SingleReplica: true,
		Handle: func(_ context.Context, r *ma2h.Response) error {
			if r.Answered(ma2h.ValueApprove) && r.By("human:alice") {
				shipped++
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := ma2h.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := client.Ask(t.Context(), ma2h.Ask{
		Title: "Ship 1.4 to prod?", IdempotencyKey: ma2h.NewKey(), Request: ma2h.Confirm(),
		AllowedResolvers: []string{"human:alice", "human:bob"},
		Callback:         ma2h.PushTo(callbackURL),
	})
	if err != nil {
		t.Fatal(err)
	}

	hub.ServeCallback(callbackURL, handler)
	hub.Fault(faults...)
	if err := hub.Answer(ack.ID, ma2h.ValueApprove, ma2htest.By(human)); err != nil {
		t.Fatal(err)
	}
	hub.Advance(time.Minute) // past the Hub's pauses between attempts
	return shipped
}

func TestAPushIsActedOnOnceIfItIsGenuineAndAlices(t *testing.T) {
	lostAnswer := ma2htest.LoseAck(1).On(ma2htest.PushCallback)
	for name, tt := range map[string]struct {
		human  string
		faults []ma2htest.Fault
		ships  int
	}{
		"all is well":                            {"human:alice", nil, 1},
		"the 200 is lost":                        {"human:alice", []ma2htest.Fault{lostAnswer}, 1},
		"the bytes come again":                   {"human:alice", []ma2htest.Fault{ma2htest.Replay(1)}, 1},
		"two copies at once":                     {"human:alice", []ma2htest.Fault{ma2htest.DuplicatePush(1)}, 1},
		"the answer was changed":                 {"human:alice", []ma2htest.Fault{ma2htest.TamperPayload(1)}, 0},
		"of a wrong key":                         {"human:alice", []ma2htest.Fault{ma2htest.WrongKey(1)}, 0},
		"a human who may answer, and not decide": {"human:bob", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if n := pushed(t, tt.human, tt.faults...); n != tt.ships {
				t.Errorf("shipped %d times, want %d", n, tt.ships)
			}
		})
	}
}
