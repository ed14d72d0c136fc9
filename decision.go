package ma2h

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// Approval is a yes-or-no question to named humans. The same value that asked
// also judges the Response, so a process that comes back later writes it again
// and cannot judge more loosely than it asked.
type Approval struct {
	Title string // 1 to 200 characters. Required.
	Body  string // Markdown
	// By are the humans whose approval counts, such as "human:alice". There are
	// no wildcards. Required.
	By []string
	// Options are offered instead of approve and deny. They need Yes.
	Options []Option
	// Yes is the value of the option that approves; every other one is no.
	Yes string
	// IdempotencyKey identifies the question. Approve makes a random one if it
	// is empty: the approval then serves this one call, and a process that
	// starts again asks again. AskApproval requires it.
	IdempotencyKey string
	// ResendExpiredKey means what it means in Ask.
	ResendExpiredKey bool
	// ExpiresAt ends the question by the Hub's clock. Zero: never.
	ExpiresAt time.Time
	// DefaultApprovesOnExpiry makes silence a yes: it sends the approving
	// value as the default on expiry and takes it as an approval.
	DefaultApprovesOnExpiry bool
	Callback                *Callback // push the Response; nil: pull (§8.3)
	Priority                Priority  // default: Normal
	Tags                    []string  // labels to filter by
	Context                 []Part    // attachments (§4.2)
	State                   types.Raw // comes back verbatim: seal it (§9.3)
	Sensitive               bool      // keep the content out of the Hub's telemetry (§9.6)
}

// Verdict is the outcome of an Approval. Its zero value means no.
type Verdict struct {
	MessageID    string     // the question
	ResolutionID string     // its end, the same on every channel (§6)
	Resolution   Resolution // how it ended
	Actor        string     // who decided, or system:default_on_expire
	Comment      string     // untrusted
	approved     bool
}

// Approved reports whether a human of Approval.By said yes. Every error, every
// other resolution, answer and actor, and silence, mean no.
func (v Verdict) Approved() bool { return v.approved }

// Format prints the ids, the resolution and the verdict.
func (v Verdict) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, v.text()) }

// LogValue logs what Format prints.
func (v Verdict) LogValue() slog.Value { return slog.StringValue(v.text()) }

func (v Verdict) text() string {
	return redactedText("Verdict", "message", v.MessageID, "resolution", string(v.Resolution), "approved", fmt.Sprint(v.approved))
}

// Approve asks and waits for the verdict. A nil error means that the question
// has ended, not that it was approved: ask Verdict.Approved. The verdict that
// comes with an error is no; its MessageID, once there is one, lets the question
// be cancelled or awaited again.
func (c *Client) Approve(ctx context.Context, a Approval) (Verdict, error) {
	if err := c.made(); err != nil {
		return Verdict{}, err
	}
	if a.IdempotencyKey == "" {
		key, err := randomID(c.cfg.Rand, "key_")
		if err != nil {
			return Verdict{}, fmt.Errorf("ma2h: Config.Rand: %w", err)
		}
		a.IdempotencyKey = key
	}
	ack, err := c.AskApproval(ctx, a)
	if err != nil {
		return Verdict{}, err
	}
	return c.AwaitApproval(ctx, ack.ID, a)
}

// AskApproval asks and returns once the Hub has the question, for an agent
// that exits. AwaitApproval, or Judge on a pushed Response, gives the verdict.
func (c *Client) AskApproval(ctx context.Context, a Approval) (*Ack, error) {
	ask, err := a.ask()
	if err != nil {
		return nil, err
	}
	return c.Ask(ctx, ask)
}

// AwaitApproval waits for the end of a question that was asked with the same
// Approval, in this process or another. A message that asks something else is
// ErrOtherQuestion.
func (c *Client) AwaitApproval(ctx context.Context, id string, a Approval) (Verdict, error) {
	if err := a.check(); err != nil {
		return Verdict{}, err
	}
	m, err := c.await(ctx, id)
	if err != nil {
		return Verdict{MessageID: id}, err
	}
	if err := a.matches(&m.Wire.Message); err != nil {
		return Verdict{MessageID: id}, err
	}
	return a.Judge(m.Response), nil
}

