package ma2htest

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// Options shape a Hub. The zero value is a Hub of 0.4 that follows time.Now
// and limits nothing but sizes.
type Options struct {
	// Version is what the Hub speaks and advertises: "0.2", "0.3" or "0.4".
	// Empty means "0.4". A Hub of any minor takes envelopes of any minor (§10).
	Version string
	// Start, if set, is where the Hub's clock stands still: only Advance moves
	// it. If zero, the clock follows time.Now, plus what Advance added.
	Start time.Time
	// Seed, if not zero, makes the sequence of ids and credentials repeatable.
	Seed uint64
	// PathPrefix, such as "/hub", puts the whole Hub under a path.
	PathPrefix string
	// Capability edits the document that discovery serves (§8.0). Its limits
	// are enforced; a zero limit is none.
	Capability func(*types.Capability)
	// KeyTTL is how long an idempotency key is remembered. Zero means 24 hours.
	KeyTTL time.Duration
	// MaxHold is the longest long-poll the Hub gives, at most 60 s, which zero
	// means too (§8.2).
	MaxHold time.Duration
	// SigningAlg is what pushes and directives are signed with: "hmac-sha256",
	// which empty means too, or "ed25519".
	SigningAlg string
	// SignWithAllKeys signs with every key of SigningAlg that Keys lists, as
	// several v1 items, and not with the newest alone (§9.2).
	SignWithAllKeys bool
	// AllowLoopbackCallbacks lets pushes go to loopback addresses, over plain
	// http too. Without it they go to public addresses over https (§9.4).
	AllowLoopbackCallbacks bool
	// CallbackRoots are what certificates of callbacks are held to. Nil means
	// those of the system.
	CallbackRoots *x509.CertPool
	// Resolve looks up the host of a callback, at each attempt. Nil means the
	// system's resolver. What it returns is held to §9.4 in any case.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// PushAttempts is how often a push is tried, and PushFor how long after
	// the resolution. Zero means 8 times, of at least 5, and one hour (§8.3).
	PushAttempts int
	PushFor      time.Duration
	// KeepRequests is how many of the latest requests are recorded. Zero means
	// 16384, a negative number none.
	KeepRequests int
}

const (
	defaultKeyTTL       = 24 * time.Hour
	maxHold             = 60 * time.Second
	defaultKeepRequests = 16384
)

func (o Options) withDefaults() (Options, error) {
	if o.Version == "" {
		o.Version = types.V04
	}
	switch o.Version {
	case types.V02, types.V03, types.V04:
	default:
		return o, fmt.Errorf("ma2htest: Options.Version %q is not 0.2, 0.3 or 0.4", o.Version)
	}
	if o.PathPrefix != "" && (!strings.HasPrefix(o.PathPrefix, "/") || strings.HasSuffix(o.PathPrefix, "/")) {
		return o, fmt.Errorf("ma2htest: Options.PathPrefix %q does not begin with a slash, or ends with one", o.PathPrefix)
	}
	if o.KeyTTL < 0 || o.MaxHold < 0 {
		return o, fmt.Errorf("ma2htest: Options.KeyTTL or Options.MaxHold is negative")
	}
	switch o.SigningAlg {
	case "":
		o.SigningAlg = types.AlgHMACSHA256
	case types.AlgHMACSHA256, types.AlgEd25519:
	default:
		return o, fmt.Errorf("ma2htest: Options.SigningAlg %q is not %s or %s", o.SigningAlg, types.AlgHMACSHA256, types.AlgEd25519)
	}
	if o.PushAttempts == 0 {
		o.PushAttempts = defaultPushAttempts
	}
	if o.PushFor == 0 {
		o.PushFor = defaultPushFor
	}
	if o.PushAttempts < leastPushAttempts || o.PushAttempts > maxPushAttempts || o.PushFor < 0 {
		return o, fmt.Errorf("ma2htest: Options.PushAttempts is not %d to %d, or Options.PushFor is negative (§8.3)", leastPushAttempts, maxPushAttempts)
	}
	if o.KeyTTL == 0 {
		o.KeyTTL = defaultKeyTTL
	}
	if o.MaxHold == 0 || o.MaxHold > maxHold {
		o.MaxHold = maxHold
	}
	if o.KeepRequests == 0 {
		o.KeepRequests = defaultKeepRequests
	}
	return o, nil
}

// Hub is an MA2H Hub in memory. All methods may be called concurrently.
type Hub struct {
	opts   Options
	minor  int
	caps   types.Capability
	routes []route

	mu         sync.Mutex // all below; take it with lock
	clock      clock
	ids        idSource
	creds      credentials
	ring       keyRing
	post       post
	callbacks  callbacks
	pushes     pushes
	messages   map[string]*message
	order      []string // ids in order of submission
	keys       map[dedupKey]dedupEntry
	rates      map[string][]time.Time // accepted submits of the last minute, by agent
	seen       map[string]time.Time   // last long-poll, by agent
	observers  []func(*Resolved)
	news       chan struct{} // made by who watches, closed by who brings news
	handedOut  int           // index into order of what Next gave
	faults     faultBox
	isClosed   bool
	server     *httptest.Server
	requestLog requestLog
	calls      map[*call]context.CancelFunc // requests in flight

	closed    chan struct{}
	closeOnce sync.Once
	inFlight  sync.WaitGroup // handler goroutines of the in-memory transport
}

