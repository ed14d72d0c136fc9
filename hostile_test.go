package ma2h_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/chaosproxy"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// How a run behind hostile proxies is made longer, or repeated: MA2H_CHAOS=5m is
// how long its traffic lasts, MA2H_CHAOS_SEED what it printed. A seed fixes the
// dice, and not the order in which goroutines throw them.
const (
	chaosFor  = "MA2H_CHAOS"
	chaosSeed = "MA2H_CHAOS_SEED"
)

func chaosLength(t *testing.T, otherwise time.Duration) time.Duration {
	if s := os.Getenv(chaosFor); s != "" {
		d, err := time.ParseDuration(s)
		mustNot(t, err)
		return d
	}
	return otherwise
}

func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv(chaosSeed); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		mustNot(t, err)
	}
	t.Logf("%s=%d", chaosSeed, seed)
	return seed
}

const (
	agentURL = "https://bot.example/ma2h/agent"
	humanURL = "https://desk.example/ma2h/acks"
)

// In memory and in virtual time: minutes pass in seconds, and each kind of
// harm is met. A goroutine that stays fails the bubble.
//
// req: SUB-06, SGR-03, INB-11, INB-12
// report: B016, B109
func TestBehindHostileProxiesNothingIsDoneTwiceLostOrBelievedFalsely(t *testing.T) {
	seed, length := seedOf(t), chaosLength(t, 3*time.Minute)
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t, hostileHub())
		var behind http.ServeMux
		h := newHostile(t, hub, seed, hostileNet{
			agentURL: agentURL, humanURL: humanURL, mux: &behind, workers: 8, pace: time.Second, life: 2 * time.Second, patience: time.Hour,
			toHub: chaosproxy.New(seed, hub.Transport(), nil, 3*time.Second), toAgent: chaosproxy.New(seed+1, chaosproxy.Handler(&behind), nil, 3*time.Second),
		})
		h.config = hub.Config(asker)
		h.config.HTTPClient = &http.Client{Transport: h.toHub}
		hub.ServeCallback(agentURL, h.toAgent)
		hub.ServeCallback(humanURL, h.toAgent)
		h.run(length)
		h.check()
		h.metEverything(length)
	})
}

// The same over TLS on loopback, with connections that break: of HTTP/2, which
// many requests share, and of HTTP/1.1. A goroutine that stays fails TestMain.
//
// req: SUB-06, SGR-03, INB-11, INB-12
// report: B016, B109
func TestOverRealConnectionsTheSameHolds(t *testing.T) {
	seed, length := seedOf(t), chaosLength(t, 3*time.Second)
	var behind http.ServeMux
	agent := front(t, &behind, false)
	var toAgent *chaosproxy.Proxy
	callbacks := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { toAgent.ServeHTTP(w, r) }), false)
	opts := hostileHub()
	opts.AllowLoopbackCallbacks, opts.CallbackRoots = true, x509.NewCertPool()
	opts.CallbackRoots.AddCert(callbacks.Certificate())
	hub := ma2htest.NewHub(t, opts)
	toAgent = chaosproxy.New(seed+1, agent.Client().Transport, target(t, agent.URL), 200*time.Millisecond)
	h := newHostile(t, hub, seed, hostileNet{
		agentURL: callbacks.URL + "/ma2h/agent", humanURL: callbacks.URL + "/ma2h/acks", mux: &behind, workers: 12, pace: 200 * time.Millisecond, life: time.Second, patience: 2 * time.Minute,
		toHub: chaosproxy.New(seed, hub.Client().Transport, target(t, hub.URL()), 200*time.Millisecond), toAgent: toAgent,
	})
	gate := front(t, h.toHub, true)
	h.config = hub.ConfigTLS(asker)
	single := gate.Client().Transport.(*http.Transport).Clone()
	single.ForceAttemptHTTP2, single.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	single.TLSClientConfig.NextProtos = nil
	t.Cleanup(single.CloseIdleConnections)
	h.config.HubURL, h.config.HTTPClient = gate.URL, gate.Client()
	h.single = &http.Client{Transport: single}
	h.config.AllowInsecureLoopback = true
	h.run(length)
	h.check()
	h.metEverything(length)
	if _, _, conns := h.toHub.Counts(); conns == 0 && length >= thorough {
		t.Error("no connection was cut")
	}
}

