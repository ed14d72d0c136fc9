package ma2h

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/internal/header"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

// InboxConfig says whose mailbox is drained and what is believed. The zero
// value of an optional field means the default that the field documents.
type InboxConfig struct {
	// Client drains and acknowledges. Required.
	Client *Client
	// Verifier has DirectiveKeys: a mailbox is a surface for commands, so each
	// entry's signature is verified, on pull as on push (§9.7). Required.
	Verifier *Verifier
	// Ledger makes acting at most once hold in Consume. Required for Consume.
	// A MemoryStore, here or in the Verifier, needs SingleReplica.
	Ledger Ledger
	// SingleReplica says that no second process drains this mailbox, and that
	// acting again after a restart does no harm.
	SingleReplica bool
	// Logger gets ids, states and reasons, never content. Default: the Client's.
	Logger *slog.Logger
}

// Inbox is the mailbox in which humans leave directives for an agent (§8.7).
// It is safe for concurrent use.
type Inbox struct {
	cfg    InboxConfig
	client *Client
	log    *slog.Logger
	memory consumerMemory
}

// NewInbox checks cfg. It does no I/O.
func NewInbox(cfg InboxConfig) (*Inbox, error) {
	bad := func(field, section, format string, args ...any) error {
		return invalid("InboxConfig."+field, section, format, args...)
	}
	switch {
	case cfg.Client.made() != nil:
		return nil, bad("Client", "§8.7", "is required")
	case cfg.Verifier == nil || cfg.Verifier.cfg.DirectiveKeys.empty():
		return nil, bad("Verifier", "§9.7", "with DirectiveKeys is required")
	case !cfg.Verifier.received.IsZero():
		return nil, bad("Verifier", "§9.2", "is one of ReceivedAt, whose clock stands still")
	case cfg.Verifier.cfg.AgentID != cfg.Client.cfg.Agent.ID:
		return nil, bad("Verifier", "§9.1", "is of another agent than the Client")
	}
	_, forgets := cfg.Ledger.(volatile)
	if _, also := cfg.Verifier.cfg.Replay.(volatile); cfg.Ledger != nil && (forgets || also) && !cfg.SingleReplica {
		return nil, bad("Ledger", "§13.4", "or the Verifier's Replay is in memory: set SingleReplica if no second process drains this mailbox, or use a store that replicas share")
	}
	if cfg.Logger == nil {
		cfg.Logger = cfg.Client.cfg.Logger
	}
	return &Inbox{cfg: cfg, client: cfg.Client, log: cfg.Logger}, nil
}

// Entry is a directive that was drained and verified, waiting for its Ack.
type Entry struct {
	*Directive
	inbox  *Inbox
	lapses time.Time // when the Hub shows it to others again
}

// Ack tells the Hub that the directive has been durably processed, with an
// optional note for the human. Until then the Hub delivers it again (§13.4).
func (e *Entry) Ack(ctx context.Context, note string) error {
	return e.inbox.Ack(ctx, []string{e.ID()}, note)
}

// Lapses is when the Hub will deliver the directive again unless it is
// acknowledged by then, by this machine's clock.
func (e *Entry) Lapses() time.Time { return e.lapses }

// RejectedError says why an entry was not handed out. It is never
// acknowledged, so the Hub keeps it until it expires.
type RejectedError struct {
	// ID is the directive's id where the entry has one, as unverified text.
	ID string
	// Err is ErrSignature, ErrStale, ErrReplay, ErrMalformed, ErrAddressee,
	// ErrVersion, ErrNotAuthorized or ErrUnknownEntry.
	Err error
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("ma2h: inbox entry %s rejected: %v", types.Quote(e.ID), e.Err)
}

// Unwrap returns the reason.
func (e *RejectedError) Unwrap() error { return e.Err }

// ErrUnknownEntry: an inbox entry of a kind that this library does not know.
// It may be meant for a later release, and is left where it is (§10).
var ErrUnknownEntry = errors.New("ma2h: inbox entry of an unknown kind")

// DrainOptions shape one drain.
type DrainOptions struct {
	// Max is how many entries to take at most. Zero, or more than the Hub's
	// max_batch, means max_batch.
	Max int
	// Wait is how long the Hub may hold the request until an entry comes, up
	// to 60 s. Zero: it answers at once.
	Wait time.Duration
}

