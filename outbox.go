package ma2h

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/transport"
	"github.com/ma2h/ma2h-go/types"
)

// ErrKeyExpired: the outbox has a submit under this key that was never
// acknowledged and is older than the Hub remembers keys (Config.KeyRetention).
// Sending it could ask a human twice; nothing was sent. ResendExpiredKey sends
// it all the same.
var ErrKeyExpired = errors.New("ma2h: the Hub has forgotten this idempotency key")

// Outbox keeps what is submitted, so that an agent that crashed and asks again
// under the same key sends the very same bytes (§8.1). It holds the whole
// message, as the Hub gets it: guard it as the Hub's own store. Sealed state
// in it stays sealed. It is safe for concurrent use, by many processes if it
// says so.
//
// Entries are forgotten after the retention that the Outbox documents. It
// should be no shorter than Config.KeyRetention. Errors are those of a Ledger.
type Outbox interface {
	// PutSubmit keeps body under key unless something is kept there, and
	// returns what is.
	PutSubmit(ctx context.Context, key SubmitKey, body []byte) (Submit, error)
	// GetSubmit returns what is kept under key: the zero Submit if nothing is.
	GetSubmit(ctx context.Context, key SubmitKey) (Submit, error)
	// AckSubmit keeps ack beside the body. The first one stands. If nothing is
	// kept under key it changes nothing.
	AckSubmit(ctx context.Context, key SubmitKey, ack []byte) error
	// DropSubmit forgets a submit that has no ack.
	DropSubmit(ctx context.Context, key SubmitKey) error
}

// SubmitKey names a submit: what the Hub dedups by.
type SubmitKey struct {
	Hub     string // its base URL, at most 2048 bytes: another Hub, another message
	AgentID string // 1 to 512 bytes
	Key     string // the idempotency key, 1 to 512 bytes
}

// Validate returns a *FieldError if a part is out of its bounds.
func (k SubmitKey) Validate() error {
	if len(k.Hub) > maxHubURL {
		return invalid("SubmitKey.Hub", "§8.1", "is %d bytes, over %d", len(k.Hub), maxHubURL)
	}
	for field, v := range map[string]string{"AgentID": k.AgentID, "Key": k.Key} {
		if v == "" || len(v) > limits.MaxKeyLen {
			return invalid("SubmitKey."+field, "§8.1", "is %d bytes, not 1 to %d", len(v), limits.MaxKeyLen)
		}
	}
	return nil
}

// maxHubURL bounds Config.HubURL, in bytes.
const maxHubURL = 2048

// Submit is what an Outbox keeps under a key.
type Submit struct {
	Body    []byte        // as it is sent; nil if nothing is kept
	Ack     []byte        // nil until the Hub took it
	Age     time.Duration // since it was put, by the store's clock
	Created bool          // it was put by this call
}

// Format prints the size and nothing of the content.
func (s Submit) Format(f fmt.State, _ rune) { redacted(f, "Submit", "size", fmt.Sprint(len(s.Body))) }

// LogValue logs what Format prints.
func (s Submit) LogValue() slog.Value {
	return slog.StringValue(redactedText("Submit", "size", fmt.Sprint(len(s.Body))))
}

// OutboxMismatchError: the outbox has another question under this key. Nothing
// was sent. It matches ErrIdempotencyConflict, which the Hub would have
// answered.
//
// All of a message is compared except what differs by itself when an agent
// builds it anew: created_at, agent.run_id, the protocol version, an
// expires_at that is as far from created_at as before, to the minute, and
// state, which a Sealer makes different each time. What is sent is the first.
type OutboxMismatchError struct {
	Key    string   // the idempotency key
	Fields []string // wire names such as "title" and "request.options"
}

func (e *OutboxMismatchError) Error() string {
	return fmt.Sprintf("ma2h: key %s is kept with another question; different: %s (§8.1)", types.Quote(e.Key), strings.Join(e.Fields, ", "))
}

// Unwrap returns ErrIdempotencyConflict.
func (e *OutboxMismatchError) Unwrap() error { return ErrIdempotencyConflict }

func (c *Client) submitKey(m *types.Message) SubmitKey {
	return SubmitKey{Hub: c.base, AgentID: c.cfg.Agent.ID, Key: m.IdempotencyKey}
}

// recall returns what the outbox keeps under the key of m.
func (c *Client) recall(ctx context.Context, m *types.Message) (Submit, error) {
	if m.IdempotencyKey == "" {
		return Submit{}, nil
	}
	kept, err := c.cfg.Outbox.GetSubmit(ctx, c.submitKey(m))
	if err != nil {
		return Submit{}, storeError(err)
	}
	return kept, nil
}

// submitFirst puts a message into the outbox and sends what is kept there.
func (c *Client) submitFirst(ctx context.Context, m *types.Message, frozen []byte) (*Ack, error) {
	if m.IdempotencyKey == "" {
		return c.submitFrozen(ctx, m.Type, m.IdempotencyKey, frozen, time.Time{})
	}
	kept, err := c.cfg.Outbox.PutSubmit(ctx, c.submitKey(m), frozen)
	if err != nil {
		return nil, storeError(err)
	}
	return c.submitKept(ctx, m, kept, false)
}

