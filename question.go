package ma2h

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// Notify informs a human; no answer is expected (§5.1).
type Notify struct {
	Title     string   // 1 to 200 characters. Required.
	Body      string   // Markdown
	Priority  Priority // default: Normal
	Tags      []string // labels to filter by
	Context   []Part   // attachments (§4.2)
	ClientRef string   // a label for the agent; never shown, never a dedup key
	Sensitive bool     // keep the content out of the Hub's telemetry (§9.6)
	// IdempotencyKey makes a resend safe. Without one a notify whose fate is
	// unknown is not sent again.
	IdempotencyKey string
	// ResendExpiredKey means what it means in Ask.
	ResendExpiredKey bool
}

// Ask wants a decision (§5.2).
type Ask struct {
	Title string // 1 to 200 characters. Required.
	Body  string // Markdown
	// Request is the question: Select, Confirm or Input. Required.
	Request Request
	// AllowedResolvers are the principals that may answer, such as
	// "human:alice"; there are no wildcards. The protocol fails closed: without
	// one nobody but the agent itself could, so an empty list is refused.
	// ResolverSelf stands for the agent (§9.1).
	AllowedResolvers []string
	// IdempotencyKey identifies the question: the Hub asks a human once for a
	// key, however often it is sent. Required; NewKey and KeyOf make one (§8.1).
	IdempotencyKey string
	// ResendExpiredKey sends what Config.Outbox keeps even if the Hub has
	// forgotten the key by now, which may ask a human twice. Otherwise that is
	// ErrKeyExpired.
	ResendExpiredKey bool
	// ExpiresAt ends the question by the Hub's clock. Zero: never.
	ExpiresAt time.Time
	// DefaultOnExpire is what the Hub applies at ExpiresAt: a value of the
	// options, or something that encodes as an object of the input schema. The
	// Response says Defaulted. Nil: none.
	DefaultOnExpire any
	Permissions     *Permissions // what the human may do; nil: all (§5.2)
	Callback        *Callback    // push the Response; nil: pull (§8.3)
	Priority        Priority     // default: Normal
	Tags            []string     // labels to filter by
	Context         []Part       // attachments (§4.2)
	// State comes back verbatim with the Response, through a Hub that is not
	// trusted with it: seal it with a Sealer (§9.3).
	State     types.Raw
	ClientRef string // a label for the agent; never shown, never a dedup key
	Sensitive bool   // keep the content out of the Hub's telemetry (§9.6)
}

// Task wants something done by hand (§5.3).
type Task struct {
	Title            string    // 1 to 200 characters. Required.
	Body             string    // Markdown
	Action           Action    // what is to be done. Required.
	AllowedResolvers []string  // as in Ask. Required.
	IdempotencyKey   string    // as in Ask. Required.
	ResendExpiredKey bool      // as in Ask
	ExpiresAt        time.Time // as in Ask; a task has no default
	Callback         *Callback // push the Response; nil: pull (§8.3)
	Priority         Priority  // default: Normal
	Tags             []string  // labels to filter by
	Context          []Part    // attachments (§4.2)
	State            types.Raw // as in Ask
	ClientRef        string    // as in Ask
	Sensitive        bool      // as in Ask
}

// Action says what is to be done.
type Action struct {
	Instructions string   // Required.
	Checklist    []string // steps, none done yet
	Verification string   // how to tell that it worked
}

// ResolverSelf, in AllowedResolvers, is the asking agent itself.
const ResolverSelf = "self"

// Request is a question and the shape of its answer. Select, Confirm and Input
// make one.
type Request struct {
	mode    types.Mode
	options []Option
	schema  types.Raw
}

// Select asks for one of the options, at least one.
func Select(options ...Option) Request {
	return Request{mode: types.ModeSelect, options: slices.Clone(options)}
}

// Confirm asks for ValueApprove or ValueDeny, or for one of exactly two options.
func Confirm(options ...Option) Request {
	return Request{mode: types.ModeConfirm, options: slices.Clone(options)}
}