// matches refuses a message that asks something else than a does, so that an
// answer to one question is never read as the answer to another.
func (a *Approval) matches(m *types.Message) error {
	mode := types.ModeConfirm
	if len(a.Options) > 0 {
		mode = types.ModeSelect
	}
	other := func(field string) error {
		return fmt.Errorf("%w: its %s differs (§5.2)", ErrOtherQuestion, field)
	}
	switch {
	case m.Request == nil || m.Request.Mode != mode:
		return other("mode")
	case m.Title != a.Title:
		return other("title")
	case a.IdempotencyKey != "" && m.IdempotencyKey != a.IdempotencyKey:
		return other("idempotency key")
	case !slices.EqualFunc(m.Request.Options, a.Options, func(x, y Option) bool { return x.Value == y.Value }):
		return other("options")
	}
	return nil
}

// Judge says whether r approves a. It is no for nil. Whether r answers this
// question or another one of the same humans is for the caller to know:
// compare Verdict.MessageID with the Ack.
func (a Approval) Judge(r *Response) Verdict {
	v := Verdict{MessageID: r.MessageID(), ResolutionID: r.ResolutionID(), Resolution: r.Resolution(), Actor: r.Actor(), Comment: r.Comment()}
	if a.check() != nil {
		return v
	}
	switch {
	case r.Answered(a.yes()):
		v.approved = r.By(a.By...)
	case a.DefaultApprovesOnExpiry && r.Defaulted():
		value, _ := r.Text()
		v.approved = value == a.yes()
	}
	return v
}

func (a *Approval) yes() string {
	if a.Yes == "" {
		return types.ValueApprove
	}
	return a.Yes
}

func (a *Approval) check() error {
	if len(a.By) == 0 {
		return fmt.Errorf("%w: Approval.By is empty; name the humans whose approval counts (§9.1)", ErrNoResolver)
	}
	for i, p := range a.By {
		if !strings.HasPrefix(p, "human:") || !types.ValidPrincipal(p) {
			return invalid(fmt.Sprintf("Approval.By[%d]", i), "§9.1", "is not human: and an id")
		}
	}
	if (a.Yes == "") != (len(a.Options) == 0) {
		return invalid("Approval.Yes", "§5.2", "goes with Options, both or neither")
	}
	if a.Yes != "" && !slices.ContainsFunc(a.Options, func(o Option) bool { return o.Value == a.Yes }) {
		return invalid("Approval.Yes", "§5.2", "is not the value of an option")
	}
	return nil
}

func (a *Approval) ask() (Ask, error) {
	if err := a.check(); err != nil {
		return Ask{}, err
	}
	ask := Ask{
		Title: a.Title, Body: a.Body, Request: Confirm(), AllowedResolvers: a.By,
		IdempotencyKey: a.IdempotencyKey, ResendExpiredKey: a.ResendExpiredKey, ExpiresAt: a.ExpiresAt, Callback: a.Callback,
		Priority: a.Priority, Tags: a.Tags, Context: a.Context, State: a.State, Sensitive: a.Sensitive,
	}
	if len(a.Options) > 0 {
		ask.Request = Select(a.Options...)
	}
	if a.DefaultApprovesOnExpiry {
		ask.DefaultOnExpire = a.yes()
	}
	return ask, nil
}

// Format prints the key and nothing of the content.
func (a Approval) Format(f fmt.State, _ rune) { redacted(f, "Approval", "key", a.IdempotencyKey) }

// LogValue logs what Format prints.
func (a Approval) LogValue() slog.Value {
	return slog.StringValue(redactedText("Approval", "key", a.IdempotencyKey))
}
