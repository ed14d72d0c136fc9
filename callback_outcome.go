package ma2h

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// Outcome is what became of a delivery and what to answer the Hub.
type Outcome struct {
	// Status is the HTTP status to answer with.
	Status int
	// RetryAfter goes with a 503.
	RetryAfter time.Duration
	// Acted reports whether this call ran the act to its end.
	Acted bool
	// MessageID is the message or directive, once verified.
	MessageID string
	// Err says why nothing was acted on, or is nil. Where the handler's own
	// function failed, errors.Is finds its error too.
	Err error
}

// Format prints the status, the id and the library's own reason.
func (o Outcome) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.text()) }

// LogValue logs what Format prints.
func (o Outcome) LogValue() slog.Value { return slog.StringValue(o.text()) }

func (o Outcome) text() string {
	why := ""
	if o.Err != nil {
		why = " " + reason(o.Err)
	}
	return fmt.Sprintf("Outcome{status=%d acted=%t id=%s%s}", o.Status, o.Acted, types.Quote(o.MessageID), why)
}

// Errors of a request before it is a delivery.
var (
	errMethod   = errors.New("ma2h: not a POST")
	errType     = errors.New("ma2h: not JSON")
	errTooLarge = errors.New("ma2h: the body is too large")
	errBody     = errors.New("ma2h: the body did not arrive whole")
	errConsumed = errors.New("ma2h: the body is shorter than its length: something before this handler has read it; give the bytes to Process instead")
	errPanicked = errors.New("ma2h: a function of the configuration panicked")
	errClosing  = errors.New("ma2h: shutting down")
	errToken    = errors.New("ma2h: the callback credential is missing or wrong")
	errUnsent   = errors.New("ma2h: this agent did not send that message")
)

// passing reports whether an error says nothing final about the delivery. It
// is asked first: such an error may wrap another that would be final.
func passing(err error) bool {
	if _, ok := errors.AsType[*pullError](err); ok || failedToAct(err) {
		return true
	}
	for _, e := range []error{ErrStoreUnavailable, ErrStoreFull, ErrLeaseLost, ErrKeySource, ErrInDoubt, ErrOutcomeUnknown} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// done chooses the answer. Whatever is not known to be final is 503: a Hub
// never repeats a 4xx, so a 4xx for a passing fault loses the decision.
func (h *CallbackHandler) done(ctx context.Context, out Outcome) Outcome {
	level := slog.LevelWarn
	switch err := out.Err; {
	case err == nil:
		out.Status, level = http.StatusOK, slog.LevelInfo
	case passing(err):
		out.Status = http.StatusServiceUnavailable
	case errors.Is(err, ErrAlreadyActed):
		out.Status, level = http.StatusOK, slog.LevelInfo
	case errors.Is(err, errMethod):
		out.Status = http.StatusMethodNotAllowed
	case errors.Is(err, errType):
		out.Status = http.StatusUnsupportedMediaType
	case errors.Is(err, errTooLarge):
		out.Status = http.StatusRequestEntityTooLarge
	case errors.Is(err, errToken), errors.Is(err, ErrSignature), errors.Is(err, ErrStale), errors.Is(err, ErrReplay):
		out.Status = http.StatusUnauthorized
	case errors.Is(err, ErrAddressee), errors.Is(err, ErrNotAuthorized):
		out.Status = http.StatusForbidden
	case errors.Is(err, errUnsent):
		out.Status = http.StatusNotFound
	case errors.Is(err, ErrSecondResolution), errors.Is(err, ErrMalformed), errors.Is(err, ErrVersion), errors.Is(err, ErrUnboundPayload):
		out.Status = http.StatusBadRequest
	default:
		out.Status = http.StatusServiceUnavailable
	}
	if out.Status == http.StatusServiceUnavailable {
		out.RetryAfter = h.cfg.RetryAfter
		if failedToAct(out.Err) || errors.Is(out.Err, errConsumed) || errors.Is(out.Err, ErrInDoubt) || errors.Is(out.Err, ErrOutcomeUnknown) {
			level = slog.LevelError
		}
	}
	if !h.cfg.Logger.Enabled(ctx, level) {
		return out
	}
	attrs := []slog.Attr{slog.Int("status", out.Status), slog.Bool("acted", out.Acted)}
	if out.MessageID != "" {
		attrs = append(attrs, slog.String("id", types.Quote(out.MessageID)))
	}
	if out.Err != nil {
		attrs = append(attrs, slog.String("reason", reason(out.Err)))
	}
	h.cfg.Logger.LogAttrs(ctx, level, "ma2h: delivery", attrs...)
	return out
}

// reason names the library's own error. That of a caller's function may hold
// content and is the caller's to log.
func reason(err error) string {
	if failedToAct(err) && !errors.Is(err, ErrActPanicked) {
		return "ma2h: the handler failed"
	}
	if _, ok := errors.AsType[*pullError](err); ok {
		return "ma2h: the message could not be pulled"
	}
	for _, known := range []error{
		errMethod, errType, errTooLarge, errBody, errConsumed, errClosing, errToken, errUnsent, errPanicked,
		ErrKeySource, ErrInDoubt, ErrOutcomeUnknown, ErrActPanicked, ErrStoreFull, ErrStoreUnavailable, ErrLeaseLost,
		ErrSignature, ErrStale, ErrReplay, ErrAddressee, ErrMalformed, ErrVersion, ErrUnboundPayload,
		ErrInFlight, ErrSecondResolution, ErrAlreadyActed, ErrNotAuthorized, ErrUnavailable,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "ma2h: not accepted"
}
