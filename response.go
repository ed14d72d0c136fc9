package ma2h

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ma2h/ma2h-go/types"
)

// Response is how an ask or task ended, from a signed push that verified or
// from the Hub's own answer over TLS. It has no exported fields and no
// constructor: code that takes a *Response cannot be handed anything else. The
// zero value, and nil, answer every question with no.
type Response struct {
	wire   hidden[*types.Response] // nil in the zero Response
	pulled bool
	bound  bool
}

// noResponse is what the zero Response holds.
var noResponse types.Response

// newResponse keeps w.
func newResponse(w *types.Response, pulled, bound bool) *Response {
	return &Response{wire: hide(w), pulled: pulled, bound: bound}
}

// held is never nil and must not be changed.
func (r *Response) held() *types.Response {
	if r == nil || r.wire == nil {
		return &noResponse
	}
	return r.wire()
}

// MessageID is the id of the message that this responds to.
func (r *Response) MessageID() string {
	return r.held().InReplyTo
}

// ResolutionID identifies the resolution; it is the same on every channel and
// retry (§6).
func (r *Response) ResolutionID() string {
	return r.held().ResolutionID
}

// Resolution is how the message ended.
func (r *Response) Resolution() Resolution {
	return r.held().Resolution
}

// Version is the ma2h_version that the Response was made at.
func (r *Response) Version() string {
	return r.held().Version
}

// Pulled reports whether the Response was read from the Hub rather than pushed.
func (r *Response) Pulled() bool { return r != nil && r.pulled }

// PayloadBound reports whether the answer itself is authenticated. It is false
// only for a push at 0.2, whose signature leaves value, actor, comment and
// state open; Answered, By and Defaulted are then false (§10).
func (r *Response) PayloadBound() bool { return r != nil && r.bound }

func (r *Response) detail() *types.ResponseDetail {
	return r.held().Response
}

// Answered reports whether an allowed resolver answered with exactly this
// value. It is false for every other resolution, a default that was applied on
// expiry included.
func (r *Response) Answered(value string) bool {
	got, ok := r.Text()
	return ok && r.PayloadBound() && r.Resolution() == Answered && got == value
}

// By reports whether the actor is one of the principals, such as
// "human:alice", to the letter. There are no wildcards: "human:*" is a person
// called *, and a blank, a bare name or no principal at all matches nobody.
func (r *Response) By(principals ...string) bool {
	d := r.detail()
	return d != nil && r.PayloadBound() && slices.Contains(principals, d.Actor)
}

// Actor is who resolved the message, as the Hub attests it: human:<id>,
// agent:<id> or system:<id>. Empty if the Response does not say.
func (r *Response) Actor() string {
	if d := r.detail(); d != nil {
		return d.Actor
	}
	return ""
}

// Defaulted reports whether nobody decided and the question's default was
// applied on expiry. It comes from the resolution and the actor, which are
// signed, never from the unsigned flag of that name (§9.2).
func (r *Response) Defaulted() bool {
	return r.PayloadBound() && r.Resolution() == Expired &&
		r.Actor() == types.ActorDefaultOnExpire && !r.detail().Value.IsNull()
}

// Text is the chosen value of a select or confirm, untrusted as text. ok is
// false if there is none.
func (r *Response) Text() (value string, ok bool) {
	d := r.detail()
	if d == nil || !d.Value.IsString() {
		return "", false
	}
	return value, json.Unmarshal(d.Value, &value) == nil
}

// Decode reads the object of an input answer into v, by exact member names. A
// member that v does not have is an error, as is a Response without an object;
// errors.Is finds ErrMalformed. Where a reference to a secret may stand for a
// value, v has a types.SecretRef.
func (r *Response) Decode(v any) error {
	d := r.detail()
	if d == nil || !d.Value.IsObject() {
		return fmt.Errorf("%w: the Response has no input object (§6)", ErrMalformed)
	}
	if err := json.Unmarshal(d.Value, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: the answer does not fit %T (§6)", ErrMalformed, v)
	}
	return nil
}

// Comment is what the human wrote beside the answer, untrusted.
func (r *Response) Comment() string {
	if d := r.detail(); d != nil {
		return d.Comment
	}
	return ""
}

// Edited reports whether the human changed a proposed value.
func (r *Response) Edited() bool {
	d := r.detail()
	return d != nil && d.Edited
}

// Checklist is the final state of a task's checklist, if the Hub captured it.
func (r *Response) Checklist() []types.ChecklistItem {
	if d := r.detail(); d != nil {
		return slices.Clone(d.Checklist)
	}
	return nil
}

// ResolvedAt is the Hub's time of the resolution, zero if it does not say.
func (r *Response) ResolvedAt() time.Time {
	d := r.detail()
	if d == nil {
		return time.Time{}
	}
	t, _ := time.Parse(time.RFC3339Nano, d.ResolvedAt)
	return t
}

// State is the state that the message carried, still untrusted: open it with
// the Sealer that sealed it (§9.3). Nil if there is none.
func (r *Response) State() types.Raw {
	if r.held().State.IsNull() {
		return nil
	}
	return slices.Clone(r.held().State)
}

// Advisory is what no signature covers: for logs and routing, never for a
// decision (§9.2).
type Advisory struct {
	Defaulted bool   // see Response.Defaulted for the bound sign
	AgentID   string // the addressed agent, as the Hub wrote it
	RunID     string // the run that asked, as the Hub wrote it
}

// Advisory returns the unsigned members.
func (r *Response) Advisory() Advisory {
	w := r.held()
	return Advisory{Defaulted: w.Defaulted, AgentID: w.Agent.ID, RunID: w.Agent.RunID}
}

func (r *Response) text() string {
	kind, _, _ := strings.Cut(r.Actor(), ":")
	return redactedText("Response", "message", r.MessageID(), "resolution", string(r.Resolution()), "actor", kind)
}

// Format prints the id, the resolution and the kind of actor.
func (r Response) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, r.text()) }

// LogValue logs what Format prints.
func (r Response) LogValue() slog.Value { return slog.StringValue(r.text()) }
