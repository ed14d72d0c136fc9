package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

func TestEachVersionHasTheBodiesItDefines(t *testing.T) {
	early := []string{"capability", "error", "get-message", "message", "response", "submit-ack"}
	want := map[string][]string{
		"0.2": early,
		"0.3": early,
		"0.4": {"ack", "capability", "directive", "error", "get-message", "message", "presence", "response", "submit-ack"},
	}
	if got := schema.Versions(); !slices.Equal(got, []string{types.V02, types.V03, types.V04}) {
		t.Fatalf("Versions() = %q", got)
	}
	for version, names := range want {
		if got := schema.Names(version); !slices.Equal(got, names) {
			t.Errorf("Names(%s) = %q", version, got)
		}
	}
	if got := schema.Names("0.5"); got != nil {
		t.Errorf("Names(0.5) = %q", got)
	}
}

func TestAVersionOrABodyWithoutSchemaIsAClearError(t *testing.T) {
	for _, tc := range []struct{ version, name, rule string }{
		{"0.5", schema.Message, schema.RuleUnknownVersion},
		{"", schema.Message, schema.RuleUnknownVersion},
		{"0.04", schema.Message, schema.RuleUnknownVersion},
		{"../v0.4", schema.Message, schema.RuleUnknownVersion},
		{"0.4", "receipt", schema.RuleUnknownName},
		{"0.4", "common", schema.RuleUnknownName},
		{"0.4", "", schema.RuleUnknownName},
		{"0.3", schema.Directive, schema.RuleUnknownName},
		{"0.2", schema.Ack, schema.RuleUnknownName},
		{"0.3", schema.Presence, schema.RuleUnknownName},
	} {
		err := schema.Validate(tc.version, tc.name, []byte(documents["directive"].text))
		if se, ok := errors.AsType[*schema.Error](err); !ok || se.Rule != tc.rule {
			t.Errorf("%q %q: %v", tc.version, tc.name, err)
		}
	}
}

// report: B036
func TestABodyThatIsNotStrictJSONNeverReachesTheValidator(t *testing.T) {
	d := documents["notify"].text
	member := func(text string) string { return strings.Replace(d, `"body":"text"`, text, 1) }
	deep := func(n int) string {
		return member(`"x":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1))
	}
	for name, text := range map[string]string{
		"empty":             ``,
		"cut":               d[:len(d)-1],
		"trailing":          d + `{}`,
		"byte order mark":   "\ufeff" + d,
		"duplicate":         member(`"body":"a","body":"b"`),
		"escaped duplicate": member(`"body":"a","\u0062ody":"b"`),
		"deep duplicate":    member(`"x":[{"y":{"a":1,"a":2}}]`),
		"lone surrogate":    member(`"body":"\ud800"`),
		"invalid UTF-8":     member("\"body\":\"\xff\""),
		"infinite":          member(`"x":1e400`),
		"long number":       member(`"x":1` + strings.Repeat("0", limits.MaxNumberLen)),
		"deep":              deep(limits.MaxDepth + 1),
		"large":             member(`"body":"` + strings.Repeat("a", limits.MaxResponseBody) + `"`),
	} {
		err := schema.Validate("0.4", schema.Message, []byte(text))
		if se, ok := errors.AsType[*schema.Error](err); !ok || se.Rule != schema.RuleJSON || se.Unwrap() == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := schema.Validate("0.4", schema.Message, []byte(deep(limits.MaxDepth))); err != nil {
		t.Errorf("%d levels: %v", limits.MaxDepth, err)
	}
}

// req: DISC-03
func TestMembersThatNoSchemaKnowsAreTolerated(t *testing.T) {
	for _, name := range documentNames {
		d := documents[name]
		root := parseAll(d.text)[0]
		for _, o := range objects(root) {
			if _, there := o["model"]; there {
				continue // labels take strings only
			}
			o["x_unknown"] = map[string]any{"a": []any{nil}}
			o["Title"] = "another case is another member"
		}
		if diff := disagree(d.body, render(root)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := schema.Validate("0.4", d.body, []byte(render(root))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const canary = "kqzwcanary"

func TestNoErrorOfASchemaHoldsContent(t *testing.T) {
	refusals := 0
	for _, name := range documentNames {
		d := documents[name]
		all := len(places(parseAll(d.text)[0]))
		for i := range all {
			for _, v := range []any{canary, canary + " words", []any{canary}, map[string]any{canary: canary}} {
				root := parseAll(d.text)[0]
				places(root)[i].set(v)
				err := schema.Validate("0.4", d.body, []byte(render(root)))
				if err == nil {
					continue
				}
				refusals++
				for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err)} {
					if strings.Contains(text, canary) {
						t.Errorf("%s: %s", name, text)
					}
				}
			}
		}
	}
	for _, tc := range answers {
		in, err := schema.CompileInput([]byte(tc.schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{`{"p":"` + canary + `!"}`, `{"p":{"` + canary + `":1}}`, `{"` + canary + ` words":1}`, `"` + canary + `"`, canary} {
			if err := in.Validate([]byte(text)); err != nil {
				refusals++
				if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), canary) {
					t.Errorf("%s: %v", tc.schema, err)
				}
			}
		}
	}
	if refusals < 500 {
		t.Fatalf("only %d refusals were looked at", refusals)
	}
}

func TestConcurrentFirstUseIsSafe(t *testing.T) {
	t.Parallel()
	done := make(chan error)
	for range 8 {
		go func() {
			done <- schema.Validate("0.4", schema.Message, []byte(documents["notify"].text))
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A number that the validator could not bear is refused before it.
func TestTheInstanceIsBoundedBeforeTheValidator(t *testing.T) {
	text := `{"ma2h_version":"0.4","max_body_bytes":1e5000000}`
	if !json.Valid([]byte(text)) {
		t.Fatal("the text must be valid JSON to test the bound")
	}
	err := schema.Validate("0.4", schema.Capability, []byte(text))
	if se, ok := errors.AsType[*schema.Error](err); !ok || se.Rule != schema.RuleJSON {
		t.Errorf("%v", err)
	}
}
