package ma2h

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/strict"
	"github.com/ma2h/ma2h-go/internal/transport"
	"github.com/ma2h/ma2h-go/types"
)

// Client is an agent's connection to its Hub. It is immutable and safe for
// concurrent use; no error ever changes it.
type Client struct {
	cfg  Config
	base string // the Hub URL without a trailing slash
	url  *url.URL
	send *transport.Transport
	caps *capabilityCache
	hold time.Duration
}

// NewClient checks cfg and returns a Client. It does no I/O. An error names
// the field, the bound and the section.
func NewClient(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if cfg.Agent.RunID == "" {
		id, err := randomID(cfg.Rand, "run_")
		if err != nil {
			return nil, fmt.Errorf("ma2h: Config.Rand: %w", err)
		}
		cfg.Agent.RunID = id
	}
	u, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, url: u, base: strings.TrimRight(u.String(), "/"), caps: &capabilityCache{}, hold: cfg.hold()}
	if cfg.Outbox == nil {
		if c.cfg.Outbox, err = newClientOutbox(cfg); err != nil {
			return nil, err
		}
	}
	c.send = &transport.Transport{
		HTTP:    transport.Prepare(cfg.HTTPClient),
		Now:     cfg.Now,
		Rand:    c.cfg.jitter,
		Log:     cfg.Logger,
		Backoff: transport.Backoff{Min: minBackoff, Max: cfg.MaxBackoff},
	}
	return c, nil
}

// Format prints the Hub and the agent, nothing of the credential.
func (c Client) Format(f fmt.State, _ rune) {
	redacted(f, "Client", "hub", c.url.Host, "agent", c.cfg.Agent.ID)
}

// LogValue logs what Format prints.
func (c Client) LogValue() slog.Value {
	return slog.StringValue(redactedText("Client", "hub", c.url.Host, "agent", c.cfg.Agent.ID))
}

// Ack is the Hub's acceptance of a message (§8.1).
type Ack struct {
	ID        string // the message id, the Hub's own
	Status    Status // delivered for a notify, open for an ask or task; on a resend whatever it is by now
	ReviewURL string // where a human sees the message, if the Hub says
	Key       string // the idempotency key that the message was sent with
	// PollURL is what the Hub names for polling. The Client polls the
	// configured Hub by ID and takes no credential anywhere else.
	PollURL string

	agent string
}

// Notify informs a human. A nil error means that the Hub has the message and
// keeps it. Without an idempotency key a call whose fate is unknown ends in a
// *SubmitError with Unknown set and is not sent again.
func (c *Client) Notify(ctx context.Context, n Notify) (*Ack, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	return c.submit(ctx, n.message(), n.ResendExpiredKey)
}

// Ask sends a question and returns once the Hub has it; Wait gets the answer.
//
// The message is encoded once, and the same bytes are sent until the Hub
// accepts or refuses them or ctx ends: a lost answer never asks a human twice.
//
// Nothing is sent where the question is wrong (*FieldError, ErrNoResolver, or
// *schema.Error for the schema of an Input), where the Hub does not offer what
// it needs (ErrUnsupported), or where the outbox has another question under the
// key (*OutboxMismatchError).
//
// A refusal is an *APIError, or a *ConflictError where the Hub has another
// message under the key. Giving up is a *SubmitError with the key to go on
// with. It gives up by itself when an attempt that may have been taken is as
// old as Config.KeyRetention. An acceptance that breaks the protocol is a
// *SubmitError too, and comes with the Ack as far as it could be read.
func (c *Client) Ask(ctx context.Context, a Ask) (*Ack, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	m, err := a.message(c.self())
	if err != nil {
		return nil, err
	}
	return c.submit(ctx, m, a.ResendExpiredKey)
}

// Task sends a task and returns once the Hub has it; Wait gets how it ended.
// Its errors are those of Ask.
func (c *Client) Task(ctx context.Context, t Task) (*Ack, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	m, err := t.message(c.self())
	if err != nil {
		return nil, err
	}
	return c.submit(ctx, m, t.ResendExpiredKey)
}

func (c *Client) self() string { return "agent:" + c.cfg.Agent.ID }

// made reports ErrZeroValue for a Client that NewClient did not make.
func (c *Client) made() error {
	if c == nil || c.send == nil {
		return fmt.Errorf("%w: Client", ErrZeroValue)
	}
	return nil
}

