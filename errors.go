package ma2h

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/transport"
	"github.com/ma2h/ma2h-go/types"
)

// What a Hub's refusal means, for errors.Is on an error of a Client. Each row
// of §8.5 is exactly one of them; a code that this library does not know reads
// as the base code of its status at the call that got it.
var (
	// ErrValidation: the Hub found the envelope malformed (400).
	ErrValidation = errors.New("ma2h: the Hub refused the message as malformed")
	// ErrVersion: a protocol version that the other side, or this library,
	// does not speak (§10).
	ErrVersion = types.ErrVersion
	// ErrUnauthenticated: the credential is missing or not valid (401).
	ErrUnauthenticated = errors.New("ma2h: the Hub did not accept the credential")
	// ErrAgentIDMismatch: the credential is scoped to another agent id (403).
	ErrAgentIDMismatch = errors.New("ma2h: the credential is scoped to another agent id")
	// ErrNotAuthorized: the principal may not do this (403).
	ErrNotAuthorized = errors.New("ma2h: not authorized")
	// ErrNotFound: the id is unknown, or belongs to another submitter (404).
	ErrNotFound = errors.New("ma2h: no such message")
	// ErrGone: the message was deleted or is past its retention (410).
	ErrGone = errors.New("ma2h: the message is gone")
	// ErrIdempotencyConflict: the key was used before with other content
	// (409). See ConflictError.
	ErrIdempotencyConflict = errors.New("ma2h: the idempotency key was used with other content")
	// ErrAlreadyTerminal: the message had ended before (409). See TerminalError.
	ErrAlreadyTerminal = errors.New("ma2h: the message has already ended")
	// ErrNotAcknowledgeable: the message is open, or its answer has not
	// reached the agent (409).
	ErrNotAcknowledgeable = errors.New("ma2h: there is no answer to acknowledge yet")
	// ErrInvalidField: a field's value is not acceptable now (422).
	ErrInvalidField = errors.New("ma2h: the Hub refused a field's value")
	// ErrRateLimited: over a published limit; APIError.RetryAfter says how
	// long to wait (429).
	ErrRateLimited = errors.New("ma2h: rate limited")
	// ErrRedirect: the Hub answered with a redirect, which is never followed.
	ErrRedirect = errors.New("ma2h: refused to follow a redirect")
	// ErrUnavailable: the Hub answered 5xx.
	ErrUnavailable = errors.New("ma2h: the Hub is unavailable")
	// ErrProtocol: the answer is not one that the protocol allows.
	ErrProtocol = errors.New("ma2h: the answer breaks the protocol")
)

// What a call can end in before or beside a Hub's answer.
var (
	// ErrUnsupported: the Hub does not offer the feature; nothing was sent.
	ErrUnsupported = errors.New("ma2h: the Hub does not offer this")
	// ErrOutcomeUnknown: an effect may or may not have happened. On a submit,
	// sending the same question under the same key again settles it.
	ErrOutcomeUnknown = errors.New("ma2h: the outcome is unknown")
	// ErrNoResolver: the question names nobody who could answer it; nothing
	// was sent (§9.1).
	ErrNoResolver = errors.New("ma2h: nobody is allowed to answer this")
	// ErrNoAnswer: the question ended without an answer: declined, cancelled
	// or expired. See NoAnswerError.
	ErrNoAnswer = errors.New("ma2h: there is no answer")
	// ErrOtherQuestion: the message is not the question that is judged.
	ErrOtherQuestion = errors.New("ma2h: the message is another question")
	// ErrActor: the answer is not from anyone who was asked.
	ErrActor = errors.New("ma2h: the answer is from someone who was not asked")
	// ErrUnboundPayload: a push at 0.2, whose signature does not cover the
	// answer, and AllowUnboundPayload is not set (§10).
	ErrUnboundPayload = errors.New("ma2h: the signature does not cover the answer")
	// ErrZeroValue: the value was not made by its constructor.
	ErrZeroValue = errors.New("ma2h: the value was not made by its constructor")
	// ErrMalformed: a text is not the JSON, or the shape, that it must be.
	ErrMalformed = errors.New("ma2h: malformed")
)