// hostileHub is a Hub whose windows are short, so that what a cut hides comes
// again soon.
func hostileHub() ma2htest.Options {
	return ma2htest.Options{KeepRequests: -1, Capability: func(c *types.Capability) { c.Inbound.VisibilityTimeoutSeconds = 2 }}
}

func target(t *testing.T, raw string) *url.URL {
	u, err := url.Parse(raw)
	mustNot(t, err)
	return u
}

// front is a TLS server on loopback.
func front(t *testing.T, h http.Handler, http2 bool) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = log.New(discardWriter{}, "", 0)
	s.Config.ConnContext = chaosproxy.ConnContext
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

type discardWriter struct{}

func (discardWriter) Write(b []byte) (int, error) { return len(b), nil }

// run has agent and human at work for so long, then calms the network and waits
// until what was begun has come to its end.
func (h *hostile) run(length time.Duration) {
	h.t.Helper()
	h.renew()
	h.listen()
	ctx, cancel := context.WithTimeout(h.t.Context(), length+h.patience)
	defer cancel()
	stop := make(chan struct{})
	var asking, others sync.WaitGroup
	for range h.workers {
		asking.Go(func() { h.asks(ctx, stop) })
	}
	asking.Go(func() { h.instructs(ctx, stop) })
	done, end := context.WithCancel(ctx)
	others.Go(func() { h.resolves(done) })
	others.Go(func() { h.consumes(done) })
	others.Go(func() { h.renews(done) })

	time.Sleep(length)
	close(stop)
	h.toHub.Calm()
	h.toAgent.Calm()
	asking.Wait()
	for ctx.Err() == nil && h.unread() > 0 {
		time.Sleep(h.pace)
	}
	end()
	others.Wait()
	if err := h.handler.Shutdown(ctx); err != nil {
		h.t.Error(err)
	}
	h.hub.Close()
	h.toHub.Close()
	h.toAgent.Close()
}

// check counts what was done.
func (h *hostile) check() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	questions, acted, doubtful := h.checkQuestions()
	directives, doubts := h.checkDirectives()
	damaged, respelled := h.checkDeliveries()
	h.t.Logf("%d questions, %d acted on, %d cancelled; %d directives; %d in doubt; %d failed acts, %d entries rejected, %d receipts verified",
		questions, acted, len(h.cancelled), directives, doubtful+doubts, h.failed, h.rejected, len(h.receipts))
	h.t.Logf("%d deliveries verified, of which %d passed only in other spellings; %d were damaged", len(h.verified), respelled, damaged)
	for _, p := range []struct {
		name  string
		proxy *chaosproxy.Proxy
	}{{"to the Hub", h.toHub}, {"to the agent", h.toAgent}} {
		faults, requests, conns := p.proxy.Counts()
		var list []string
		for f, n := range faults {
			list = append(list, fmt.Sprintf("%s: %d", f, n))
		}
		slices.Sort(list)
		h.t.Logf("%s: %d requests, %d connections cut; %s", p.name, requests, conns, strings.Join(list, ", "))
	}
	var seen []string
	for what, n := range h.errors {
		seen = append(seen, fmt.Sprintf("%s: %d", what, n))
	}
	slices.Sort(seen)
	h.t.Logf("what the agent saw: %s", strings.Join(seen, ", "))
}