// Input asks for an object by a flat JSON Schema: properties of type string,
// number, integer or boolean, with enums and bounds (§5.2). AskFor makes one
// from a struct.
func Input(schema []byte) Request {
	return Request{mode: types.ModeInput, schema: slices.Clone(schema)}
}

// Text is an attachment of text (§4.2).
func Text(s string) Part { return Part{Kind: types.PartText, Text: s} }

// File is an attachment that the human's client may fetch; nothing in this
// library does (§4.2).
func File(uri, name, mimeType string) Part {
	return Part{Kind: types.PartFile, File: &types.File{URI: uri, Name: name, MIMEType: mimeType}}
}

// Data is an attachment of a JSON object: v must encode as one (§4.2).
func Data(v any) (Part, error) {
	b, err := types.Encode(v)
	if err != nil {
		return Part{}, fmt.Errorf("ma2h: context data: %w", errEncode)
	}
	p := Part{Kind: types.PartData, Data: b}
	return p, p.Validate()
}

// PushTo asks the Hub to push the Response to an endpoint of this agent. The
// URL must be the one that its Verifier is configured with, byte for byte
// (§8.3).
func PushTo(url string) *Callback { return &Callback{Mode: types.CallbackPush, URL: url} }

// errEncode stands for an encoder's error, which may quote what it encodes.
var errEncode = fmt.Errorf("%w: the value has no JSON form", ErrMalformed)

func (n *Notify) message() types.Message {
	return types.Message{
		Type: types.VerbNotify, Title: n.Title, Body: n.Body, Priority: n.Priority, Tags: n.Tags,
		Context: n.Context, ClientRef: n.ClientRef, Sensitive: n.Sensitive, IdempotencyKey: n.IdempotencyKey,
	}
}

func (a *Ask) message(self string) (types.Message, error) {
	resolvers, err := resolversOf(a.AllowedResolvers, self)
	if err != nil {
		return types.Message{}, err
	}
	m := types.Message{
		Type: types.VerbAsk, Title: a.Title, Body: a.Body, Priority: a.Priority, Tags: a.Tags,
		Context: a.Context, ClientRef: a.ClientRef, Sensitive: a.Sensitive, IdempotencyKey: a.IdempotencyKey,
		State: a.State, ExpiresAt: timestamp(a.ExpiresAt),
		Request: &types.Request{
			Mode: a.Request.mode, Options: a.Request.options, Schema: a.Request.schema,
			Permissions: a.Permissions, AllowedResolvers: resolvers, Callback: a.Callback,
		},
	}
	if a.Request.mode == "" {
		return m, invalid("Ask.Request", "§5.2", "is required: Select, Confirm or Input")
	}
	if a.DefaultOnExpire != nil {
		if m.Request.DefaultOnExpire, err = types.Encode(a.DefaultOnExpire); err != nil {
			return m, fmt.Errorf("ma2h: Ask.DefaultOnExpire: %w", errEncode)
		}
		if a.ExpiresAt.IsZero() {
			return m, invalid("Ask.DefaultOnExpire", "§7", "is set without ExpiresAt, so it would never apply")
		}
	}
	return m, checkQuestion(m.Request)
}

func (t *Task) message(self string) (types.Message, error) {
	resolvers, err := resolversOf(t.AllowedResolvers, self)
	if err != nil {
		return types.Message{}, err
	}
	if t.Action.Instructions == "" {
		return types.Message{}, invalid("Task.Action.Instructions", "§5.3", "is required")
	}
	m := types.Message{
		Type: types.VerbTask, Title: t.Title, Body: t.Body, Priority: t.Priority, Tags: t.Tags,
		Context: t.Context, ClientRef: t.ClientRef, Sensitive: t.Sensitive, IdempotencyKey: t.IdempotencyKey,
		State: t.State, ExpiresAt: timestamp(t.ExpiresAt),
		Action: &types.Action{
			Instructions: t.Action.Instructions, Verification: t.Action.Verification,
			AllowedResolvers: resolvers, Callback: t.Callback,
		},
	}
	for _, step := range t.Action.Checklist {
		m.Action.Checklist = append(m.Action.Checklist, types.ChecklistItem{Text: step})
	}
	return m, nil
}

