package ma2h

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// ErrOpen: the message has not ended yet. Come back later, or Wait.
var ErrOpen = errors.New("ma2h: the message is still open")

// ResumeConfig says how the second run of an agent goes on. The zero value of
// an optional field means the default that the field documents.
type ResumeConfig struct {
	// Client pulls and acknowledges. Required.
	Client *Client
	// Verifier believes deliveries that were pushed. Without one, or where a
	// delivery does not verify, the Hub's own answer is pulled.
	Verifier *Verifier
	// Ledger makes acting at most once hold across runs. Without one the
	// Hub's acknowledgment does, which stands for the first run that asks for
	// it: see Resumer.
	Ledger Ledger
	// Open is called before Act: open and check the state here (§9.3). Its
	// error means that nothing was done. Without a Ledger it is called before
	// the Hub's acknowledgment is spent, so a state that does not open loses no
	// decision.
	Open func(context.Context, *Response) error
	// Act goes on with the work, whatever the decision was: it is called for a
	// decline and an expiry as well. Required. Its terms are those of
	// CallbackConfig.Handle, but that without a Ledger every error of it is
	// ErrOutcomeUnknown: the acknowledgment is spent, and no later run acts.
	Act func(context.Context, *Response) error
	// Note is what the human reads as the acknowledgment. Default: none.
	Note func(*Response) string
	// InDoubt decides about an act whose earlier attempt vanished. Default:
	// LeaveInDoubt.
	InDoubt func(context.Context, Act) (Doubt, error)
	// Lease is how long an act may take. Default: DefaultLease.
	Lease time.Duration
	// Logger gets ids, states and reasons, never content. Default: none.
	Logger *slog.Logger
}

// Resumer is the second run of an agent that asked and exited: verify, claim,
// act once, commit, acknowledge (§2.1).
//
// Without a Ledger, on a machine that keeps nothing, the Hub's acknowledgment
// is the claim: it is sent before the act with a mark of this run, and the
// first one stands (§14.1). The run whose mark is on record acts; any other
// gets ErrAlreadyActed, which then says that another run has taken it. A run
// that dies in between leaves its mark where the human and every later run see
// it: the same run started again gets ErrInDoubt, and nothing acts twice.
type Resumer struct {
	cfg  ResumeConfig
	pipe pipeline
	acks bool // the ledger is the Hub's acknowledgment
}

// NewResumer checks cfg. It does no I/O.
func NewResumer(cfg ResumeConfig) (*Resumer, error) {
	bad := func(field, section, format string, args ...any) error {
		return invalid("ResumeConfig."+field, section, format, args...)
	}
	switch {
	case cfg.Client.made() != nil:
		return nil, bad("Client", "§2.1", "is required")
	case cfg.Act == nil:
		return nil, bad("Act", "§2.1", "is required")
	case cfg.Verifier != nil && cfg.Verifier.cfg.AgentID != cfg.Client.cfg.Agent.ID:
		return nil, bad("Verifier", "§9.1", "is of another agent than the Client")
	case cfg.Lease < 0 || cfg.Lease > 0 && cfg.Lease < time.Second:
		return nil, bad("Lease", "§13.4", "is %s, below 1s", cfg.Lease)
	}
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Resumer{cfg: cfg, acks: cfg.Ledger == nil}
	r.pipe = pipeline{ledger: cfg.Ledger, lease: cfg.Lease, inDoubt: cfg.InDoubt, log: cfg.Logger}
	if cfg.Verifier != nil {
		r.pipe.replay = cfg.Verifier.cfg.Replay
	}
	return r, nil
}

// Delivery is a push on its way through something else, such as a job that a
// relay has started. Header and Body may be missing: then it is pulled.
type Delivery struct {
	MessageID string      // untrusted; may be empty where Body is there
	Header    http.Header // of the push: MA2H-Signature is what counts
	Body      []byte      // of the push, byte for byte
}

// Format prints the id and the size.
func (d Delivery) Format(f fmt.State, _ rune) {
	redacted(f, "Delivery", "message", d.MessageID, "bytes", strconv.Itoa(len(d.Body)))
}

// LogValue logs what Format prints.
func (d Delivery) LogValue() slog.Value {
	return slog.StringValue(redactedText("Delivery", "message", d.MessageID, "bytes", strconv.Itoa(len(d.Body))))
}

