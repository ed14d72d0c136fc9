package ma2h_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/store/sqlstore/sqlite"
	"github.com/ma2h/ma2h-go/types"
)

// What a consumer process is told in its environment.
const (
	consumerPoint  = "MA2H_TEST_CONSUMER_STOPS_AT"
	consumerDir    = "MA2H_TEST_CONSUMER_DIR"
	consumerHub    = "MA2H_TEST_CONSUMER_HUB"
	consumerToken  = "MA2H_TEST_CONSUMER_TOKEN"
	consumerSecret = "MA2H_TEST_CONSUMER_SECRET"
	consumerCert   = "MA2H_TEST_CONSUMER_CERT"
)

// crashLease is how long an act may take in a consumer process: SQLite's clock
// is real, and a doubt begins when the lease has lapsed.
const crashLease = time.Second

// crashPoints are where a consumer is killed, in the order in which it comes
// by.
var crashPoints = []struct {
	name    string
	effects int           // of the killed process
	doubt   bool          // the next process cannot know, and says so
	lost    bool          // the next process finds it acknowledged already
	then    int           // effects in the end
	state   ma2h.ActState // in the end
}{
	{name: "before the ledger is asked", then: 1, state: ma2h.ActDone},
	{name: "after the replay claim", then: 1, state: ma2h.ActDone},
	{name: "between reserve and act", doubt: true, state: ma2h.ActInDoubt},
	{name: "in the act before its effect", doubt: true, state: ma2h.ActInDoubt},
	{name: "in the act after its effect", effects: 1, doubt: true, then: 1, state: ma2h.ActInDoubt},
	{name: "between act and commit", effects: 1, doubt: true, then: 1, state: ma2h.ActInDoubt},
	{name: "between commit and ack", effects: 1, then: 1, state: ma2h.ActDone},
	{name: "with the ack on its way", effects: 1, then: 1, state: ma2h.ActDone},
	{name: "between ack and its answer", effects: 1, lost: true, then: 1, state: ma2h.ActDone},
}

// A consumer process is killed with SIGKILL at each point of the duty order,
// and another one goes on with its ledger and its mailbox.
//
// req: INB-11 INB-12 INB-13
// report: B090
func TestAConsumerThatIsKilledNeverActsTwiceAndSaysWhatItCannotKnow(t *testing.T) {
	for _, row := range crashPoints {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			hub := ma2htest.NewHub(t, ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.VisibilityTimeoutSeconds = 1 }})
			world := newCrashWorld(t, hub)
			id, err := hub.SendDirective(asker, ma2htest.DirectiveDraft{From: alice, Title: "pause deploys"})
			mustNot(t, err)

			first := world.start(t, row.name)
			first.wait(t, "at "+row.name)
			first.kill(t)
			if n := world.effects(t, id); n != row.effects {
				t.Fatalf("the killed process has had %d effects, want %d", n, row.effects)
			}
			if acked := world.acknowledged(id); acked != row.lost {
				t.Fatalf("acknowledged when it was killed: %t", acked)
			}

			second := world.start(t, "")
			switch {
			case row.lost:
				second.wait(t, "draining")
			case row.doubt:
				second.wait(t, "in doubt "+id)
				// And at later deliveries neither acts nor says so again.
				before := len(world.directive(id).Deliveries)
				world.until(t, func() bool { return len(world.directive(id).Deliveries) > before+1 })
			default:
				world.until(t, func() bool { return world.acknowledged(id) })
			}
			said := second.stop(t)
			if n := world.effects(t, id); n != row.then {
				t.Errorf("%d effects in the end, want %d", n, row.then)
			}
			if n := strings.Count(strings.Join(said, "\n"), "in doubt "); n != 0 {
				t.Errorf("the doubt was reported %d times more", n)
			}
			if state := world.state(t, id); state != row.state || world.acknowledged(id) != (row.state == ma2h.ActDone) {
				t.Errorf("the act is %v, acknowledged: %t", state, world.acknowledged(id))
			}
		})
	}
}

