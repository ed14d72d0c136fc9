package chaosproxy

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"
)

// Mark is a header of a push that was made such that it must not verify.
const Mark = "X-Chaos"

// Fate is how the copies of one signed delivery have passed.
type Fate struct {
	Plain     int // as they were sent
	Respelled int // in another spelling of the same
	Damaged   int // such that they must not verify
}

// Proxy harms what passes through it. It is an http.RoundTripper for a client
// in this process, and an http.Handler for clients on the wire.
type Proxy struct {
	upstream http.RoundTripper
	target   *url.URL
	delay    time.Duration
	over     chan struct{} // no harm any more
	once     sync.Once
	behind   sync.WaitGroup // copies that nobody waits for

	mu       sync.Mutex
	dice     dice
	counts   map[Fault]int
	requests int
	conns    int
	fates    map[string]*Fate   // by jti
	first    map[string]*answer // to a pull, by path
}

// New returns a Proxy that carries requests on to upstream, and to the target if
// that is not nil, whatever their URL says. No delay is longer than delay.
func New(seed uint64, upstream http.RoundTripper, target *url.URL, delay time.Duration) *Proxy {
	return &Proxy{
		upstream: upstream, target: target, delay: delay, over: make(chan struct{}),
		dice:   dice{rand: rand.New(rand.NewPCG(seed, 0)), decks: map[deck][]Fault{}},
		counts: map[Fault]int{}, fates: map[string]*Fate{}, first: map[string]*answer{},
	}
}

// Calm ends all harm: what is still held back is delivered, or answered, as a
// cut.
func (p *Proxy) Calm() { p.once.Do(func() { close(p.over) }) }

// Close ends all harm and waits for copies that are under way.
func (p *Proxy) Close() {
	p.Calm()
	p.behind.Wait()
}

func (p *Proxy) calm() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// Counts is how often each fault has struck, how many requests came, and how
// many connections were cut with all that was on them.
func (p *Proxy) Counts() (faults map[Fault]int, requests, conns int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	faults = map[Fault]int{}
	for f, n := range p.counts {
		faults[f] = n
	}
	return faults, p.requests, p.conns
}

// Fates is how each signed delivery has passed, by its jti.
func (p *Proxy) Fates() map[string]Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]Fate{}
	for jti, f := range p.fates {
		out[jti] = *f
	}
	return out
}

func (p *Proxy) count(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range faults {
		p.counts[f]++
	}
}

// trip is one request on its way.
type trip struct {
	*Proxy
	request *http.Request
	class   class
	fault   Fault // "" for none
	respell bool
	rand    *rand.Rand // of this trip alone
	header  http.Header
	body    []byte
}

func (p *Proxy) begin(r *http.Request, body []byte) *trip {
	t := &trip{Proxy: p, request: r, class: classify(r), header: r.Header.Clone(), body: body}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	if !p.calm() {
		t.fault, t.respell = p.dice.draw(deck{t.class, len(body) > 0})
	}
	t.rand = rand.New(rand.NewPCG(p.dice.rand.Uint64(), 0))
	return t
}

// strikes counts the fault if it is this one.
func (t *trip) strikes(f Fault) bool {
	if t.fault == f {
		t.count(f)
	}
	return t.fault == f
}

// errCut is a connection that broke.
var errCut error = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

// RoundTrip carries a request on, or not, as the dice have it.
func (p *Proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	t := p.begin(r, body)
	switch {
	case t.strikes(CutBefore):
		return nil, errCut
	case t.strikes(Page):
		a := &answer{http.StatusBadGateway, http.Header{"Content-Type": {"text/html"}}, []byte("<html><h1>Bad gateway</h1></html>")}
		return a.response(r, bytes.NewReader(a.body)), nil
	case t.strikes(TornRequest):
		discard(t.send(r.Context(), torn(body)))
		return nil, errCut
	case t.strikes(Delayed):
		if err := p.sleep(r.Context(), t.pause()); err != nil {
			return nil, err
		}
	case t.fault == Stripped:
		t.strip(t.header, "Content-Type", "Authorization", "Accept", "User-Agent")
	case t.strikes(ShortRequest):
		t.body = body[:t.rand.IntN(len(body))]
	}
	if t.class == push {
		t.changePush()
	} else if t.respell {
		t.body = t.spellAnew(t.body)
	}
	if t.strikes(Late) {
		t.aside(2 * t.pause())
		return nil, errCut
	}
	if t.strikes(Duplicated) {
		t.aside(0)
	}
	resp, err := t.send(r.Context(), bytes.NewReader(t.body))
	if err != nil {
		return nil, err
	}
	return t.answer(resp)
}