// submit freezes the message and sends it, or what the outbox keeps of it.
func (c *Client) submit(ctx context.Context, m types.Message, expiredToo bool) (*Ack, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ma2h: nothing was sent: %w", contextError(ctx))
	}
	m.Version = types.V03
	m.CreatedAt = timestamp(c.cfg.Now().Truncate(time.Millisecond))
	m.Agent = c.cfg.Agent
	if err := checkCallback(m.Callback(), c.cfg.AllowInsecureLoopback); err != nil {
		return nil, err
	}
	if m.Type != types.VerbNotify && m.IdempotencyKey == "" {
		return nil, invalid("IdempotencyKey", "§8.1", "is required; NewKey and KeyOf make one")
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	ack, err := c.submitFrom(ctx, m, expiredToo)
	if errors.Is(err, ErrInvalidField) && overdue(m.ExpiresAt, c.cfg.Now()) {
		// The Hub's own words may quote the message, so they are not told.
		err = fmt.Errorf("%w: ExpiresAt is not ahead of this machine's clock (§4)", err)
	}
	return ack, err
}

// overdue reports whether a deadline has passed by a clock that the Hub's may
// differ from: a hint, never a reason to refuse (§9.5).
func overdue(expiresAt string, now time.Time) bool {
	t, err := time.Parse(time.RFC3339Nano, expiresAt)
	return err == nil && !t.After(now)
}

// submitFrom sends what the outbox keeps of m, or m.
func (c *Client) submitFrom(ctx context.Context, m types.Message, expiredToo bool) (*Ack, error) {
	kept, err := c.recall(ctx, &m)
	if err != nil {
		return nil, err
	}
	if kept.Body != nil {
		return c.submitKept(ctx, &m, kept, expiredToo)
	}
	caps, err := c.limits(ctx)
	if err != nil {
		return nil, err
	}
	if err := preflight(&m, caps); err != nil {
		return nil, err
	}
	frozen, err := types.Encode(m)
	if err != nil {
		return nil, fmt.Errorf("ma2h: %s: %w", m.Type, errEncode)
	}
	// The encoder has refused what is no strict JSON; raw members may still
	// hold what no reader on the way takes alike.
	if err := strict.Scan(frozen); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrMalformed, m.Type, err)
	}
	return c.submitFirst(ctx, &m, frozen)
}