// APIError is a final answer of a Hub that is not a success.
type APIError struct {
	Op         string        // the call: "submit", "get", "cancel", ...
	Status     int           // HTTP status
	Code       string        // machine code as sent, at most 64 bytes; empty if there was none
	Message    string        // the Hub's text, at most 512 bytes, without control characters; untrusted
	RetryAfter time.Duration // what the Hub asked to wait, zero if it did not
	ID         string        // message id, or the idempotency key of a submit
	kind       error
}

func (e *APIError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ma2h: %s", e.Op)
	if e.ID != "" {
		fmt.Fprintf(&b, " %s", types.Quote(e.ID))
	}
	fmt.Fprintf(&b, ": %d", e.Status)
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", types.Quote(e.Code))
	}
	if e.kind != nil {
		fmt.Fprintf(&b, ": %s", strings.TrimPrefix(e.kind.Error(), "ma2h: "))
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", asked to wait %s", e.RetryAfter)
	}
	return b.String()
}

// Format prints Error under every verb: Message may quote what was sent.
func (e *APIError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// LogValue logs Error.
func (e *APIError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Unwrap returns the sentinel that the answer means, or nil.
func (e *APIError) Unwrap() error { return e.kind }

// touchpoint is a call whose 404, 409 and 410 have a meaning of their own.
type touchpoint string

const (
	opSubmit   touchpoint = "submit"
	opGet      touchpoint = "get"
	opCancel   touchpoint = "cancel"
	opAck      touchpoint = "acknowledge"
	opDiscover touchpoint = "discover"
	opPresence touchpoint = "presence"
	opInbox    touchpoint = "drain inbox"
	opInboxAck touchpoint = "acknowledge inbox"
)

// kinds maps the codes of §8.5. A known code wins over its status.
var kinds = map[string]error{
	types.CodeValidation:          ErrValidation,
	types.CodeVersionNotSupported: ErrVersion,
	types.CodeUnauthenticated:     ErrUnauthenticated,
	types.CodeAgentIDMismatch:     ErrAgentIDMismatch,
	types.CodeNotAuthorized:       ErrNotAuthorized,
	types.CodeNotFound:            ErrNotFound,
	types.CodeIdempotencyConflict: ErrIdempotencyConflict,
	types.CodeAlreadyTerminal:     ErrAlreadyTerminal,
	types.CodeNotAcknowledgeable:  ErrNotAcknowledgeable,
	types.CodeGone:                ErrGone,
	types.CodeInvalidField:        ErrInvalidField,
	types.CodeRateLimited:         ErrRateLimited,
}

// fallback is the meaning of a status whose code is unknown, or absent. A 409
// alone means nothing (§8.5), except to a cancel, whose body need not have a
// code (§8.4).
func (t touchpoint) fallback(status int, coded bool) error {
	switch status {
	case http.StatusBadRequest:
		return ErrValidation
	case http.StatusUnauthorized:
		return ErrUnauthenticated
	case http.StatusForbidden:
		return ErrNotAuthorized
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusConflict:
		switch {
		case t == opSubmit && coded:
			return ErrIdempotencyConflict
		case t == opCancel:
			return ErrAlreadyTerminal
		case t == opAck && coded:
			return ErrNotAcknowledgeable
		}
	case http.StatusGone:
		if t != opSubmit && t != opDiscover {
			return ErrGone
		}
	case http.StatusUnprocessableEntity:
		return ErrInvalidField
	case http.StatusTooManyRequests:
		return ErrRateLimited
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return ErrRedirect
	}
	if status >= 500 {
		return ErrUnavailable
	}
	return ErrProtocol
}

// apiError reads a refusal. A body that is not the error envelope, such as a
// proxy's page, gives the status alone.
func apiError(op touchpoint, id string, r *transport.Reply, now time.Time) *APIError {
	e := &APIError{Op: string(op), Status: r.Status, ID: id, RetryAfter: transport.RetryAfter(r.Header, now)}
	if isJSON(r.Header) {
		var body types.ErrorBody
		if types.Decode(r.Body, &body) == nil {
			e.Code = clean(body.Error.Code, limits.MaxErrorCode)
			e.Message = clean(body.Error.Message, limits.MaxErrorMessage)
		}
	}
	e.kind = kinds[e.Code]
	if e.kind == nil {
		e.kind = op.fallback(r.Status, e.Code != "")
	}
	return e
}

// clean cuts untrusted text to n bytes and takes out what moves the cursor or
// turns the direction of a line.
func clean(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return -1
		}
		return r
	}, s)
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}

