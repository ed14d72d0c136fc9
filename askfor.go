package ma2h

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// Answer is the answer to a question whose shape is T.
type Answer[T any] struct {
	Value        T
	Actor        string    // who answered, or system:default_on_expire
	At           time.Time // the Hub's time of the answer
	Comment      string    // untrusted
	Edited       bool
	Defaulted    bool // nobody answered; Value is the question's own default
	MessageID    string
	ResolutionID string
}

// Format prints the id and nothing of the content.
func (a Answer[T]) Format(f fmt.State, _ rune) { redacted(f, "Answer", "message", a.MessageID) }

// LogValue logs what Format prints.
func (a Answer[T]) LogValue() slog.Value {
	return slog.StringValue(redactedText("Answer", "message", a.MessageID))
}

// AskFor asks for a T and waits for the answer.
//
// T is a flat struct. Its fields become the properties of the input schema:
// strings, booleans, integers and floats, named by their json tag, required
// unless that says omitempty or omitzero or the field is a pointer. The tag
// jsonschema holds a description, the tag ma2h bounds, separated by commas:
//
//	enum=a|b|c  min=1  max=9  minlen=1  maxlen=80  sensitive
//
// A T that is not flat is a *FieldError before anything is sent. q.Request is
// left empty. An empty IdempotencyKey becomes a random one that serves this
// one call; a process that starts again asks again.
//
// A question that ends without an answer is a *NoAnswerError, an answer from
// someone who is not in q.AllowedResolvers ErrActor, one that does not fit T
// ErrMalformed. A default is taken only if q sets one, and Answer says so.
func AskFor[T any](ctx context.Context, c *Client, q Ask) (Answer[T], error) {
	if q.IdempotencyKey == "" {
		key, err := randomID(c.cfg.Rand, "key_")
		if err != nil {
			return Answer[T]{}, fmt.Errorf("ma2h: Config.Rand: %w", err)
		}
		q.IdempotencyKey = key
	}
	ack, err := SubmitFor[T](ctx, c, q)
	if err != nil {
		return Answer[T]{}, err
	}
	return AwaitFor[T](ctx, c, ack.ID, q.AllowedResolvers...)
}

// SubmitFor asks for a T and returns once the Hub has the question, for an
// agent that exits. AwaitFor, or ReadFor on a pushed Response, gives the
// answer.
func SubmitFor[T any](ctx context.Context, c *Client, q Ask) (*Ack, error) {
	if q.Request.mode != "" {
		return nil, invalid("Ask.Request", "§5.2", "is set, and the type asks the question")
	}
	raw, err := schemaFor[T]()
	if err != nil {
		return nil, err
	}
	q.Request = Input(raw)
	return c.Ask(ctx, q)
}

// AwaitFor waits for the answer to a question that SubmitFor asked, in this
// process or another. by are the principals whose answer counts; ResolverSelf
// is the agent.
func AwaitFor[T any](ctx context.Context, c *Client, id string, by ...string) (Answer[T], error) {
	by, err := resolversOf(by, c.self())
	if err != nil {
		return Answer[T]{}, err
	}
	resp, err := c.Wait(ctx, id)
	if err != nil {
		return Answer[T]{}, err
	}
	return ReadFor[T](resp, by...)
}

// ReadFor reads r as the answer to a question that SubmitFor asked. by are the
// principals whose answer counts. Its errors are those of AskFor.
func ReadFor[T any](r *Response, by ...string) (Answer[T], error) {
	var none Answer[T]
	raw, err := schemaFor[T]()
	if err != nil {
		return none, err
	}
	in, err := schema.CompileInput(raw)
	if err != nil {
		return none, fmt.Errorf("ma2h: %w", err)
	}
	switch {
	case r.Defaulted():
	case r.Resolution() != Answered:
		return none, &NoAnswerError{ID: r.MessageID(), Resolution: r.Resolution()}
	case !r.PayloadBound():
		return none, fmt.Errorf("%w: message %s", ErrUnboundPayload, types.Quote(r.MessageID()))
	case !r.By(by...):
		return none, fmt.Errorf("%w: message %s (§9.1)", ErrActor, types.Quote(r.MessageID()))
	}
	d := r.detail()
	if err := in.Validate(d.Value); err != nil {
		return none, fmt.Errorf("%w: the answer to %s: %w", ErrMalformed, types.Quote(r.MessageID()), err)
	}
	out := Answer[T]{
		Actor: d.Actor, At: r.ResolvedAt(), Comment: d.Comment, Edited: d.Edited,
		Defaulted: r.Defaulted(), MessageID: r.MessageID(), ResolutionID: r.ResolutionID(),
	}
	if err := r.Decode(&out.Value); err != nil {
		return none, err
	}
	return out, nil
}

// schemaFor makes the flat input schema of T (§5.2).
func schemaFor[T any]() ([]byte, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, invalid(t.String(), "§5.2", "is not a struct")
	}
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, invalid(t.String(), "§5.2", "has no JSON Schema")
	}
	for _, f := range reflect.VisibleFields(t) {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		p := s.Properties[name]
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
			s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		}
		if p == nil || len(f.Index) > 1 || strings.Contains(rest, "string") {
			return nil, invalid(t.String()+"."+f.Name, "§5.2", "is not a plain field of a flat struct")
		}
		if p.Type, err = flatType(ft.Kind()); err != nil {
			return nil, invalid(t.String()+"."+f.Name, "§5.2", "%v", err)
		}
		p.Types = nil
		if err := applyTag(p, f.Tag.Get("ma2h")); err != nil {
			return nil, invalid(t.String()+"."+f.Name, "§5.2", "%v", err)
		}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("ma2h: schema of %s: %w", t, errEncode)
	}
	if _, err := schema.CompileInput(raw); err != nil {
		return nil, fmt.Errorf("ma2h: schema of %s: %w", t, err)
	}
	return raw, nil
}

func flatType(k reflect.Kind) (string, error) {
	switch {
	case k == reflect.String:
		return "string", nil
	case k == reflect.Bool:
		return "boolean", nil
	case k >= reflect.Int && k <= reflect.Uint64:
		return "integer", nil
	case k == reflect.Float32 || k == reflect.Float64:
		return "number", nil
	}
	return "", fmt.Errorf("is a %s, and an input is flat: strings, booleans and numbers", k)
}

// applyTag adds what the ma2h tag of a field says to its property.
func applyTag(p *jsonschema.Schema, tag string) error {
	for item := range strings.SplitSeq(tag, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		key, val, _ := strings.Cut(item, "=")
		switch key {
		case "sensitive":
			p.Extra = map[string]any{"x-ma2h-sensitive": true}
		case "enum":
			if p.Type != "string" {
				return fmt.Errorf("has an enum, which is for strings")
			}
			for v := range strings.SplitSeq(val, "|") {
				p.Enum = append(p.Enum, v)
			}
		case "min", "max":
			n, err := strconv.ParseFloat(val, 64)
			if err != nil || p.Type != "integer" && p.Type != "number" {
				return fmt.Errorf("has %s without a number, or not on a number", key)
			}
			if key == "min" {
				p.Minimum = &n
			} else {
				p.Maximum = &n
			}
		case "minlen", "maxlen":
			n, err := strconv.Atoi(val)
			if err != nil || n < 0 || p.Type != "string" {
				return fmt.Errorf("has %s without a length, or not on a string", key)
			}
			if key == "minlen" {
				p.MinLength = &n
			} else {
				p.MaxLength = &n
			}
		default:
			return fmt.Errorf("has an unknown ma2h tag")
		}
	}
	return nil
}