func (t *trip) pause() time.Duration { return time.Duration(t.rand.Int64N(int64(t.delay))) }

// strip takes one of the headers away, if it is there.
func (t *trip) strip(h http.Header, names ...string) {
	if name := names[t.rand.IntN(len(names))]; h.Get(name) != "" {
		t.count(Stripped)
		h.Del(name)
	}
}

// aside sends a copy that nobody waits for.
func (t *trip) aside(after time.Duration) {
	ctx, body := context.WithoutCancel(t.request.Context()), t.body
	t.behind.Add(1)
	go func() {
		defer t.behind.Done()
		if t.sleep(ctx, after) == nil {
			discard(t.send(ctx, bytes.NewReader(body)))
		}
	}()
}

func (p *Proxy) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-p.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *trip) send(ctx context.Context, body io.Reader) (*http.Response, error) {
	out := t.request.Clone(ctx)
	out.RequestURI, out.Header, out.Body, out.ContentLength = "", t.header.Clone(), http.NoBody, int64(len(t.body))
	if len(t.body) > 0 {
		out.Body = io.NopCloser(body)
	}
	if t.target != nil {
		out.URL.Scheme, out.URL.Host = t.target.Scheme, t.target.Host
	}
	return t.upstream.RoundTrip(out)
}

// answer does to the answer what is to happen to it.
func (t *trip) answer(resp *http.Response) (*http.Response, error) {
	switch {
	case t.strikes(CutAfter):
		discard(resp, nil)
		return nil, errCut
	case t.strikes(Stalled):
		discard(resp, nil)
		select {
		case <-t.request.Context().Done():
		case <-t.over:
		}
		return nil, errCut
	}
	a, err := readAnswer(resp)
	if err != nil {
		return nil, err
	}
	if t.fault == Stripped {
		t.strip(a.header, "Content-Type", "Retry-After", "Cache-Control")
	}
	if a.status == http.StatusOK {
		t.change(a)
	}
	if t.respell && (t.class != drain || a.status != http.StatusOK) {
		a.body = t.spellAnew(a.body)
	}
	switch {
	case t.strikes(TornAnswer):
		return a.response(t.request, torn(a.body)), nil
	case len(a.body) > 0 && t.strikes(ShortAnswer):
		a.body = a.body[:t.rand.IntN(len(a.body))]
	}
	return a.response(t.request, bytes.NewReader(a.body)), nil
}

// change makes another document of a 200.
func (t *trip) change(a *answer) {
	changed := false
	switch {
	case t.class == drain:
		a.body = t.changeDrain(a.body)
	case t.class == pull && t.fault == Stale:
		t.mu.Lock()
		defer t.mu.Unlock()
		if old := t.first[t.request.URL.Path]; old != nil {
			a.header, a.body = old.header.Clone(), old.body
			t.counts[Stale]++
		}
	case t.class == pull:
		t.mu.Lock()
		if path := t.request.URL.Path; t.first[path] == nil {
			t.first[path] = &answer{a.status, a.header.Clone(), a.body}
		}
		t.mu.Unlock()
		if t.fault == Mutilated {
			a.body, changed = mutilate(t.rand, a.body)
		}
	case t.fault == OldVersion, t.fault == FewerLegs:
		a.body, changed = downgrade(t.fault, t.rand, a.body)
	}
	if changed {
		t.count(t.fault)
	}
}

func (t *trip) spellAnew(body []byte) []byte {
	out, did := Respell(t.rand, body)
	t.count(did...)
	return out
}