func isJSON(h http.Header) bool {
	ct, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	ct = strings.ToLower(strings.TrimSpace(ct))
	return ct == "application/json" || strings.HasPrefix(ct, "application/") && strings.HasSuffix(ct, "+json")
}

// SubmitError says that a submit got no acceptance. Asking the same question
// under Key again never asks a human twice.
type SubmitError struct {
	Op       Verb   // what was submitted
	Key      string // its idempotency key; empty for a notify without one
	Attempts int    // how often it was sent
	Status   int    // HTTP status of the last answer, 0 if there was none
	Unknown  bool   // an attempt may have been taken: errors.Is finds ErrOutcomeUnknown
	Err      error  // why the last attempt failed
}

func (e *SubmitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ma2h: %s", e.Op)
	if e.Key != "" {
		fmt.Fprintf(&b, " with key %s", types.Quote(e.Key))
	}
	fmt.Fprintf(&b, " not confirmed after %d attempts", e.Attempts)
	if e.Status != 0 {
		fmt.Fprintf(&b, ", the last answered %d", e.Status)
	}
	switch {
	case e.Unknown && e.Key != "":
		b.WriteString("; the outcome is unknown")
		if !errors.Is(e.Err, transport.ErrForgotten) {
			b.WriteString(", send it again with the same key")
		}
	case e.Unknown:
		b.WriteString("; the outcome is unknown and without a key it cannot be sent again safely")
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns the cause and, where the outcome is unknown, ErrOutcomeUnknown.
func (e *SubmitError) Unwrap() []error {
	if e.Unknown {
		return []error{e.Err, ErrOutcomeUnknown}
	}
	return []error{e.Err}
}

// ConflictError is ErrIdempotencyConflict: the Hub holds another message under
// this key. It is final. A restarted agent without Config.Outbox gets it when
// it builds the message anew, since created_at and the run id are part of what
// the Hub compares.
type ConflictError struct {
	Key string    // the idempotency key
	API *APIError // the Hub's answer
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("ma2h: key %s was used with other content and stays with the first message (§8.1); the same question built anew differs in created_at and run_id: a store as Config.Outbox keeps the first, a Handle its id", types.Quote(e.Key))
}

// Unwrap returns the Hub's answer.
func (e *ConflictError) Unwrap() error { return e.API }

// TerminalError is ErrAlreadyTerminal with how the message ended in truth.
type TerminalError struct {
	ID         string     // the message
	Status     Status     // its last status
	Resolution Resolution // Status as a Resolution; empty for a notify
}

func (e *TerminalError) Error() string {
	return fmt.Sprintf("ma2h: message %s had already ended as %s (§8.4)", types.Quote(e.ID), types.Quote(string(e.Status)))
}

// Unwrap returns ErrAlreadyTerminal.
func (e *TerminalError) Unwrap() error { return ErrAlreadyTerminal }

// NoAnswerError is ErrNoAnswer with how the question ended.
type NoAnswerError struct {
	ID         string     // the message
	Resolution Resolution // Declined, Cancelled or Expired
}

func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("ma2h: message %s ended as %s without an answer", types.Quote(e.ID), types.Quote(string(e.Resolution)))
}

// Unwrap returns ErrNoAnswer.
func (e *NoAnswerError) Unwrap() error { return ErrNoAnswer }

func unsupported(feature, section string) error {
	return fmt.Errorf("%w: %s (%s)", ErrUnsupported, feature, section)
}

func invalid(field, section, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...), Section: section}
}

// within puts what is wrong with a part under the field that holds it, so that
// an error of a configuration has one prefix and one path.
func within(field string, err error) error {
	if fe, ok := errors.AsType[*FieldError](err); ok {
		nested := *fe
		nested.Field = field + "." + fe.Field
		return &nested
	}
	return &withinError{field: field, err: err}
}

type withinError struct {
	field string
	err   error
}

func (e *withinError) Error() string { return "ma2h: " + e.field + ": " + unprefixed(e.err) }
func (e *withinError) Unwrap() error { return e.err }

// unprefixed is the text of an error that goes into another of this library.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "ma2h: ") }