// submitKept sends what the outbox keeps, if it is the question of m.
func (c *Client) submitKept(ctx context.Context, m *types.Message, kept Submit, expiredToo bool) (*Ack, error) {
	key := m.IdempotencyKey
	if !kept.Created { // else it is m itself
		fields, err := differences(kept.Body, m)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: outbox entry of key %s: %w", ErrMalformed, types.Quote(key), err)
		case len(fields) > 0:
			return nil, &OutboxMismatchError{Key: key, Fields: fields}
		}
	}
	known, err := c.keptAck(key, kept.Ack)
	switch {
	case err != nil:
		return nil, err
	case kept.Age < c.cfg.KeyRetention:
	case known != nil:
		return known, nil
	case !expiredToo:
		return nil, fmt.Errorf("%w: key %s is %s old and was never acknowledged (§8.1)", ErrKeyExpired, types.Quote(key), kept.Age.Truncate(time.Second))
	}
	var since time.Time
	if !kept.Created && kept.Age < c.cfg.KeyRetention {
		since = c.cfg.Now().Round(0).Add(-kept.Age)
	}
	ack, err := c.submitFrozen(ctx, m.Type, key, kept.Body, since)
	switch {
	case err == nil && known != nil && known.ID != ack.ID:
		return known, &SubmitError{Op: m.Type, Key: key, Attempts: 1, Status: 202, Err: fmt.Errorf("%w: the Hub took a key that it had as a second message (§8.1)", ErrProtocol)}
	case err == nil && known == nil:
		c.keepAck(ctx, m, ack)
	case known != nil && errors.Is(err, transport.ErrForgotten):
		return known, nil
	case kept.Created && refused(err):
		c.drop(ctx, m)
	}
	return ack, err
}

// refused reports whether the Hub has said no and no attempt may have been
// taken.
func refused(err error) bool {
	if _, open := errors.AsType[*SubmitError](err); open {
		return false
	}
	_, said := errors.AsType[*APIError](err)
	return said
}

func (c *Client) keptAck(key string, text []byte) (*Ack, error) {
	if text == nil {
		return nil, nil
	}
	var w types.SubmitAck
	if err := types.Decode(text, &w); err != nil || w.ID == "" {
		return nil, fmt.Errorf("%w: outbox entry of key %s: its ack", ErrMalformed, types.Quote(key))
	}
	return &Ack{ID: w.ID, Status: w.Status, ReviewURL: w.ReviewURL, Key: key, PollURL: w.PollURL, agent: c.cfg.Agent.ID}, nil
}

// keepAck is a convenience for later runs: the Hub has the message, so a
// failure is no reason to say otherwise.
func (c *Client) keepAck(ctx context.Context, m *types.Message, ack *Ack) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	text, err := types.Encode(types.SubmitAck{ID: ack.ID, Status: ack.Status, PollURL: ack.PollURL, ReviewURL: ack.ReviewURL})
	if err == nil {
		err = c.cfg.Outbox.AckSubmit(ctx, c.submitKey(m), text)
	}
	if err != nil {
		c.log(ctx, slog.LevelWarn, "ma2h: ack not kept in the outbox", slog.String("id", types.Quote(ack.ID)), slog.String("error", err.Error()))
	}
}

// drop frees the key for a better question: the Hub took none under it.
func (c *Client) drop(ctx context.Context, m *types.Message) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := c.cfg.Outbox.DropSubmit(ctx, c.submitKey(m)); err != nil {
		c.log(ctx, slog.LevelWarn, "ma2h: refused message stays in the outbox", slog.String("error", err.Error()))
	}
}

// incidental are the members that differ when the same question is built anew.
var incidental = []string{"ma2h_version", "created_at", "expires_at", "state", "agent.run_id"}

// expirySlack is how far two relative deadlines may be apart: the time that an
// agent takes to build its question.
const expirySlack = time.Minute

// differences names the members in which m is another question than the kept
// one.
func differences(kept []byte, m *types.Message) ([]string, error) {
	built, err := types.Encode(m)
	if err != nil {
		return nil, errEncode
	}
	old, err := membersOf(kept)
	if err != nil {
		return nil, err
	}
	now, err := membersOf(built)
	if err != nil {
		return nil, err
	}
	var fields []string
	for name := range old {
		if !bytes.Equal(old[name], now[name]) {
			fields = append(fields, name)
		}
	}
	for name := range now {
		if _, ok := old[name]; !ok {
			fields = append(fields, name)
		}
	}
	fields = slices.DeleteFunc(fields, func(name string) bool { return slices.Contains(incidental, name) })
	if !sameExpiry(old, now) {
		fields = append(fields, "expires_at")
	}
	slices.Sort(fields)
	return fields, nil
}

// membersOf returns the members of a message in canonical form, those of
// agent, request and action by dotted names.
func membersOf(text []byte) (map[string]types.Raw, error) {
	doc, err := canon.Parse(text)
	if err != nil {
		return nil, err
	}
	var members map[string]types.Raw
	if err := types.Decode(doc.Bytes(), &members); err != nil {
		return nil, err
	}
	for _, name := range []string{"agent", "request", "action"} {
		var inner map[string]types.Raw
		if types.Decode(members[name], &inner) != nil {
			continue
		}
		delete(members, name)
		for k, v := range inner {
			members[name+"."+k] = v
		}
	}
	return members, nil
}

// sameExpiry compares deadlines as the agent means them: a time, or a time
// from when it asks.
func sameExpiry(old, now map[string]types.Raw) bool {
	if bytes.Equal(old["expires_at"], now["expires_at"]) {
		return true
	}
	// Of a time that cannot be read it is centuries.
	distance := func(m map[string]types.Raw) time.Duration {
		var made, ends time.Time
		_, _ = types.Decode(m["created_at"], &made), types.Decode(m["expires_at"], &ends)
		return ends.Sub(made)
	}
	return now["expires_at"] != nil && (distance(old)-distance(now)).Abs() <= expirySlack
}
