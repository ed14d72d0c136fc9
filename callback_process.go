package ma2h

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/internal/header"
	"github.com/ma2h/ma2h-go/types"
)

// Process takes a delivery for people who have their own router: the header
// and the body, byte for byte as they came. It answers as ServeHTTP does.
func (h *CallbackHandler) Process(ctx context.Context, head http.Header, body []byte) (out Outcome) {
	if !h.made() {
		return Outcome{Status: http.StatusServiceUnavailable, Err: fmt.Errorf("%w: CallbackHandler", ErrZeroValue)}
	}
	if !h.enter() {
		return h.done(ctx, Outcome{Err: errClosing})
	}
	defer h.running.Done()
	defer func() {
		if recover() != nil {
			h.logPanic(ctx)
			out = h.done(ctx, Outcome{Err: errPanicked})
		}
	}()
	if len(body) > h.cfg.Verifier.cfg.MaxBody {
		return h.done(ctx, Outcome{Err: errTooLarge})
	}
	if err := h.checkToken(head); err != nil {
		return h.done(ctx, Outcome{Err: err})
	}
	return h.done(ctx, h.process(ctx, head, body))
}

func (h *CallbackHandler) made() bool { return h != nil && h.cfg.Verifier != nil }

// logPanic logs where it was: the value may hold content, the stack does not.
func (h *CallbackHandler) logPanic(ctx context.Context) {
	h.cfg.Logger.LogAttrs(ctx, slog.LevelError, errPanicked.Error(), slog.String("stack", string(debug.Stack())))
}

func (h *CallbackHandler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	h.running.Add(1)
	return true
}

// Shutdown makes every further delivery a 503 and waits for the acts and
// acknowledgments that are running, or until ctx ends.
func (h *CallbackHandler) Shutdown(ctx context.Context) error {
	if !h.made() {
		return fmt.Errorf("%w: CallbackHandler", ErrZeroValue)
	}
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	done := make(chan struct{})
	go func() { h.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ma2h: acts are still running: %w", contextError(ctx))
	}
}

// process tells a Response from a directive by the type member that only the
// latter has, and sends it on its way. Nothing is believed yet.
func (h *CallbackHandler) process(ctx context.Context, head http.Header, body []byte) Outcome {
	if h.cfg.HandleDirective != nil && (h.cfg.Handle == nil || isDirective(body)) {
		return h.processDirective(ctx, head, body)
	}
	d, r, err := h.cfg.Verifier.response(ctx, head, body)
	switch {
	case err == nil:
	case err == errMAC:
		return h.pullUnproven(ctx, body)
	default:
		return Outcome{Err: err}
	}
	out := Outcome{MessageID: r.MessageID()}
	if out.Err = h.expect(ctx, r.MessageID()); out.Err != nil {
		if out.Err == errUnsent {
			// It is signed, and a push may overtake the answer to the submit.
			out.Err = &pullError{errUnsent}
		}
		return out
	}
	if h.cfg.ConfirmByGet || !r.PayloadBound() {
		m, err := h.pull(ctx, h.pulls, r.MessageID(), h.cfg.Client.Message)
		switch {
		case err != nil:
			out.Err = err
			return out
		case m.Response.ResolutionID() != r.ResolutionID():
			out.Err = ErrSecondResolution
			return out
		case !r.PayloadBound() && !sentAt02(m):
			// A Hub pushes at the message's own minor (§10). Whoever pushes at an
			// older one has taken cover off the answer.
			out.Err = fmt.Errorf("%w: a push of %s, which was sent at %s", ErrUnboundPayload, types.Quote(r.MessageID()), m.Wire.Version)
			return out
		}
		r = m.Response
	}
	out.Err = h.act(ctx, d, r)
	out.Acted = out.Err == nil
	return out
}

func sentAt02(m *Message) bool {
	v, err := types.ParseVersion(m.Wire.Version)
	return err == nil && !v.BindsPayload()
}

func (h *CallbackHandler) expect(ctx context.Context, id string) error {
	if h.cfg.Expect == nil {
		return nil
	}
	switch ok, err := h.cfg.Expect(ctx, id); {
	case err != nil:
		// Told and not wrapped: whatever sentinel it is says nothing about the
		// delivery.
		return fmt.Errorf("%w: Expect: %v", ErrStoreUnavailable, err)
	case !ok:
		return errUnsent
	}
	return nil
}

func (h *CallbackHandler) act(ctx context.Context, d delivery, r *Response) error {
	err := h.responses.run(ctx, item{act: r.act(h.cfg.Verifier.cfg.AgentID), from: d, do: func(ctx context.Context) error { return h.cfg.Handle(ctx, r) }})
	if err == nil && h.cfg.Acknowledge != nil {
		h.acknowledge(ctx, r)
	}
	return err
}