// The twin: whoever has said that a second act does no harm gets one.
func TestAKilledActIsRunAgainOnlyWhereThePolicySaysSo(t *testing.T) {
	t.Parallel()
	hub := ma2htest.NewHub(t, ma2htest.Options{Capability: func(c *types.Capability) { c.Inbound.VisibilityTimeoutSeconds = 1 }})
	world := newCrashWorld(t, hub)
	id, err := hub.SendDirective(asker, ma2htest.DirectiveDraft{From: alice, Title: "pause deploys"})
	mustNot(t, err)
	first := world.start(t, "in the act before its effect")
	first.wait(t, "at in the act before its effect")
	first.kill(t)
	second := world.start(t, actAgainPoint)
	world.until(t, func() bool { return world.acknowledged(id) })
	second.stop(t)
	if n, state := world.effects(t, id), world.state(t, id); n != 1 || state != ma2h.ActDone {
		t.Errorf("%d effects, the act is %v", n, state)
	}
}

// actAgainPoint, as a point, is none, and has doubts resolved with ActAgain.
const actAgainPoint = "nowhere, and acts again"

// crashWorld is what outlives the processes: the Hub, the ledger's file and the
// file of effects.
type crashWorld struct {
	hub  *ma2htest.Hub
	dir  string
	cert string
}

func newCrashWorld(t *testing.T, hub *ma2htest.Hub) *crashWorld {
	conn, err := tls.Dial("tcp", strings.TrimPrefix(hub.URL(), "https://"), hub.Client().Transport.(*http.Transport).TLSClientConfig.Clone())
	mustNot(t, err)
	leaf := conn.ConnectionState().PeerCertificates[0]
	mustNot(t, conn.Close())
	return &crashWorld{hub: hub, dir: t.TempDir(), cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}))}
}

func (w *crashWorld) directive(id string) ma2htest.DirectiveSnapshot {
	d, _ := w.hub.Directive(id)
	return d
}

func (w *crashWorld) acknowledged(id string) bool {
	return w.directive(id).Delivery.State == types.Acknowledged
}

// until waits for what the next requests bring about.
func (w *crashWorld) until(t *testing.T, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not come about")
		}
	}
}

func (w *crashWorld) effects(t *testing.T, id string) int {
	b, err := os.ReadFile(filepath.Join(w.dir, "effects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(b), id+"\n")
}

func (w *crashWorld) state(t *testing.T, id string) ma2h.ActState {
	store, err := sqlite.Open(t.Context(), filepath.Join(w.dir, "ledger.db"))
	mustNot(t, err)
	defer store.Close()
	state, err := store.Lookup(t.Context(), ma2h.Act{Key: "directive\x00" + asker + "\x00" + id})
	mustNot(t, err)
	return state
}

// consumerProcess is this test binary as a consumer.
type consumerProcess struct {
	cmd   *exec.Cmd
	in    io.Closer
	lines chan string
}

func (w *crashWorld) start(t *testing.T, point string) *consumerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestConsumerProcess$", "-test.v")
	cmd.Env = append(os.Environ(),
		consumerPoint+"="+point, consumerDir+"="+w.dir, consumerHub+"="+w.hub.URL(), consumerToken+"="+w.hub.Token(asker),
		consumerSecret+"="+w.hub.SigningSecret(), consumerCert+"="+w.cert)
	in, err := cmd.StdinPipe()
	mustNot(t, err)
	out, err := cmd.StdoutPipe()
	mustNot(t, err)
	var trouble syncBuffer
	cmd.Stderr = &trouble
	mustNot(t, cmd.Start())
	p := &consumerProcess{cmd: cmd, in: in, lines: make(chan string, 100)}
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			if line, ok := strings.CutPrefix(scan.Text(), "consumer: "); ok {
				p.lines <- line
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(trouble.String())
		}
	})
	return p
}

// wait reads on until the process says so.
func (p *consumerProcess) wait(t *testing.T, want string) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("the process ended without %q", want)
			}
			if line == want {
				return
			}
		case <-patience:
			t.Fatalf("the process does not say %q", want)
		}
	}
}