// Drain takes entries from the mailbox, in order. An empty result is normal.
// Entries that were rejected come as *RejectedError, joined, beside the good
// ones. Each is handed out once: Drain claims its delivery. Acting at most
// once across redeliveries is the caller's, or Consume's.
func (in *Inbox) Drain(ctx context.Context, opts DrainOptions) ([]*Entry, error) {
	if opts.Max < 0 {
		return nil, invalid("DrainOptions.Max", "§8.7", "is %d", opts.Max)
	}
	if opts.Wait < 0 || opts.Wait > limits.MaxHold {
		return nil, invalid("DrainOptions.Wait", "§8.7", "is %s, not 0 to %s", opts.Wait, limits.MaxHold)
	}
	ep, err := in.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	call, err := in.client.call(ctx, opInbox, http.MethodGet, ep.drain(opts.Max, min(opts.Wait, in.client.hold)), nil)
	if err != nil {
		return nil, err
	}
	call.Timeout = max(in.client.cfg.AttemptTimeout, opts.Wait+limits.HoldGrace)
	begin := time.Now()
	reply, err := in.client.send.Do(ctx, call)
	switch {
	case reply == nil:
		return nil, fmt.Errorf("ma2h: %s: %w", opInbox, err)
	case reply.Status == http.StatusNoContent || reply.Status == http.StatusNotModified:
		return nil, nil
	case reply.Status != http.StatusOK:
		return nil, apiError(opInbox, "", reply, in.client.cfg.Now())
	}
	rows, err := readBatch(reply.Body)
	if err != nil {
		return nil, err
	}
	lapses := ep.lapse(begin)
	var out []*Entry
	var rejected []error
	for _, row := range rows {
		e, err := in.open(ctx, row, lapses)
		if err == nil {
			err = in.cfg.Verifier.once(ctx, e.from)
		}
		if err != nil {
			rejected = append(rejected, in.rejected(row, err))
			continue
		}
		out = append(out, &Entry{Directive: e.directive, inbox: in, lapses: e.lapses})
	}
	return out, errors.Join(rejected...)
}

// All drains until ctx ends or the loop breaks, and yields each verified
// entry; breaking acknowledges nothing. What the loop has not come to before
// its window ends is left for the Hub to deliver again. A rejected entry is
// yielded as a *RejectedError and the loop may go on; any other error is the
// last. Ranging twice starts anew. Who may instruct the agent, and acting at
// most once, are left to the loop; Consume does both.
func (in *Inbox) All(ctx context.Context) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		if err := in.made(); err != nil {
			yield(nil, err)
			return
		}
		drains := in.drains()
		for {
			rows, lapses, err := drains.next(ctx, 0)
			if err != nil {
				yield(nil, err)
				return
			}
			// All are verified before the first is yielded: a signature does not
			// keep for as long as a loop may take.
			batch, errs := make([]opened, len(rows)), make([]error, len(rows))
			for i, row := range rows {
				batch[i], errs[i] = in.open(ctx, row, lapses)
			}
			for i, o := range batch {
				if !time.Now().Before(lapses) {
					break // the Hub has shown the rest to others by now; it comes again
				}
				err := errs[i]
				if err == nil {
					err = in.cfg.Verifier.once(ctx, o.from)
				}
				var e *Entry
				if err != nil {
					err = in.rejected(rows[i], err)
				} else {
					e = &Entry{Directive: o.directive, inbox: in, lapses: o.lapses}
				}
				if !yield(e, err) {
					return
				}
			}
			if len(rows) > 0 {
				drains.goOn()
			}
			if err := drains.pace.pause(ctx); err != nil {
				yield(nil, fmt.Errorf("ma2h: %s: %w", opInbox, err))
				return
			}
		}
	}
}

// Ack consumes directives that have been durably processed, with one note for
// the human on all of them. It may be repeated; ids that are not in this
// mailbox change nothing (§8.7).
func (in *Inbox) Ack(ctx context.Context, ids []string, note string) error {
	if len(ids) == 0 {
		return invalid("ids", "§8.7", "is empty")
	}
	if len(note) > maxNote {
		return invalid("note", "§14.3", "is %d bytes, over %d", len(note), maxNote)
	}
	ep, err := in.endpoints(ctx)
	if err != nil {
		return err
	}
	body, err := types.Encode(types.InboxAckRequest{IDs: ids, Note: note})
	if err != nil {
		return fmt.Errorf("ma2h: note: %w", errEncode)
	}
	_, err = in.client.do(ctx, opInboxAck, ids[0], http.MethodPost, ep.ackURL, body)
	return err
}