// Format prints what the Hub speaks, under every verb: it holds credentials and
// keys, and others change it meanwhile.
func (h *Hub) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "ma2htest.Hub(%s)", h.opts.Version)
}

// NewHub returns a Hub that closes with the test. It takes at most one Options;
// a wrong one ends the test. In a testing/synctest bubble, make the Hub inside
// the bubble and use Transport.
func NewHub(t testing.TB, opts ...Options) *Hub {
	t.Helper()
	if len(opts) > 1 {
		t.Fatal("ma2htest: NewHub takes at most one Options")
	}
	var o Options
	if len(opts) == 1 {
		o = opts[0]
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// New returns a Hub for a program; the caller closes it. It fails on Options
// that make no sense. It opens no socket and starts no goroutine.
func New(opts Options) (*Hub, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	v, err := types.ParseVersion(opts.Version)
	if err != nil {
		return nil, err
	}
	h := &Hub{
		opts:     opts,
		minor:    v.Minor,
		messages: make(map[string]*message),
		keys:     make(map[dedupKey]dedupEntry),
		rates:    make(map[string][]time.Time),
		seen:     make(map[string]time.Time),
		calls:    make(map[*call]context.CancelFunc),
		closed:   make(chan struct{}),
	}
	h.clock.init(opts.Start, h.tick)
	h.ids.init(opts.Seed)
	h.creds.init()
	h.ring.init(opts.Seed)
	h.post.init()
	h.callbacks.init()
	h.pushes.init()
	h.observers = append(h.observers, h.owe)
	h.requestLog.keep = opts.KeepRequests
	h.caps = defaultCapability(opts.Version, h.minor)
	if opts.Capability != nil {
		opts.Capability(&h.caps)
	}
	h.routes = coreRoutes()
	return h, nil
}

// lock takes the mutex and brings the state up to the returned time, so that
// an expiry that is due comes before whatever the caller is about to do.
func (h *Hub) lock() time.Time {
	h.mu.Lock()
	return h.clock.catchUp()
}

// unlock starts the pushes that became due meanwhile.
func (h *Hub) unlock() {
	due := h.pushes.ready
	h.pushes.ready = nil
	h.startPushes(due)
	h.mu.Unlock()
}

// tick is the real timer going off.
func (h *Hub) tick() {
	h.lock()
	h.unlock()
}

// Now returns the time of the Hub's clock, in UTC.
func (h *Hub) Now() time.Time {
	defer h.unlock()
	return h.lock()
}

// Advance moves the Hub's clock by d. Whatever falls due on the way has
// happened, in order, when Advance returns: expiries, the end of holds, and
// pushes, which are delivered one after another, each at its time. An Advance
// by zero, or less, waits for the pushes that are under way. A receiver that
// does not come to an end, say because it waits for whoever called Advance, is
// left behind after 5 s of real time.
func (h *Hub) Advance(d time.Duration) {
	h.lock()
	defer h.unlock()
	h.settle()
	for d > 0 {
		d -= h.clock.step(d)
		h.settle()
	}
}

// URL starts a TLS server with HTTP/2 on a loopback port, once, and returns
// the base URL of the Hub on it. Client trusts its certificate.
func (h *Hub) URL() string { return h.tls().URL + h.opts.PathPrefix }

// Client returns an HTTP client that trusts the server of URL.
func (h *Hub) Client() *http.Client { return h.tls().Client() }

func (h *Hub) tls() *httptest.Server {
	h.lock()
	defer h.unlock()
	if h.server == nil {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = true
		// Cut connections are what faults do; they are no news.
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		if h.isClosed {
			s.Close()
		}
		h.server = s
	}
	return h.server
}

// Close ends every request in flight, the server and the clock. Recorded
// requests and messages can still be read.
func (h *Hub) Close() {
	h.closeOnce.Do(func() {
		h.lock()
		h.isClosed = true
		h.clock.stopAll()
		for _, cancel := range h.pushes.running {
			cancel(errPushClosed)
		}
		server := h.server
		h.unlock()
		close(h.closed)
		if server != nil {
			server.CloseClientConnections()
			server.Close()
		}
	})
	h.inFlight.Wait()
}

// Restart is what agents see of a Hub whose process ends and comes up again on
// what it has stored. Requests in flight end without an answer, connections
// are closed, and of a push under way nothing is known, whatever its receiver
// made of it. Nothing that was accepted is lost (§3.1): messages, keys,
// resolutions, acknowledgments and directives are as they were, the windows of
// drained ones run on, and a push that was cut is tried again at once under the
// same number. Faults and the record of requests stay too.
func (h *Hub) Restart() {
	h.lock()
	for _, cancel := range h.calls {
		cancel()
	}
	for _, cancel := range h.pushes.running {
		cancel(errPushRestarted)
	}
	server := h.server
	h.unlock()
	if server != nil {
		server.CloseClientConnections()
	}
}

// watched returns the channel that closes with the next news. The lock is held.
func (h *Hub) watched() <-chan struct{} {
	if h.news == nil {
		h.news = make(chan struct{})
	}
	return h.news
}

// wakeWatchers tells those in watch that there is something new. The lock is
// held.
func (h *Hub) wakeWatchers() {
	if h.news != nil {
		close(h.news)
		h.news = nil
	}
}