// checkQuestions: each question is at the Hub once, and each decision was acted
// on once, as it was made.
func (h *hostile) checkQuestions() (questions, acted, doubtful int) {
	byKey := map[string]int{}
	for _, s := range h.hub.Messages() {
		byKey[keyOf(s)]++
		if s.Type == types.VerbNotify {
			continue
		}
		questions++
		if s.Resolved == nil {
			h.t.Errorf("%s has not ended", s.ID)
			continue
		}
		acts := h.acts[s.ID]
		state, err := h.store.Lookup(context.Background(), ma2h.Act{Key: "response\x00" + asker + "\x00" + s.ID, Resolution: s.Resolved.ResolutionID})
		mustNot(h.t, err)
		switch {
		case len(acts) > 1:
			h.t.Errorf("%s was acted on %d times", s.ID, len(acts))
		case len(acts) == 0 && state == ma2h.ActInDoubt:
			doubtful++
		case len(acts) == 0:
			h.t.Errorf("the decision on %s was lost: the act is %v", s.ID, state)
		case acts[0] != decided(h.t, s.Resolved):
			h.t.Errorf("%s was decided as\n%s\nand acted on as\n%s", s.ID, decided(h.t, s.Resolved), acts[0])
		}
		acted += min(len(acts), 1)
		if status, ok := h.cancelled[s.ID]; ok && status != s.Status {
			h.t.Errorf("%s is %s, and the cancel said %s", s.ID, s.Status, status)
		}
		if note, ok := h.notes[s.ID]; ok && (s.Delivery == nil || s.Delivery.Ack == nil || s.Delivery.Ack.Note != note) {
			h.t.Errorf("%s: the acknowledgment on record is not the one that was returned", s.ID)
		}
	}
	for key, n := range byKey {
		if n != 1 {
			h.t.Errorf("key %s is at the Hub as %d messages", key, n)
		}
	}
	if len(byKey) != h.asked || acted == 0 {
		h.t.Errorf("%d keys at the Hub, %d were asked, %d acted on", len(byKey), h.asked, acted)
	}
	return questions, acted, doubtful
}

func (h *hostile) checkDirectives() (n, doubtful int) {
	for _, d := range h.hub.Directives(asker) {
		n++
		acts := h.acts[d.ID]
		switch {
		case len(acts) > 1:
			h.t.Errorf("%s was acted on %d times", d.ID, len(acts))
		case len(acts) == 0 && h.buried[d.ID] != nil:
			doubtful++
		case len(acts) == 0:
			h.t.Errorf("%s was lost", d.ID)
		case acts[0] != d.Title+" "+canonicalText(h.t, member(h.t, d.Wire, "context")):
			h.t.Errorf("%s: %s\nwas acted on as %s", d.ID, d.Wire, acts[0])
		case d.Delivery.State != types.Acknowledged:
			h.t.Errorf("%s was acted on and is %s", d.ID, d.Delivery.State)
		}
	}
	if n == doubtful {
		h.t.Errorf("%d directives, %d in doubt", n, doubtful)
	}
	return n, doubtful
}

// checkDeliveries: what verified has come at least once as it was signed, in
// whatever spelling.
func (h *hostile) checkDeliveries() (damaged, respelled int) {
	fates := h.toHub.Fates()
	for jti, f := range h.toAgent.Fates() {
		fates[jti] = f
	}
	for jti, ring := range h.verified {
		switch f := fates[jti]; {
		case f.Plain+f.Respelled == 0:
			h.t.Errorf("a delivery that only came damaged has verified with %s: %+v", ring, f)
		case f.Plain == 0:
			respelled++
			h.respelled[ring]++
		}
	}
	for _, f := range fates {
		damaged += f.Damaged
	}
	return damaged, respelled
}

// thorough is how long a run must last to be held to having met everything. A
// shorter one holds what it did to the rules, however slow the machine.
const thorough = 2 * time.Minute

// metEverything: a thorough run that has not met a kind of harm, or
// of work, proves nothing about it.
func (h *hostile) metEverything(length time.Duration) {
	h.t.Helper()
	if length < thorough {
		return
	}
	for what, n := range map[string]int{
		"a receipt verified": len(h.receipts), "an entry was rejected": h.rejected, "an act failed": h.failed, "a question was cancelled": len(h.cancelled),
		"a Response in another spelling verified": h.respelled["Keys"], "a directive in another spelling verified": h.respelled["DirectiveKeys"],
		"a receipt in another spelling verified": h.respelled["AckKeys"],
	} {
		if n == 0 {
			h.t.Errorf("never: %s", what)
		}
	}
	here, _, _ := h.toHub.Counts()
	there, _, _ := h.toAgent.Counts()
	for _, f := range chaosproxy.Faults() {
		if here[f]+there[f] == 0 {
			h.t.Errorf("%q has not happened", f)
		}
	}
	for _, f := range chaosproxy.Everywhere() {
		if here[f] == 0 || there[f] == 0 {
			h.t.Errorf("%q has happened %d times on the way to the Hub and %d times on the way to the agent", f, here[f], there[f])
		}
	}
}
