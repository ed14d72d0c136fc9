package ma2htest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ma2h/ma2h-go/types"
)

// Sentinels under an *Error.
var (
	// ErrTerminal: the message had ended before; Error.Outcome says how.
	ErrTerminal = errors.New("ma2htest: message is terminal")
	// ErrNotAuthorized: the resolver is not in allowed_resolvers (§9.1).
	ErrNotAuthorized = errors.New("ma2htest: resolver is not allowed")
	// ErrNotFound: there is no such message.
	ErrNotFound = errors.New("ma2htest: no such message")
	// ErrGone: the message was forgotten or is past its retention.
	ErrGone = errors.New("ma2htest: message is gone")
	// ErrInvalid: the message does not take this resolution or value.
	ErrInvalid = errors.New("ma2htest: resolution does not fit the message")
)

// Error is a refusal, the same on the wire and from the human side (§8.5).
type Error struct {
	Status  int    // HTTP status
	Code    string // machine code
	Message string
	Outcome *Outcome // set with already_terminal

	retryAfter int // seconds, of a 429
}

// Outcome is how a message ended.
type Outcome struct {
	ID           string
	Status       types.Status
	Resolution   types.Resolution
	ResolutionID string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("ma2htest: %d %s: %s", e.Status, e.Code, e.Message)
	if e.Outcome != nil {
		s += fmt.Sprintf(" (%s is %s)", e.Outcome.ID, e.Outcome.Status)
	}
	return s
}

// Is matches the sentinel of the code.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrTerminal:
		return e.Code == types.CodeAlreadyTerminal
	case ErrNotAuthorized:
		return e.Code == types.CodeNotAuthorized
	case ErrNotFound:
		return e.Code == types.CodeNotFound
	case ErrGone:
		return e.Code == types.CodeGone
	case ErrInvalid:
		return e.Code == types.CodeInvalidField || e.Code == types.CodeValidation
	}
	return false
}

func refuse(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalidField(format string, args ...any) *Error {
	return refuse(http.StatusUnprocessableEntity, types.CodeInvalidField, format, args...)
}

func malformed(format string, args ...any) *Error {
	return refuse(http.StatusBadRequest, types.CodeValidation, format, args...)
}

func notFound() *Error { return refuse(http.StatusNotFound, types.CodeNotFound, "no such resource") }

// reply writes the canonical envelope, with the outcome of a lost race beside
// it (§8.4, §8.5).
func (e *Error) reply() reply {
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		ID         string           `json:"id,omitempty"`
		Status     types.Status     `json:"status,omitempty"`
		Resolution types.Resolution `json:"resolution,omitempty"`
	}
	body.Error.Code, body.Error.Message = e.Code, e.Message
	if o := e.Outcome; o != nil {
		body.ID, body.Status, body.Resolution = o.ID, o.Status, o.Resolution
	}
	r := jsonReply(e.Status, body)
	if e.retryAfter > 0 {
		r = r.with("Retry-After", strconv.Itoa(e.retryAfter))
	}
	return r
}

func jsonReply(status int, v any) reply {
	b, err := types.Encode(v)
	if err != nil {
		return reply{status: http.StatusInternalServerError}
	}
	return reply{status: status, body: b}
}
