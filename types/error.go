package types

import (
	"fmt"
	"log/slog"
)

// ErrorBody is the canonical error envelope (§8.5).
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail is the machine code and the human text of an error. The text is
// untrusted.
type ErrorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message,omitzero"`
}

// Validate returns a *FieldError for the first rule of §8.5 that e breaks.
func (e *ErrorBody) Validate() error {
	var c checker
	c.require("§8.5", "error.code", e.Error.Code)
	return c.err
}

func (e ErrorBody) summary() summary { return summarize("ErrorBody", "code", e.Error.Code) }

// Format prints the code.
func (e ErrorBody) Format(f fmt.State, _ rune) { e.summary().write(f) }

// LogValue logs the code.
func (e ErrorBody) LogValue() slog.Value { return e.summary().LogValue() }

// Format prints the code.
func (e ErrorDetail) Format(f fmt.State, _ rune) { summarize("Error", "code", e.Code).write(f) }

// LogValue logs the code.
func (e ErrorDetail) LogValue() slog.Value { return summarize("Error", "code", e.Code).LogValue() }

// Error codes (§8.5).
const (
	CodeValidation          = "validation_error"
	CodeVersionNotSupported = "version_not_supported"
	CodeUnauthenticated     = "unauthenticated"
	CodeAgentIDMismatch     = "agent_id_mismatch"
	CodeNotAuthorized       = "not_authorized"
	CodeNotFound            = "not_found"
	CodeIdempotencyConflict = "idempotency_conflict"
	CodeAlreadyTerminal     = "already_terminal"
	CodeNotAcknowledgeable  = "not_acknowledgeable" // named by 0.5, sent by earlier Hubs too
	CodeGone                = "gone"
	CodeInvalidField        = "invalid_field"
	CodeRateLimited         = "rate_limited"
)
