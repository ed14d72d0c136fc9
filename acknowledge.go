package ma2h

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ma2h/ma2h-go/types"
)

// maxNote is how long a note to a human may be, in bytes.
const maxNote = 4096

// Acknowledge tells the human that the answer has arrived, with an optional
// note of at most 4096 bytes. The first acknowledgment of a message stands: a
// later one changes nothing and returns the first. Before the agent has read
// the answer, or while the message is open, it is ErrNotAcknowledgeable
// (§14.3). A Hub without acknowledgments is ErrUnsupported.
func (c *Client) Acknowledge(ctx context.Context, id, note string) (*types.Ack, error) {
	target, err := c.messageURL(id, "/ack")
	if err != nil {
		return nil, err
	}
	if len(note) > maxNote {
		return nil, invalid("note", "§14.3", "is %d bytes, over %d", len(note), maxNote)
	}
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	if !caps.OffersAck() {
		return nil, unsupported("acknowledgments", "§14")
	}
	body, err := types.Encode(types.AckRequest{Note: note})
	if err != nil {
		return nil, fmt.Errorf("ma2h: note: %w", errEncode)
	}
	reply, err := c.do(ctx, opAck, id, http.MethodPost, target, body)
	if err != nil {
		return nil, err
	}
	var ack types.Ack
	if err := readDocument(reply.Body, &ack); err != nil {
		return nil, fmt.Errorf("%w: ack of %s: %w", ErrProtocol, types.Quote(id), err)
	}
	if ack.InReplyTo != id {
		return nil, fmt.Errorf("%w: acknowledged %s and got a receipt of another (§14.1)", ErrProtocol, types.Quote(id))
	}
	return &ack, nil
}
