package ma2htest

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// Fault is one thing that goes wrong, as a value. It strikes its endpoint,
// Submit or Pull by default, a number of times; below 1 it strikes until Heal.
type Fault struct {
	name     string
	endpoint string
	skip     int
	times    int
	kind     faultKind

	status      int
	retryAfter  *string
	contentType string
	body        *string
	url         string
	bytes       int
	delay       time.Duration

	draw  *randomDraw
	shape func(*batch) bool  // of a shaping fault; false if there was nothing to strike
	forge func(*parcel) bool // of a forging fault; false if there was nothing to strike
}

type faultKind int

const (
	cutBefore  faultKind = iota // the request has no effect and no answer
	cutAfter                    // it has its effect and no answer
	cutSuccess                  // the same, but only instead of a 2xx
	answer                      // it has no effect and this answer
	tear                        // the body of the answer breaks off
	corrupt                     // the body of the answer is not JSON
	hang                        // no answer until the caller gives up
	early                       // a hold ends at once
	delayed                     // the Hub takes its time
	random                      // one of several
	shaping                     // the entries of a drain are not what they should be
	forging                     // a push is not what it should be
	heldAck                     // the answer to a submit waits for a push
)

// On has the fault strike another endpoint, one of the endpoint constants.
// The empty string stands for all.
func (f Fault) On(endpoint string) Fault { f.endpoint = endpoint; return f }

// After lets the first n requests that match pass.
func (f Fault) After(n int) Fault { f.skip = n; return f }

// LoseAck commits a submit and cuts the connection instead of the 202 (§8.1).
// A submit that is refused is answered and does not count.
func LoseAck(times int) Fault {
	return Fault{name: "LoseAck", endpoint: Submit, times: times, kind: cutSuccess}
}

// ResetBefore cuts the connection before the Hub does anything.
func ResetBefore(times int) Fault {
	return Fault{name: "ResetBefore", endpoint: Submit, times: times, kind: cutBefore}
}

// ResetAfter has the Hub do everything and cuts the connection instead of any
// answer.
func ResetAfter(times int) Fault {
	return Fault{name: "ResetAfter", endpoint: Submit, times: times, kind: cutAfter}
}

// Hang takes the request and never answers, until the caller gives up or the
// Hub closes.
func Hang(times int) Fault { return Fault{name: "Hang", endpoint: Submit, times: times, kind: hang} }

// Delay answers after d of the Hub's time.
func Delay(times int, d time.Duration) Fault {
	return Fault{name: "Delay", endpoint: Submit, times: times, kind: delayed, delay: d}
}

// TornBody does everything, announces the whole answer and ends the connection
// after so many bytes of the body.
func TornBody(times, bytes int) Fault {
	return Fault{name: "TornBody", endpoint: Submit, times: times, kind: tear, bytes: bytes}
}

// CorruptJSON does everything and answers with a complete body that is not
// JSON.
func CorruptJSON(times int) Fault {
	return Fault{name: "CorruptJSON", endpoint: Submit, times: times, kind: corrupt}
}

// EarlyReturn answers a hold at once with the state as it is (§8.2).
func EarlyReturn(times int) Fault {
	return Fault{name: "EarlyReturn", endpoint: Pull, times: times, kind: early}
}

// NotModified answers 304.
func NotModified(times int) Fault {
	return Fault{name: "NotModified", endpoint: Pull, times: times, kind: answer, status: http.StatusNotModified}
}

// NoContent answers 204.
func NoContent(times int) Fault {
	return Fault{name: "NoContent", endpoint: Pull, times: times, kind: answer, status: http.StatusNoContent}
}

// Redirect answers 307, which makes a careless client send the body and the
// credential again, to url.
func Redirect(times int, url string) Fault {
	return Fault{name: "Redirect", endpoint: Submit, times: times, kind: answer, status: http.StatusTemporaryRedirect, url: url}
}

// StatusOption shapes the answer of Status.
type StatusOption func(*Fault)

// RetryAfter sets the header to the text, whatever it is.
func RetryAfter(value string) StatusOption { return func(f *Fault) { f.retryAfter = &value } }

// Body replaces the canonical error envelope.
func Body(text string) StatusOption { return func(f *Fault) { f.body = &text } }

// ContentType replaces application/json.
func ContentType(value string) StatusOption { return func(f *Fault) { f.contentType = value } }

// Status answers with an HTTP status, without any effect. The body is the
// canonical envelope with the first code of the status (§8.5).
func Status(code, times int, opts ...StatusOption) Fault {
	f := Fault{name: "Status " + strconv.Itoa(code), endpoint: Submit, times: times, kind: answer, status: code}
	for _, opt := range opts {
		opt(&f)
	}
	return f
}

// Chance is a fault and how often it is drawn, relative to the others.
type Chance struct {
	Weight int
	Fault  Fault
}

type randomDraw struct {
	rand    *rand.Rand
	healthy int
	total   int
	mix     []Chance
}

