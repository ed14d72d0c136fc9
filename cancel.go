package ma2h

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ma2h/ma2h-go/types"
)

// Cancel withdraws an open ask. A nil error means that it ended as cancelled.
// If it had ended otherwise, errors.As finds a *TerminalError with how: a
// decision may have been made. Tasks cannot be cancelled (§8.4).
func (c *Client) Cancel(ctx context.Context, id string) error {
	target, err := c.messageURL(id, "/cancel")
	if err != nil {
		return err
	}
	reply, err := c.do(ctx, opCancel, id, http.MethodPost, target, []byte("{}"))
	if err != nil && !errors.Is(err, ErrAlreadyTerminal) {
		return err
	}
	end := cancelOutcome(reply.Body)
	if !end.Status.Terminal() {
		// The Hub said that the message is terminal and not how.
		m, gerr := c.Message(ctx, id)
		if gerr != nil {
			return errors.Join(err, gerr)
		}
		end = types.CancelResult{ID: id, Status: m.Wire.Status}
	}
	switch {
	case end.ID != "" && end.ID != id:
		return fmt.Errorf("%w: cancelled message %s and got another (§8.4)", ErrProtocol, types.Quote(id))
	case end.Status == types.StatusCancelled:
		return nil
	case !end.Status.Terminal():
		return fmt.Errorf("%w: message %s is %s after a cancel (§8.4)", ErrProtocol, types.Quote(id), types.Quote(string(end.Status)))
	}
	lost := &TerminalError{ID: id, Status: end.Status}
	if r := Resolution(end.Status); r.Known() {
		lost.Resolution = r
	}
	return lost
}

// cancelOutcome finds {id,status} where Hubs put it: beside the error, in it,
// or in its details.
func cancelOutcome(body []byte) types.CancelResult {
	var w struct {
		types.CancelResult
		Error struct {
			types.CancelResult
			Details types.CancelResult `json:"details"`
		} `json:"error"`
	}
	if types.Decode(body, &w) != nil {
		return types.CancelResult{}
	}
	for _, r := range []types.CancelResult{w.CancelResult, w.Error.CancelResult, w.Error.Details} {
		if r.Status != "" {
			return r
		}
	}
	return types.CancelResult{}
}