// checkQuestion refuses what the Hub would: a schema that is not flat, a
// default that is not an answer.
func checkQuestion(r *types.Request) error {
	if r.Schema != nil {
		if _, err := schema.CompileInput(r.Schema); err != nil {
			return within("Ask.Request", err)
		}
	}
	err := schema.CheckDefault(r)
	if fe, ok := errors.AsType[*FieldError](err); ok {
		return invalid("Ask.DefaultOnExpire", fe.Section, "%s", fe.Problem)
	}
	return err
}

func resolversOf(list []string, self string) ([]string, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: AllowedResolvers is empty; name who may, such as human:alice, or ResolverSelf for the agent itself (§9.1)", ErrNoResolver)
	}
	out := slices.Clone(list)
	for i, r := range out {
		if r == ResolverSelf {
			out[i] = self
		}
	}
	return out, nil
}

// refForm is a reference to a secret, such as env:NAME or vault://path. A
// secret itself has no scheme before a colon.
var refForm = regexp.MustCompile(`^[a-z][a-z0-9+.-]{1,31}:[!-~]+$`)

// checkCallback holds a callback to what makes it safe: https, nothing secret
// in the URL, references instead of secrets (§8.3, §9.4).
func checkCallback(cb *Callback, loopback bool) error {
	if cb == nil {
		return nil
	}
	if cb.URL != "" {
		u, err := url.Parse(cb.URL)
		if err != nil || u.Host == "" {
			return invalid("callback.url", "§8.3", "is not an absolute URL")
		}
		if err := checkURL(u, loopback); err != nil {
			return invalid("callback.url", "§8.3", "%v", err)
		}
	}
	if cb.Auth != nil {
		for field, ref := range map[string]string{"secret_ref": cb.Auth.SecretRef, "token_ref": cb.Auth.TokenRef} {
			if ref != "" && !refForm.MatchString(ref) {
				return invalid("callback.auth."+field, "§8.3", "is not a reference such as env:NAME; a secret itself never goes here")
			}
		}
	}
	return nil
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func redacted(f fmt.State, name string, kv ...string) {
	_, _ = fmt.Fprint(f, redactedText(name, kv...))
}

func redactedText(name string, kv ...string) string {
	var b strings.Builder
	b.WriteString(name)
	b.WriteByte('{')
	for i := 0; i+1 < len(kv); i += 2 {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(kv[i] + "=" + types.Quote(kv[i+1]))
	}
	b.WriteByte('}')
	return b.String()
}

// Format prints the key and nothing of the content.
func (n Notify) Format(f fmt.State, _ rune) { redacted(f, "Notify", "key", n.IdempotencyKey) }

// LogValue logs what Format prints.
func (n Notify) LogValue() slog.Value {
	return slog.StringValue(redactedText("Notify", "key", n.IdempotencyKey))
}

// Format prints the key and nothing of the content.
func (a Ask) Format(f fmt.State, _ rune) { redacted(f, "Ask", "key", a.IdempotencyKey) }

// LogValue logs what Format prints.
func (a Ask) LogValue() slog.Value {
	return slog.StringValue(redactedText("Ask", "key", a.IdempotencyKey))
}

// Format prints the key and nothing of the content.
func (t Task) Format(f fmt.State, _ rune) { redacted(f, "Task", "key", t.IdempotencyKey) }

// LogValue logs what Format prints.
func (t Task) LogValue() slog.Value {
	return slog.StringValue(redactedText("Task", "key", t.IdempotencyKey))
}

// Format prints the mode.
func (r Request) Format(f fmt.State, _ rune) { redacted(f, "Request", "mode", string(r.mode)) }

// LogValue logs the mode.
func (r Request) LogValue() slog.Value {
	return slog.StringValue(redactedText("Request", "mode", string(r.mode)))
}

// Format prints the type alone.
func (a Action) Format(f fmt.State, _ rune) { redacted(f, "Action") }

// LogValue logs the type alone.
func (a Action) LogValue() slog.Value { return slog.StringValue(redactedText("Action")) }