// endpoints is where the mailbox is and what its Hub allows.
type endpoints struct {
	pollURL    string
	ackURL     string
	maxBatch   int
	visibility time.Duration
}

// maxRows is how many rows of a drain are asked for and read at most. The Hub
// delivers others again.
const maxRows = 1000

// defaultVisibility is taken where the Hub does not say how long a drained
// entry stays hidden.
const defaultVisibility = 60 * time.Second

func (in *Inbox) made() error {
	if in == nil || in.client == nil {
		return fmt.Errorf("%w: Inbox", ErrZeroValue)
	}
	return nil
}

func (in *Inbox) endpoints(ctx context.Context) (endpoints, error) {
	if err := in.made(); err != nil {
		return endpoints{}, err
	}
	caps, err := in.client.capabilities(ctx, false)
	if err != nil {
		return endpoints{}, err
	}
	if !caps.OffersInbound() {
		return endpoints{}, unsupported("directives", "§8.7")
	}
	ep := endpoints{
		pollURL:    in.client.base + "/v1/inbox",
		ackURL:     in.client.base + "/v1/inbox/ack",
		maxBatch:   int(min(caps.Inbound.MaxBatch, maxRows)),
		visibility: time.Duration(min(caps.Inbound.VisibilityTimeoutSeconds, 86400)) * time.Second,
	}
	if ep.maxBatch == 0 {
		ep.maxBatch = 32
	}
	if ep.visibility == 0 {
		ep.visibility = defaultVisibility
	}
	for _, x := range []struct {
		named string
		use   *string
	}{{caps.Inbound.PollURL, &ep.pollURL}, {caps.Inbound.AckURL, &ep.ackURL}} {
		if x.named == "" {
			continue
		}
		// The credential never leaves the configured origin.
		u, err := url.Parse(x.named)
		if err != nil || u.Scheme != in.client.url.Scheme || u.Host != in.client.url.Host || u.User != nil {
			return endpoints{}, fmt.Errorf("%w: the Hub names a mailbox on another origin than its own (§8.0)", ErrProtocol)
		}
		*x.use = x.named
	}
	return ep, nil
}

// lapse is when the window ends of what has just come in answer to a request
// of begin. It runs from when the Hub answered, which may be a hold later: past
// a quarter of it, the answer is taken to have been held.
func (ep endpoints) lapse(begin time.Time) time.Time {
	return time.Now().Add(ep.visibility - min(time.Since(begin), ep.visibility/4))
}

func (ep endpoints) drain(most int, wait time.Duration) string {
	if most == 0 {
		most = ep.maxBatch
	}
	q := url.Values{"max": {strconv.Itoa(min(most, ep.maxBatch))}}
	if s := int(wait / time.Second); s > 0 {
		q.Set("wait", strconv.Itoa(s))
	}
	sep := "?"
	if strings.Contains(ep.pollURL, "?") {
		sep = "&"
	}
	return ep.pollURL + sep + q.Encode()
}

// opened is an entry that verified and is not claimed yet.
type opened struct {
	directive *Directive
	from      delivery
	lapses    time.Time
}

// open verifies an entry: signature, shape, addressee (§13.4).
func (in *Inbox) open(ctx context.Context, r row, lapses time.Time) (opened, error) {
	w, err := r.entry()
	if err != nil {
		return opened{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if w.Directive == nil {
		return opened{}, fmt.Errorf("%w: %s", ErrUnknownEntry, types.Quote(w.Kind))
	}
	sig, err := header.Parse(w.Signature)
	if err != nil {
		return opened{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	from, d, err := in.cfg.Verifier.within(in.client.replayWindow()).directive(ctx, sig, w.Directive)
	if err != nil {
		return opened{}, err
	}
	return opened{directive: d, from: from, lapses: lapses}, nil
}

func (in *Inbox) rejected(r row, err error) *RejectedError {
	var w struct {
		ID string `json:"id"`
	}
	e, _ := r.entry()
	_ = types.Decode(e.Directive, &w)
	return &RejectedError{ID: clean(w.ID, limits.MaxQuoted), Err: err}
}
