package ma2h

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

// Handle is what a process keeps of a message to come back to it in another:
// a short printable string that holds ids and no secret. Keep it wherever the
// next run looks: a file, a row, a job output.
type Handle struct {
	MessageID      string `json:"id"`           // what Wait and Message take
	AgentID        string `json:"agent"`        // who asked
	IdempotencyKey string `json:"key,omitzero"` // what Bind takes to open the state
}

const handlePrefix = "ma2h-handle1."

// Handle returns what to keep of an accepted message.
func (a *Ack) Handle() Handle {
	return Handle{MessageID: a.ID, AgentID: a.agent, IdempotencyKey: a.Key}
}

// String encodes the handle; ParseHandle reads it.
func (h Handle) String() string {
	b, err := types.Encode(h)
	if err != nil {
		return ""
	}
	return handlePrefix + base64.RawURLEncoding.EncodeToString(b)
}

// ParseHandle reads a string that Handle.String made, of this or any earlier
// release. It says nothing about who wrote it: what the handle leads to comes
// from the Hub.
func ParseHandle(s string) (Handle, error) {
	var h Handle
	text, ok := strings.CutPrefix(strings.TrimSpace(s), handlePrefix)
	if !ok {
		return h, fmt.Errorf("%w: not a handle", ErrMalformed)
	}
	if len(text) > 8*limits.MaxIDLen {
		return h, fmt.Errorf("%w: handle of %d bytes", ErrMalformed, len(text))
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return h, fmt.Errorf("%w: handle is not base64url", ErrMalformed)
	}
	if err := types.Decode(b, &h); err != nil {
		return Handle{}, fmt.Errorf("%w: handle: %w", ErrMalformed, err)
	}
	if h.MessageID == "" || len(h.MessageID) > limits.MaxIDLen || h.AgentID == "" || len(h.AgentID) > limits.MaxIDLen {
		return Handle{}, fmt.Errorf("%w: handle lacks an id", ErrMalformed)
	}
	return h, nil
}