// Resume acts on the message of a handle. ErrOpen: it has not ended yet. Nil
// means that this call acted; ErrAlreadyActed, ErrInFlight, ErrInDoubt and
// ErrSecondResolution that it did not, and why.
func (r *Resumer) Resume(ctx context.Context, h Handle) (*Response, error) {
	if r == nil || r.cfg.Client == nil {
		return nil, fmt.Errorf("%w: Resumer", ErrZeroValue)
	}
	if h.AgentID != r.cfg.Client.cfg.Agent.ID {
		return nil, fmt.Errorf("%w: the handle is of agent %s (§9.1)", ErrAddressee, types.Quote(h.AgentID))
	}
	return r.pull(ctx, h.MessageID)
}

// Deliver acts on a push. One that is missing, too late or that does not
// verify leads to a pull, because a job may start long after its push. Its
// results are those of Resume.
func (r *Resumer) Deliver(ctx context.Context, d Delivery) (*Response, error) {
	if r == nil || r.cfg.Client == nil {
		return nil, fmt.Errorf("%w: Resumer", ErrZeroValue)
	}
	id := d.MessageID
	if r.cfg.Verifier != nil && len(d.Body) > 0 {
		from, resp, err := r.cfg.Verifier.response(ctx, d.Header, d.Body)
		// What was not believed is nil, which is bound to nothing.
		if resp.PayloadBound() && (id == "" || id == resp.MessageID()) {
			return resp, r.act(ctx, from, resp)
		}
		r.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "ma2h: delivery not taken, pulling", slog.String("reason", reason(err)))
	}
	if id == "" {
		// Only a name to ask the Hub for; what counts is its answer.
		var w types.Response
		if err := types.Decode(d.Body, &w); err != nil {
			return nil, fmt.Errorf("%w: delivery without a message id: %w", ErrMalformed, err)
		}
		id = w.InReplyTo
	}
	return r.pull(ctx, id)
}

// Response acts on what Wait returned. Its results are those of Resume.
func (r *Resumer) Response(ctx context.Context, resp *Response) error {
	if r == nil || r.cfg.Client == nil {
		return fmt.Errorf("%w: Resumer", ErrZeroValue)
	}
	if !resp.PayloadBound() {
		return fmt.Errorf("%w: nothing to act on", ErrUnboundPayload)
	}
	return r.act(ctx, delivery{}, resp)
}

func (r *Resumer) pull(ctx context.Context, id string) (*Response, error) {
	m, err := r.cfg.Client.Message(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case m.Wire.Type == types.VerbNotify:
		return nil, fmt.Errorf("%w: message %s is a notify (§5.1)", ErrNoAnswer, types.Quote(id))
	case m.Response == nil:
		return nil, fmt.Errorf("%w: %s is %s", ErrOpen, types.Quote(id), types.Quote(string(m.Wire.Status)))
	}
	return m.Response, r.act(ctx, delivery{}, m.Response)
}

func (r *Resumer) act(ctx context.Context, from delivery, resp *Response) error {
	note := ""
	if r.cfg.Note != nil {
		note = r.cfg.Note(resp)
	}
	pipe, open := r.pipe, r.cfg.Open
	if r.acks {
		pipe.ledger = &ackLedger{client: r.cfg.Client, response: resp, note: note}
		if open != nil {
			check := item{do: func(ctx context.Context) error { return r.cfg.Open(ctx, resp) }}
			if err := pipe.act(ctx, check, time.Now().Add(pipe.lease)); err != nil {
				return err
			}
			open = nil
		}
	}
	err := pipe.run(ctx, item{act: resp.act(r.cfg.Client.cfg.Agent.ID), from: from, do: func(ctx context.Context) error {
		if open != nil {
			if err := open(ctx, resp); err != nil {
				return err
			}
		}
		return r.cfg.Act(ctx, resp)
	}})
	// Also for a run that finds the act done: the one that did it may have died
	// before it could say so.
	if (err == nil || err == ErrAlreadyActed) && !r.acks {
		r.acknowledge(ctx, resp, note)
	}
	return err
}

// acknowledge is the last step and a courtesy: its failure undoes nothing.
func (r *Resumer) acknowledge(ctx context.Context, resp *Response, note string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var err error
	if !resp.Pulled() {
		// The Hub may not have heard yet that its push arrived (§14.3).
		_, err = r.cfg.Client.Message(ctx, resp.MessageID())
	}
	if err == nil {
		_, err = r.cfg.Client.Acknowledge(ctx, resp.MessageID(), cutNote(note, maxNote))
	}
	if err != nil && !errors.Is(err, ErrUnsupported) {
		r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "ma2h: not acknowledged", slog.String("id", resp.MessageID()), slog.String("error", err.Error()))
	}
}