// acknowledge runs beside the answer to the Hub, which counts the push as
// delivered only then. The GET before it makes the message acknowledgeable on
// a Hub that has not.
func (h *CallbackHandler) acknowledge(ctx context.Context, r *Response) {
	h.running.Add(1)
	go func() {
		defer h.running.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		defer func() {
			if recover() != nil {
				h.logPanic(ctx)
			}
		}()
		note := cutNote(h.cfg.Acknowledge(r), maxNote)
		_, err := h.cfg.Client.Message(ctx, r.MessageID())
		if err == nil {
			_, err = h.cfg.Client.Acknowledge(ctx, r.MessageID(), note)
		}
		if err != nil {
			h.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "ma2h: not acknowledged", slog.String("id", r.MessageID()), slog.String("error", err.Error()))
		}
	}()
}

func (h *CallbackHandler) processDirective(ctx context.Context, head http.Header, body []byte) Outcome {
	sig, err := header.FromHTTP(head)
	if err != nil {
		return Outcome{Err: fmt.Errorf("%w: %w", ErrSignature, err)}
	}
	d, dir, err := h.cfg.Verifier.directive(ctx, sig, body)
	if err != nil {
		return Outcome{Err: err}
	}
	out := Outcome{MessageID: dir.ID()}
	if !h.cfg.Authorize(dir.From()) {
		out.Err = fmt.Errorf("%w: the author of directive %s (§13.5)", ErrNotAuthorized, types.Quote(dir.ID()))
		return out
	}
	out.Err = h.responses.run(ctx, item{act: dir.act(h.cfg.Verifier.cfg.AgentID), from: d, do: func(ctx context.Context) error { return h.cfg.HandleDirective(ctx, dir) }})
	out.Acted = out.Err == nil
	if h.cfg.Client != nil && (out.Err == nil || out.Err == ErrAlreadyActed) {
		h.consume(ctx, dir.ID())
	}
	return out
}

// consume tells the mailbox, beside the answer to the Hub, that the directive
// has been processed: a webhook leaves it there (§8.7, §13.4).
func (h *CallbackHandler) consume(ctx context.Context, id string) {
	h.running.Add(1)
	go func() {
		defer h.running.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := (&Inbox{client: h.cfg.Client}).Ack(ctx, []string{id}, ""); err != nil {
			h.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "ma2h: not acknowledged", slog.String("id", types.Quote(id)), slog.String("error", err.Error()))
		}
	}()
}

// isDirective reads the type of a body that nobody has vouched for. A lie only
// leads to a check that fails.
func isDirective(body []byte) bool {
	var w struct {
		Type string `json:"type"`
	}
	_ = types.Decode(body, &w)
	return w.Type == types.TypeDirective
}

// pullUnproven handles a push that may be genuine and cannot be proved: the
// result of a task without detail, whose signed resolved_at is not on the wire
// when a Hub does not sign null for it (§9.8 of 0.5). It is never guessed: the
// Hub's own answer is pulled and acted on, or the push is answered 503.
//
// Whoever forges such a push can have a message of this agent pulled, and no
// more: Expect is asked first, few are pulled at a time and once each, and what
// is genuine has places of its own.
func (h *CallbackHandler) pullUnproven(ctx context.Context, body []byte) Outcome {
	var w types.Response
	if types.Decode(body, &w) != nil || w.Response != nil || w.Validate() != nil {
		return Outcome{Err: errMAC}
	}
	if strings.ContainsFunc(w.InReplyTo, func(c rune) bool { return c <= ' ' || c == '/' || c == '\\' || c == 0x7f }) {
		return Outcome{Err: errMAC} // no Hub's id, and it would choose a path
	}
	if err := h.expect(ctx, w.InReplyTo); err != nil {
		return Outcome{Err: err}
	}
	if h.cfg.Client == nil {
		return Outcome{Err: fmt.Errorf("%w: the result of %s has no detail to verify, and no Client is configured to pull it", ErrStoreUnavailable, types.Quote(w.InReplyTo))}
	}
	m, err := h.pull(ctx, h.unproven, w.InReplyTo, h.cfg.Client.messageOnce)
	switch {
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone):
		return Outcome{Err: errMAC}
	case err != nil:
		return Outcome{Err: err}
	case m.Response.ResolutionID() != w.ResolutionID:
		return Outcome{Err: errMAC}
	}
	out := Outcome{MessageID: m.Response.MessageID()}
	out.Err = h.act(ctx, delivery{}, m.Response)
	out.Acted = out.Err == nil
	return out
}

// pull reads a message that has ended from the Hub, as many at a time as there
// are places.
func (h *CallbackHandler) pull(ctx context.Context, places chan struct{}, id string, get func(context.Context, string) (*Message, error)) (*Message, error) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	default:
		return nil, &pullError{fmt.Errorf("%w: too many pulls under way", ErrUnavailable)}
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Client.cfg.AttemptTimeout)
	defer cancel()
	m, err := get(ctx, id)
	switch {
	case err != nil:
		return nil, &pullError{err}
	case m.Response == nil:
		return nil, &pullError{fmt.Errorf("%w: %s", ErrOpen, types.Quote(id))}
	}
	return m, nil
}

// pullError is the trouble of a pull. Whatever it is, the push was not refused
// for it.
type pullError struct{ err error }

func (e *pullError) Error() string { return "ma2h: the message could not be pulled: " + e.err.Error() }
func (e *pullError) Unwrap() error { return e.err }