// RandomFaults draws for each Submit one of the faults, or none with the
// weight healthy, until Heal. The same seed gives the same sequence. Endpoint
// and times of the mixed faults do not matter; On moves the whole.
func RandomFaults(seed uint64, healthy int, mix ...Chance) Fault {
	d := &randomDraw{rand: rand.New(rand.NewPCG(seed, seed)), healthy: max(healthy, 0), mix: append([]Chance(nil), mix...)}
	d.total = d.healthy
	for i := range d.mix {
		d.mix[i].Weight = max(d.mix[i].Weight, 0)
		d.total += d.mix[i].Weight
	}
	return Fault{name: "RandomFaults", endpoint: Submit, kind: random, draw: d}
}

func (d *randomDraw) next() *Fault {
	if d.total == 0 {
		return nil
	}
	n := d.rand.IntN(d.total) - d.healthy
	for i := range d.mix {
		if n < 0 {
			return nil
		}
		if n -= d.mix[i].Weight; n < 0 {
			f := d.mix[i].Fault
			return &f
		}
	}
	return nil
}

// faultBox holds the faults that have yet to strike, in order. The Hub's mutex
// guards it.
type faultBox struct{ armed []*Fault }

// Fault arms faults. A request takes the first that matches it, and one only.
func (h *Hub) Fault(faults ...Fault) {
	h.lock()
	defer h.unlock()
	for _, f := range faults {
		if f.times < 1 {
			f.times = -1
		}
		h.faults.armed = append(h.faults.armed, &f)
	}
}

// Heal takes all faults away.
func (h *Hub) Heal() {
	h.lock()
	defer h.unlock()
	h.faults.armed = nil
}

func (b *faultBox) take(endpoint string) *Fault {
	for _, f := range b.armed {
		if f.kind == shaping || f.kind == forging || !f.matches(endpoint) {
			continue
		}
		if f.skip > 0 {
			f.skip--
			continue
		}
		if f.times > 0 {
			f.times--
		}
		if f.kind == random {
			return f.draw.next()
		}
		return f
	}
	return nil
}

// alter lets the first armed fault that finds in it something to change do so.
func alter[T any](b *faultBox, endpoint string, of func(*Fault) func(T) bool, it T) *Fault {
	for _, f := range b.armed {
		change := of(f)
		if change == nil || !f.matches(endpoint) {
			continue
		}
		if f.skip > 0 {
			f.skip--
			continue
		}
		if change(it) {
			if f.times > 0 {
				f.times--
			}
			return f
		}
	}
	return nil
}

func (f *Fault) matches(endpoint string) bool {
	return f.times != 0 && (f.endpoint == "" || f.endpoint == endpoint)
}

// giveBack arms a fault again that found nothing to strike.
func (h *Hub) giveBack(f *Fault) {
	h.lock()
	defer h.unlock()
	f.rearm()
}

// serveFault answers a request that the fault struck.
func (h *Hub) serveFault(f *Fault, c *call, handle func() reply) reply {
	switch f.kind {
	case cutBefore:
		return reply{cut: true}
	case cutAfter:
		handle()
		return reply{cut: true}
	case cutSuccess:
		r := handle()
		if r.status/100 != 2 {
			h.giveBack(f)
			return r
		}
		return reply{cut: true}
	case answer:
		return f.answer()
	case tear:
		r := handle()
		r.torn, r.written = true, max(0, min(f.bytes, len(r.body)-1))
		return r
	case corrupt:
		r := handle()
		r.body = append([]byte("<!-- "), r.body...)
		return r
	case hang:
		select {
		case <-c.ctx.Done():
		case <-h.closed:
		}
		return reply{cut: true}
	case heldAck:
		return h.holdAck(f, c, handle)
	case early:
		c.noHold = true
	case shaping:
		c.shape = f
	case delayed:
		if !h.pause(c, f.delay) {
			return reply{cut: true}
		}
	}
	return handle()
}

// pause waits d of the Hub's time; false means that the caller went away.
func (h *Hub) pause(c *call, d time.Duration) bool {
	over := make(chan struct{})
	now := h.lock()
	due := h.clock.after(now.Add(d), func(time.Time) { close(over) })
	h.unlock()
	defer func() {
		h.lock()
		h.clock.stop(due)
		h.unlock()
	}()
	select {
	case <-over:
		return true
	case <-c.ctx.Done():
	case <-h.closed:
	}
	return false
}

var firstCode = map[int]string{
	http.StatusBadRequest:          types.CodeValidation,
	http.StatusUnauthorized:        types.CodeUnauthenticated,
	http.StatusForbidden:           types.CodeNotAuthorized,
	http.StatusNotFound:            types.CodeNotFound,
	http.StatusConflict:            types.CodeAlreadyTerminal,
	http.StatusGone:                types.CodeGone,
	http.StatusUnprocessableEntity: types.CodeInvalidField,
	http.StatusTooManyRequests:     types.CodeRateLimited,
}

func (f *Fault) answer() reply {
	r := refuse(f.status, nameOr(firstCode[f.status], "unavailable"), "injected").reply()
	if f.body != nil {
		r.body = []byte(*f.body)
	}
	if f.contentType != "" {
		r = r.with("Content-Type", f.contentType)
	}
	if f.retryAfter != nil {
		r = r.with("Retry-After", *f.retryAfter)
	}
	if f.url != "" {
		r = r.with("Location", f.url)
	}
	return r
}