// ackLedger is the ledger of a machine that keeps nothing: the Hub's
// acknowledgment of one message. The note carries the mark of the claim.
type ackLedger struct {
	client   *Client
	response *Response
	note     string
}

const (
	markOpen = "[ma2h-claim "
	markEnd  = "]"
)

// Lookup asks nothing: only the claim itself can tell.
func (l *ackLedger) Lookup(context.Context, Act) (ActState, error) { return 0, nil }

// Reserve acknowledges and reads who was first. It reads the message before,
// because that makes it acknowledgeable, and because an acknowledgment that is
// on record already is somebody else's, whatever the Hub answers to a second.
func (l *ackLedger) Reserve(ctx context.Context, _ Act, _ time.Duration, takeDoubt bool) (Reservation, error) {
	if takeDoubt {
		// The earlier attempt of this run was found on record; the caller has
		// decided to go on in its place.
		return Reservation{State: ActClaimed, Token: newToken()}, nil
	}
	run := claimName(l.client.cfg.Agent.RunID)
	nonce, err := randomID(l.client.cfg.Rand, "")
	if err != nil {
		return Reservation{}, err
	}
	m, err := l.client.Message(ctx, l.response.MessageID())
	switch {
	case err != nil:
		return Reservation{}, err
	case m.Response != nil && m.Response.ResolutionID() != l.response.ResolutionID():
		return Reservation{State: ActConflict}, nil
	case m.Wire.Delivery != nil && m.Wire.Delivery.Ack != nil:
		return Reservation{State: claimState(m.Wire.Delivery.Ack.Note, run)}, nil
	}
	mark := markOpen + run + " " + nonce + markEnd
	// The human's own words may be in the note, and must not read as a mark.
	note := cutNote(strings.ReplaceAll(l.note, strings.TrimSpace(markOpen), "[claim"), maxNote-len(mark)-1)
	// The mark comes first: what a Hub makes of the words after it, by cleaning
	// or cutting, cannot make another mark the first.
	ack, err := l.client.Acknowledge(ctx, l.response.MessageID(), strings.TrimSpace(mark+" "+note))
	if err != nil {
		return Reservation{}, err
	}
	if _, first, ok := claimant(ack.Note); ok && first == nonce {
		return Reservation{State: ActClaimed, Token: newToken()}, nil
	}
	return Reservation{State: claimState(ack.Note, run)}, nil
}

// claimState reads the note of somebody else's acknowledgment. One without a
// mark says that something has happened and not what: a Hub that drops notes
// must not make the only run believe that another has acted.
func claimState(note, run string) ActState {
	if winner, _, ok := claimant(note); ok && !sameRun(winner, run) {
		return ActDone
	}
	return ActInDoubt
}

// Commit has nothing to add: the acknowledgment is terminal.
func (l *ackLedger) Commit(context.Context, Act, Token) error { return nil }

// Release cannot take the acknowledgment back.
func (l *ackLedger) Release(context.Context, Act, Token) error {
	return fmt.Errorf("%w: the Hub's acknowledgment is spent on an act that failed; without a Ledger no later run will act", ErrOutcomeUnknown)
}

// Doubt is what the mark says already.
func (l *ackLedger) Doubt(context.Context, Act, Token) error { return nil }

// claimName makes a run id fit a note that a Hub may clean.
func claimName(run string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, run)
}

// claimant reads the first mark of a note.
func claimant(note string) (run, nonce string, ok bool) {
	_, rest, ok := strings.Cut(note, markOpen)
	if !ok {
		return "", "", false
	}
	rest, _, ok = strings.Cut(rest, markEnd)
	f := strings.Fields(rest)
	if !ok || len(f) != 2 {
		return "", "", false
	}
	return f[0], f[1], true
}

// sameRun reports whether two run ids are attempts of one run: what a CI
// system calls a re-run keeps the run and counts the attempt after a dot.
func sameRun(a, b string) bool { return withoutAttempt(a) == withoutAttempt(b) }

func withoutAttempt(run string) string {
	if i := strings.LastIndexByte(run, '.'); i > 0 && strings.Trim(run[i+1:], "0123456789") == "" {
		return run[:i]
	}
	return run
}

// cutNote cuts a note to n bytes, between characters.
func cutNote(note string, n int) string {
	return strings.ToValidUTF8(note[:min(len(note), max(0, n))], "")
}