// kill ends it as the system does, with no chance to put anything right.
func (p *consumerProcess) kill(t *testing.T) {
	t.Helper()
	mustNot(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	for range p.lines {
	}
}

// stop ends it well and returns what it said since.
func (p *consumerProcess) stop(t *testing.T) (said []string) {
	t.Helper()
	mustNot(t, p.in.Close())
	for line := range p.lines {
		said = append(said, line)
	}
	if err := p.cmd.Wait(); err != nil || !slices.Contains(said, "stopped") {
		t.Fatalf("the process ended with %v after %q", err, said)
	}
	return said
}

// TestConsumerProcess is no test, but the consumer in a process that the tests
// above start.
func TestConsumerProcess(t *testing.T) {
	dir, point := os.Getenv(consumerDir), os.Getenv(consumerPoint)
	if dir == "" {
		return
	}
	say := func(text string) { fmt.Println("consumer: " + text) }
	var once sync.Once
	stopAt := func(here string) {
		if here == point {
			once.Do(func() {
				say("at " + here)
				select {} // to be killed
			})
		}
	}
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "ledger.db"))
	mustNot(t, err)
	defer store.Close()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(os.Getenv(consumerCert))) {
		t.Fatal("no certificate")
	}
	wire := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer wire.CloseIdleConnections()
	client := connect(t, ma2h.Config{
		HubURL: os.Getenv(consumerHub), Credential: ma2h.Bearer(os.Getenv(consumerToken)), Agent: ma2h.Agent{ID: asker},
		HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			acks := strings.HasSuffix(r.URL.Path, "/ack")
			if acks {
				stopAt("with the ack on its way")
			} else if strings.HasSuffix(r.URL.Path, "/inbox") {
				say("draining")
			}
			resp, err := wire.RoundTrip(r)
			if acks && err == nil {
				stopAt("between ack and its answer")
			}
			return resp, err
		})},
	})
	hooked := hookedStore{store, stopAt}
	verifier, err := ma2h.NewVerifier(ma2h.VerifierConfig{DirectiveKeys: ma2h.Keys(ma2h.HMACKey(os.Getenv(consumerSecret))), AgentID: asker, Replay: hooked})
	mustNot(t, err)
	inbox, err := ma2h.NewInbox(ma2h.InboxConfig{Client: client, Verifier: verifier, Ledger: hooked})
	mustNot(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	opts := ma2h.ConsumeOptions{
		Authorize: ma2h.AllowFrom(alice), Lease: crashLease,
		DeadLetter: func(_ context.Context, d *ma2h.Directive, err error) {
			if !errors.Is(err, ma2h.ErrInDoubt) {
				say("buried " + d.ID())
				return
			}
			say("in doubt " + d.ID())
		},
	}
	if point == actAgainPoint {
		opts.InDoubt = func(context.Context, ma2h.Act) (ma2h.Doubt, error) { return ma2h.ActAgain, nil }
	}
	err = inbox.Consume(ctx, func(_ context.Context, d *ma2h.Directive) error {
		stopAt("in the act before its effect")
		f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(d.ID() + "\n")
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		stopAt("in the act after its effect")
		return nil
	}, opts)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Consume: %v", err)
	}
	say("stopped")
}

// hookedStore stops around what it is asked to do.
type hookedStore struct {
	ma2h.Store
	stopAt func(string)
}

func (s hookedStore) Lookup(ctx context.Context, act ma2h.Act) (ma2h.ActState, error) {
	s.stopAt("before the ledger is asked")
	return s.Store.Lookup(ctx, act)
}

func (s hookedStore) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ma2h.ReplayState, error) {
	state, err := s.Store.ClaimJTI(ctx, key, lease, keep)
	s.stopAt("after the replay claim")
	return state, err
}

func (s hookedStore) Reserve(ctx context.Context, act ma2h.Act, lease time.Duration, doubt bool) (ma2h.Reservation, error) {
	res, err := s.Store.Reserve(ctx, act, lease, doubt)
	s.stopAt("between reserve and act")
	return res, err
}

func (s hookedStore) Commit(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	s.stopAt("between act and commit")
	err := s.Store.Commit(ctx, act, token)
	s.stopAt("between commit and ack")
	return err
}
