package ma2h

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// Answer is the answer to a question whose shape is T.
type Answer[T any] struct {
	Value        T         // what was answered
	Actor        string    // who answered, or system:default_on_expire
	At           time.Time // the Hub's time of the answer
	Comment      string    // untrusted
	Edited       bool      // the human changed a proposed value
	Defaulted    bool      // nobody answered; Value is the question's own default
	MessageID    string    // the question
	ResolutionID string    // its end, the same on every channel (§6)
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
	if err := c.made(); err != nil {
		return Answer[T]{}, err
	}
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
	a, err := AwaitFor[T](ctx, c, ack.ID, q.AllowedResolvers...)
	if a.Defaulted && q.DefaultOnExpire == nil {
		return Answer[T]{}, fmt.Errorf("%w: message %s: %w", ErrProtocol, types.Quote(ack.ID), &NoAnswerError{ID: ack.ID, Resolution: Expired})
	}
	return a, err
}

// SubmitFor asks for a T and returns once the Hub has the question, for an
// agent that exits. AwaitFor, or ReadFor on a pushed Response, gives the
// answer.
func SubmitFor[T any](ctx context.Context, c *Client, q Ask) (*Ack, error) {
	if q.Request.mode != "" {
		return nil, invalid("Ask.Request", "§5.2", "is set, and the type asks the question")
	}
	raw, _, err := schemaFor[T]()
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
	if err := c.made(); err != nil {
		return Answer[T]{}, err
	}
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
	_, in, err := schemaFor[T]()
	if err != nil {
		return none, err
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

// schemaFor makes the flat input schema of T (§5.2), and compiles it.
func schemaFor[T any]() ([]byte, *schema.Input, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, nil, invalid(t.String(), "§5.2", "is not a struct")
	}
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, nil, invalid(t.String(), "§5.2", "has no JSON Schema")
	}
	seen := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, rest, _ := strings.Cut(tag, ",")
		if !f.Anonymous && (!f.IsExported() || tag == "-") {
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
		if p == nil || seen[name] || !plainName(name) || !plainOptions(rest) {
			return nil, nil, invalid(t.String()+"."+f.Name, "§5.2", "is not a plain field of a flat struct")
		}
		seen[name] = true
		if p.Type, err = flatType(ft); err != nil {
			return nil, nil, invalid(t.String()+"."+f.Name, "§5.2", "%v", err)
		}
		p.Types = nil
		// A human must not be let to give what the field cannot hold.
		switch {
		case ft.Kind() == reflect.Float32:
			p.Minimum, p.Maximum = new(-math.MaxFloat32), new(math.MaxFloat32)
		case p.Type == "integer":
			p.Minimum, p.Maximum = larger(p.Minimum, -maxExact), smaller(p.Maximum, maxExact)
		}
		if err := applyTag(p, f.Tag.Get("ma2h")); err != nil {
			return nil, nil, invalid(t.String()+"."+f.Name, "§5.2", "%v", err)
		}
		if p.Minimum != nil && p.Maximum != nil && *p.Minimum > *p.Maximum || p.MinLength != nil && p.MaxLength != nil && *p.MinLength > *p.MaxLength {
			return nil, nil, invalid(t.String()+"."+f.Name, "§5.2", "has bounds that no answer meets")
		}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, nil, fmt.Errorf("ma2h: schema of %s: %w", t, errEncode)
	}
	in, err := schema.CompileInput(raw)
	if err != nil {
		return nil, nil, within("schema of "+t.String(), err)
	}
	return raw, in, nil
}

// maxExact is the largest integer that every JSON reader takes exactly.
const maxExact = 1<<53 - 1

func larger(bound *float64, least float64) *float64 {
	if bound != nil {
		least = max(least, *bound)
	}
	return &least
}

func smaller(bound *float64, most float64) *float64 {
	if bound != nil {
		most = min(most, *bound)
	}
	return &most
}

// plainName reports whether a name means the same to the schema and to the
// decoder of the answer, which takes quotes and escapes for its own.
func plainName(name string) bool { return !strings.ContainsAny(name, "'\"`\\") }

// plainOptions reports whether a json tag leaves the value as it is.
func plainOptions(rest string) bool {
	for option := range strings.SplitSeq(rest, ",") {
		if option != "" && option != "omitempty" && option != "omitzero" {
			return false
		}
	}
	return true
}

// speaksForItself lists what makes a type decode from something else than its
// kind.
var speaksForItself = []reflect.Type{
	reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](), reflect.TypeFor[jsonv2.UnmarshalerFrom](),
}

func flatType(t reflect.Type) (string, error) {
	for _, own := range speaksForItself {
		if reflect.PointerTo(t).Implements(own) {
			return "", fmt.Errorf("decodes by a method of its own, and an input is flat: strings, booleans and numbers")
		}
	}
	if t == reflect.TypeFor[time.Duration]() {
		return "", fmt.Errorf("is a time.Duration, which has no unit on the wire")
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		return "string", nil
	case k == reflect.Bool:
		return "boolean", nil
	case k >= reflect.Int && k <= reflect.Uint64:
		return "integer", nil
	case k == reflect.Float32 || k == reflect.Float64:
		return "number", nil
	}
	return "", fmt.Errorf("is a %s, and an input is flat: strings, booleans and numbers", t.Kind())
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
			if val == "" {
				return fmt.Errorf("has an enum without a value")
			}
			if p.Type != "string" {
				return fmt.Errorf("has an enum, which is for strings")
			}
			for v := range strings.SplitSeq(val, "|") {
				p.Enum = append(p.Enum, v)
			}
		case "min", "max":
			n, err := strconv.ParseFloat(val, 64)
			if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || p.Type != "integer" && p.Type != "number" {
				return fmt.Errorf("has %s without a number, or not on a number", key)
			}
			if key == "min" {
				p.Minimum = larger(p.Minimum, n)
			} else {
				p.Maximum = smaller(p.Maximum, n)
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