// preflight refuses what the Hub says it would (§8.0, §8.6) and stamps the
// version that it understands.
func preflight(m *types.Message, caps *types.Capability) error {
	cb := m.Callback()
	push := cb != nil && cb.Mode == types.CallbackPush
	if v, err := types.ParseVersion(caps.Version); err == nil && !v.BindsPayload() {
		if push {
			return unsupported("push with a signed payload", "§10")
		}
		m.Version = types.V02
	}
	if push && cb.Auth != nil && len(caps.CallbackAuthSchemes) > 0 && !contains(caps.CallbackAuthSchemes, string(cb.Auth.Scheme)) {
		return unsupported("callback scheme "+string(cb.Auth.Scheme), "§8.0")
	}
	if most := caps.MaxBodyBytes; most > 0 && int64(len(m.Body)) > most {
		return invalid("body", "§8.6", "is %d bytes, over the Hub's %d", len(m.Body), most)
	}
	if most := caps.MaxContextParts; most != nil && int64(len(m.Context)) > *most {
		return invalid("context", "§8.6", "has %d parts, over the Hub's %d", len(m.Context), *most)
	}
	if most := caps.MaxPartBytes; most > 0 {
		for i := range m.Context {
			b, err := types.Encode(m.Context[i])
			if err != nil {
				return fmt.Errorf("ma2h: context[%d]: %w", i, errEncode)
			}
			if int64(len(b)) > most {
				return invalid(fmt.Sprintf("context[%d]", i), "§8.6", "is %d bytes, over the Hub's %d", len(b), most)
			}
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// submitFrozen sends bytes that were encoded once, until 202 or a refusal.
// since is when an earlier run may have sent them.
func (c *Client) submitFrozen(ctx context.Context, verb Verb, key string, frozen []byte, since time.Time) (*Ack, error) {
	call, err := c.call(ctx, opSubmit, http.MethodPost, c.base+"/v1/messages", frozen)
	if err != nil {
		return nil, err
	}
	call.Once, call.Remembered, call.Since = key == "", c.cfg.KeyRetention, since
	if key != "" {
		call.Broken = func(r *transport.Reply) bool {
			return r.Status == http.StatusAccepted && !jsontext.Value(r.Body).IsValid()
		}
	}
	reply, err := c.send.Do(ctx, call)
	fail := &SubmitError{Op: verb, Key: key, Attempts: 1, Err: err}
	if f, ok := errors.AsType[*transport.Failure](err); ok {
		fail.Attempts, fail.Unknown, fail.Err = f.Attempts, f.Ambiguous, f.Err
	}
	if reply == nil {
		return nil, fail
	}
	if err == nil {
		fail.Attempts = reply.Attempts
	}
	if reply.Status == http.StatusAccepted {
		ack, err := c.readAck(verb, key, reply)
		if err != nil {
			fail.Status, fail.Unknown, fail.Err = reply.Status, true, err
			return ack, fail
		}
		c.log(ctx, slog.LevelInfo, "ma2h: message accepted", slog.String("type", string(verb)), slog.String("id", ack.ID), slog.String("status", string(ack.Status)))
		return ack, nil
	}
	api := apiError(opSubmit, key, reply, c.cfg.Now())
	fail.Status = reply.Status
	switch {
	case errors.Is(api, ErrIdempotencyConflict):
		return nil, &ConflictError{Key: key, API: api}
	case reply.Status/100 == 2:
		// Something took it, and did not say so as a Hub does.
		fail.Unknown, fail.Err = true, api
	case err == nil:
		return nil, api
	case fail.Err != nil:
		fail.Err = fmt.Errorf("%w (%w)", api, fail.Err)
	}
	return nil, fail
}

// readAck reads a 202. An ack that breaks the protocol still gives its id,
// because the Hub may hold the message under it.
func (c *Client) readAck(verb Verb, key string, reply *transport.Reply) (*Ack, error) {
	var w types.SubmitAck
	derr := types.Decode(reply.Body, &w)
	if w.ID == "" {
		return nil, errors.Join(fmt.Errorf("%w: submit ack without an id (§8.1)", ErrProtocol), derr)
	}
	ack := &Ack{ID: w.ID, Status: w.Status, ReviewURL: w.ReviewURL, Key: key, PollURL: w.PollURL, agent: c.cfg.Agent.ID}
	if derr != nil {
		return ack, fmt.Errorf("%w: submit ack: %w", ErrProtocol, derr)
	}
	if w.Status.Known() {
		if err := w.Validate(); err != nil {
			return ack, fmt.Errorf("%w: submit ack: %w", ErrProtocol, err)
		}
		if !w.Status.Of(verb) {
			return ack, fmt.Errorf("%w: the Hub took a %s and calls it %s (§8.1)", ErrProtocol, verb, w.Status)
		}
	}
	return ack, nil
}

// call builds an authenticated call to the configured origin.
func (c *Client) call(ctx context.Context, op touchpoint, method, target string, body []byte) (transport.Call, error) {
	h := http.Header{}
	h.Set("Accept", "application/json")
	if body != nil {
		h.Set("Content-Type", "application/json")
	}
	if op != opDiscover {
		if err := c.cfg.Credential.apply(ctx, h); err != nil {
			return transport.Call{}, err
		}
	}
	return transport.Call{Op: string(op), Method: method, URL: target, Header: h, Body: body, Timeout: c.cfg.AttemptTimeout, Broken: cutShort}, nil
}

// cutShort reports a 200 that is no JSON: a page of some hop's, or an answer
// that one cut and closed in good order.
func cutShort(r *transport.Reply) bool {
	return r.Status == http.StatusOK && !jsontext.Value(r.Body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// do sends a call that may be repeated and returns its 200, or an error.
func (c *Client) do(ctx context.Context, op touchpoint, id, method, target string, body []byte) (*transport.Reply, error) {
	call, err := c.call(ctx, op, method, target, body)
	if err != nil {
		return nil, err
	}
	reply, err := c.send.Do(ctx, call)
	if reply == nil {
		return nil, fmt.Errorf("ma2h: %s %s: %w", op, types.Quote(id), err)
	}
	if reply.Status == http.StatusOK {
		return reply, nil
	}
	api := apiError(op, id, reply, c.cfg.Now())
	if err != nil {
		return reply, fmt.Errorf("%w (%w)", api, err)
	}
	return reply, api
}

func (c *Client) messageURL(id, suffix string) (string, error) {
	if err := c.made(); err != nil {
		return "", err
	}
	if id == "" || len(id) > limits.MaxIDLen {
		return "", invalid("id", "§8.2", "is %d bytes, not 1 to %d", len(id), limits.MaxIDLen)
	}
	if id == "." || id == ".." {
		return "", invalid("id", "§8.2", "is a path of dots")
	}
	return c.base + "/v1/messages/" + url.PathEscape(id) + suffix, nil
}

// Message is what the Hub holds of a message (§8.2).
type Message struct {
	// Wire is the message as it was submitted, with the Hub's id and status.
	// A status of a later minor is kept as it came.
	Wire types.MessageView
	// Response is how the message ended, nil while it is open and for a
	// notify.
	Response *Response
}

// Format prints the id, the type and the status.
func (m Message) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, m.Wire) }

// LogValue logs what Format prints.
func (m Message) LogValue() slog.Value { return m.Wire.LogValue() }

// Message reads a message. Like every call but a submit without a key it is
// sent again after a network error or a 5xx, until ctx ends. Errors:
// ErrNotFound for an unknown id or another agent's, ErrGone, and those of any
// call.
func (c *Client) Message(ctx context.Context, id string) (*Message, error) {
	target, err := c.messageURL(id, "")
	if err != nil {
		return nil, err
	}
	reply, err := c.do(ctx, opGet, id, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	return readMessage(id, reply)
}

// messageOnce is Message for a reason that is not worth a second request.
func (c *Client) messageOnce(ctx context.Context, id string) (*Message, error) {
	target, err := c.messageURL(id, "")
	if err != nil {
		return nil, err
	}
	call, err := c.call(ctx, opGet, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	reply, err := c.send.Once(ctx, call)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ma2h: %s %s: %w", opGet, types.Quote(id), err)
	case reply.Status != http.StatusOK:
		return nil, apiError(opGet, id, reply, c.cfg.Now())
	}
	return readMessage(id, reply)
}

// readMessage reads a GET body. Whatever contradicts itself or the id that was
// asked for is ErrProtocol: nothing of it may be acted on.
func readMessage(id string, reply *transport.Reply) (*Message, error) {
	var m Message
	if err := decodeCanonical(reply.Body, &m.Wire); err != nil {
		return nil, fmt.Errorf("%w: message %s: %w", ErrProtocol, types.Quote(id), err)
	}
	v := &m.Wire
	if v.ID != id {
		return nil, fmt.Errorf("%w: asked for message %s and got another (§8.2)", ErrProtocol, types.Quote(id))
	}
	if !v.Status.Known() {
		v.Response = nil
		return &m, nil
	}
	if err := v.Validate(); err != nil {
		return nil, fmt.Errorf("%w: message %s: %w", ErrProtocol, types.Quote(id), err)
	}
	if v.Response != nil {
		w := *v.Response // Wire is the caller's
		m.Response = newResponse(&w, true, true)
	}
	return &m, nil
}

// decodeCanonical decodes v from the canonical form of text, so that a pulled
// document reads exactly as a pushed one whose canonical form was signed.
func decodeCanonical(text []byte, v any) error {
	doc, err := canon.Parse(text)
	if err != nil {
		return err
	}
	return types.Decode(doc.Bytes(), v)
}

// readDocument reads a document of the Hub's and holds it to its own rules. It
// is read in canonical form: a hop that writes 32 as 32.0 has changed nothing.
func readDocument(text []byte, v interface{ Validate() error }) error {
	if err := decodeCanonical(text, v); err != nil {
		return err
	}
	return v.Validate()
}

// decodeValid decodes v and holds it to its own rules.
func decodeValid(text []byte, v interface{ Validate() error }) error {
	if err := types.Decode(text, v); err != nil {
		return err
	}
	return v.Validate()
}

func (c *Client) log(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	c.cfg.Logger.LogAttrs(ctx, level, msg, attrs...)
}
