package ma2htest_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

const (
	bot   = "deploybot/dev-team"
	alice = "human:alice"
)

// agent is an agent with an inbox, in memory.
type agent struct {
	t        *testing.T
	hub      *ma2htest.Hub
	client   *ma2h.Client
	verifier *ma2h.Verifier
	ledger   ma2h.Ledger
	inbox    *ma2h.Inbox

	mu       sync.Mutex
	acted    []string      // titles, in order
	slow     time.Duration // what an act takes
	failing  map[string]int
	rejected []*ma2h.RejectedError
	buried   []string
}

func newAgent(t *testing.T, hub *ma2htest.Hub) *agent {
	t.Helper()
	return agentWith(t, hub, ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())))
}

func agentWith(t *testing.T, hub *ma2htest.Hub, keys ma2h.KeyRing) *agent {
	t.Helper()
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := ma2h.NewClient(ma2h.Config{
		HubURL: hub.MemoryURL(), Credential: ma2h.Bearer(hub.Token(bot)), Agent: ma2h.Agent{ID: bot},
		HTTPClient: &http.Client{Transport: hub.Transport()},
	})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: keys, AgentID: bot, Replay: store})
	if err != nil {
		t.Fatal(err)
	}
	inbox, err := ma2h.NewInbox(ma2h.InboxConfig{Client: client, Verifier: verifier, Ledger: store, SingleReplica: true})
	if err != nil {
		t.Fatal(err)
	}
	return &agent{t: t, hub: hub, client: client, verifier: verifier, ledger: store, inbox: inbox, failing: make(map[string]int)}
}

// handle acts on a directive, or fails as often as the test said.
func (a *agent) handle(_ context.Context, d *ma2h.Directive) error {
	time.Sleep(a.slow)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failing[d.Title()] > 0 {
		a.failing[d.Title()]--
		return errors.New("the deploy system is down")
	}
	a.acted = append(a.acted, d.Title())
	return nil
}

// consume runs until the test has gone on for as long as it says.
func (a *agent) consume(d time.Duration, shape func(*ma2h.ConsumeOptions)) {
	a.t.Helper()
	opts := ma2h.ConsumeOptions{
		Authorize: ma2h.AllowFrom(alice, ma2htest.DefaultResolver),
		OnReject: func(_ context.Context, r *ma2h.RejectedError) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.rejected = append(a.rejected, r)
			return nil
		},
		DeadLetter: func(_ context.Context, d *ma2h.Directive, _ error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.buried = append(a.buried, d.Title())
		},
	}
	if shape != nil {
		shape(&opts)
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), d)
	defer cancel()
	if err := a.inbox.Consume(ctx, a.handle, opts); !errors.Is(err, context.DeadlineExceeded) {
		a.t.Fatalf("Consume ended with %v", err)
	}
}

func (a *agent) wantActed(titles ...string) {
	a.t.Helper()
	if !slices.Equal(a.acted, titles) {
		a.t.Fatalf("acted on %q, want %q", a.acted, titles)
	}
}

// wantRejected wants one rejection, and it to be this.
func (a *agent) wantRejected(id string, want error) {
	a.t.Helper()
	if len(a.rejected) != 1 || a.rejected[0].ID != id || !errors.Is(a.rejected[0], want) {
		a.t.Fatalf("rejected %v, want %s for %v", a.rejected, id, want)
	}
}

func (a *agent) send(titles ...string) []string {
	a.t.Helper()
	var ids []string
	for _, title := range titles {
		id, err := a.hub.SendDirective(bot, ma2htest.DirectiveDraft{From: alice, Title: title})
		if err != nil {
			a.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func (a *agent) deliveries(id string) int {
	d, _ := a.hub.Directive(id)
	return len(d.Deliveries)
}

// with runs a test of an agent and its Hub in a bubble.
func with(t *testing.T, f func(t *testing.T, a *agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newAgent(t, ma2htest.NewHub(t))) })
}
