package schema_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// flat wraps one property in a schema.
func flat(property string) string {
	return `{"type":"object","properties":{"p":` + property + `}}`
}

func nProperties(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"p%d":{"type":"string"}`, i)
	}
	return `{"type":"object","properties":{` + b.String() + `}}`
}

// req: ASK-03
func TestAnInputSchemaThatIsFlatCompiles(t *testing.T) {
	for _, text := range []string{
		`{"type":"object"}`,
		`{"type":"object","properties":{}}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
		`{"type":"object","title":"T","description":"D","$comment":"C","x-vendor":{"a":[1]},"additionalProperties":true}`,
		flat(`{"type":"string","minLength":1,"maxLength":2.0,"pattern":"^a+$","format":"email","title":"T","description":"D","default":"a","examples":["a"]}`),
		flat(`{"type":"number","minimum":0,"maximum":1,"exclusiveMinimum":-1,"exclusiveMaximum":2,"multipleOf":0.01,"default":null}`),
		flat(`{"type":"integer","enum":[1,2,3]}`),
		flat(`{"type":"boolean","deprecated":true,"x-ma2h-sensitive":true,"x-vendor":{}}`),
		flat(`{"enum":["a",1,true,null]}`),
		flat(`{"const":null}`),
		flat(`{"type":"string","pattern":"` + strings.Repeat("a", 1024) + `"}`),
		nProperties(limits.MaxSchemaProperties),
		padded(limits.MaxSchema),
	} {
		if _, err := schema.CompileInput([]byte(text)); err != nil {
			t.Errorf("%.200s: %v", text, err)
		}
	}
}

// padded returns a valid schema of n bytes.
func padded(n int) string {
	const open, end = `{"type":"object","title":"`, `"}`
	return open + strings.Repeat("a", n-len(open)-len(end)) + end
}

// req: ASK-03
func TestAnInputSchemaThatNestsOrIsOutOfBoundsIsRefused(t *testing.T) {
	deep := strings.Repeat(`{"a":`, limits.MaxDepth+1) + "1" + strings.Repeat("}", limits.MaxDepth+1)
	for _, tc := range []struct{ text, path, rule string }{
		{``, "", "type"},
		{`null`, "", "type"},
		{`[]`, "", "type"},
		{`true`, "", "type"},
		{`{}`, "type", "const"},
		{`{"type":"string"}`, "type", "const"},
		{`{"type":["object"]}`, "type", "type"},
		{`{"type":"object","type":"object"}`, "", "type"},
		{`{"type":"object","properties":[]}`, "properties", "type"},
		{`{"type":"object","properties":null}`, "properties", "type"},
		{`{"type":"object","required":"p"}`, "required", "type"},
		{`{"type":"object","required":[1]}`, "required", "type"},
		{`{"type":"object","required":["q"]}`, "required.q", "not among the properties"},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, "additionalProperties", "type"},
		{`{"type":"object","title":1}`, "title", "type"},
		{`{"type":"object","allOf":[]}`, "allOf", schema.RuleUnsupported},
		{`{"type":"object","anyOf":[]}`, "anyOf", schema.RuleUnsupported},
		{`{"type":"object","oneOf":[]}`, "oneOf", schema.RuleUnsupported},
		{`{"type":"object","not":{}}`, "not", schema.RuleUnsupported},
		{`{"type":"object","if":{}}`, "if", schema.RuleUnsupported},
		{`{"type":"object","patternProperties":{}}`, "patternProperties", schema.RuleUnsupported},
		{`{"type":"object","propertyNames":{}}`, "propertyNames", schema.RuleUnsupported},
		{`{"type":"object","dependentSchemas":{}}`, "dependentSchemas", schema.RuleUnsupported},
		{`{"type":"object","unevaluatedProperties":false}`, "unevaluatedProperties", schema.RuleUnsupported},
		{`{"type":"object","minProperties":1}`, "minProperties", schema.RuleUnsupported},
		{`{"type":"object","some text of a person":1}`, "*", schema.RuleUnsupported},
		{flat(`true`), "properties.p", "type"},
		{flat(`null`), "properties.p", "type"},
		{flat(`{}`), "properties.p", "needs a type, an enum or a const"},
		{flat(`{"title":"x"}`), "properties.p", "needs a type, an enum or a const"},
		{flat(`{"type":"object"}`), "properties.p.type", "neither string, number, integer nor boolean"},
		{flat(`{"type":"array","items":{}}`), "properties.p.items", schema.RuleUnsupported},
		{flat(`{"type":"null"}`), "properties.p.type", "neither string, number, integer nor boolean"},
		{flat(`{"type":["string","null"]}`), "properties.p.type", "type"},
		{flat(`{"type":"string","properties":{}}`), "properties.p.properties", schema.RuleUnsupported},
		{flat(`{"type":"string","anyOf":[]}`), "properties.p.anyOf", schema.RuleUnsupported},
		{flat(`{"type":"string","contentSchema":{}}`), "properties.p.contentSchema", schema.RuleUnsupported},
		{flat(`{"enum":[]}`), "properties.p.enum", "minItems"},
		{flat(`{"enum":[{}]}`), "properties.p.enum", "nests"},
		{flat(`{"const":[]}`), "properties.p.const", "nests"},
		{flat(`{"type":"string","default":{}}`), "properties.p.default", "nests"},
		{flat(`{"type":"string","minLength":-1}`), "properties.p.minLength", "not a length"},
		{flat(`{"type":"string","minLength":1.5}`), "properties.p.minLength", "not a length"},
		{flat(`{"type":"string","maxLength":1e300}`), "properties.p.maxLength", "not a length"},
		{flat(`{"type":"number","multipleOf":0}`), "properties.p.multipleOf", "exclusiveMinimum"},
		{flat(`{"type":"number","multipleOf":-1}`), "properties.p.multipleOf", "exclusiveMinimum"},
		{flat(`{"type":"number","minimum":"0"}`), "properties.p.minimum", "type"},
		{flat(`{"type":"number","minimum":null}`), "properties.p.minimum", "type"},
		{flat(`{"type":"number","exclusiveMinimum":true}`), "properties.p.exclusiveMinimum", "type"},
		{flat(`{"type":"number","minimum":1e400}`), "", "type"},
		{flat(`{"type":"number","minimum":1` + strings.Repeat("0", limits.MaxNumberLen) + `}`), "", "type"},
		{flat(`{"type":"string","pattern":"("}`), "properties.p.pattern", "not a regular expression"},
		{flat(`{"type":"string","pattern":"(?=a)"}`), "properties.p.pattern", "not a regular expression"},
		{flat(`{"type":"string","pattern":"` + strings.Repeat("a", 1025) + `"}`), "properties.p.pattern", schema.RuleSize},
		{flat(`{"type":"string","x-ma2h-sensitive":"yes"}`), "properties.p.x-ma2h-sensitive", "type"},
		{`{"type":"object","properties":{"a person wrote this":{}}}`, "properties.*", "needs a type, an enum or a const"},
		{`{"type":"object","x-deep":` + deep + `}`, "", "type"},
		{nProperties(limits.MaxSchemaProperties + 1), "properties", schema.RuleSize},
		{padded(limits.MaxSchema + 1), "", schema.RuleSize},
	} {
		in, err := schema.CompileInput([]byte(tc.text))
		se, ok := errors.AsType[*schema.Error](err)
		if !ok || in != nil || se.Path != tc.path || se.Rule != tc.rule {
			t.Errorf("%.200s: %v, want %q at %q", tc.text, err, tc.rule, tc.path)
		}
	}
}

// report: B042
func TestASchemaThatRefersElsewhereIsRefusedWithoutOpeningAnything(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a schema was fetched over http")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	// A readable schema behind the reference: were it followed, this compiled.
	local := filepath.Join(t.TempDir(), "string.json")
	if err := os.WriteFile(local, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"file://" + local, local, "http://" + listener.Addr().String() + "/s.json", "#/$defs/a", "#", "https://json-schema.org/draft/2020-12/schema"} {
		for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "$defs", "definitions", "dependencies"} {
			for _, text := range []string{
				fmt.Sprintf(`{"type":"object",%q:%q}`, keyword, target),
				flat(fmt.Sprintf(`{"type":"string",%q:%q}`, keyword, target)),
			} {
				_, err := schema.CompileInput([]byte(text))
				if se, ok := errors.AsType[*schema.Error](err); !ok || se.Rule != schema.RuleUnsupported || !strings.HasSuffix(se.Path, keyword) {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
		if target == "https://json-schema.org/draft/2020-12/schema" {
			continue
		}
		_, err := schema.CompileInput([]byte(fmt.Sprintf(`{"type":"object","$schema":%q}`, target)))
		if se, ok := errors.AsType[*schema.Error](err); !ok || se.Path != "$schema" {
			t.Errorf("$schema %s: %v", target, err)
		}
	}
}

type answerRow struct {
	schema, answer string
	path, rule     string // of the refusal; empty where it is taken
}

var answers = []answerRow{
	{flat(`{"type":"string"}`), `{}`, "", ""},
	{flat(`{"type":"string"}`), `{"p":""}`, "", ""},
	{flat(`{"type":"string"}`), `{"p":1}`, "p", "type"},
	{flat(`{"type":"string"}`), `{"p":null}`, "p", "type"},
	{flat(`{"type":"string"}`), `{"p":["a"]}`, "p", "type"},
	{flat(`{"type":"boolean"}`), `{"p":false}`, "", ""},
	{flat(`{"type":"boolean"}`), `{"p":0}`, "p", "type"},
	{flat(`{"type":"integer"}`), `{"p":5}`, "", ""},
	{flat(`{"type":"integer"}`), `{"p":5.0}`, "", ""},
	{flat(`{"type":"integer"}`), `{"p":5e3}`, "", ""},
	{flat(`{"type":"integer"}`), `{"p":5.5}`, "p", "type"},
	{flat(`{"type":"integer"}`), `{"p":"5"}`, "p", "type"},
	{flat(`{"type":"number"}`), `{"p":5.5}`, "", ""},
	{flat(`{"type":"number"}`), `{"p":{}}`, "p", "type"},
	{flat(`{"type":"number","minimum":0.1,"maximum":0.3}`), `{"p":0.1}`, "", ""},
	{flat(`{"type":"number","minimum":0.1,"maximum":0.3}`), `{"p":0.30000000000000004}`, "p", "maximum"},
	{flat(`{"type":"number","minimum":0.1}`), `{"p":0.09}`, "p", "minimum"},
	{flat(`{"type":"number","exclusiveMinimum":0}`), `{"p":0}`, "p", "exclusiveMinimum"},
	{flat(`{"type":"number","exclusiveMinimum":0}`), `{"p":5e-324}`, "", ""},
	{flat(`{"type":"number","exclusiveMaximum":1}`), `{"p":1}`, "p", "exclusiveMaximum"},
	{flat(`{"type":"number","exclusiveMaximum":1}`), `{"p":0.9}`, "", ""},
	{flat(`{"type":"number","multipleOf":0.01}`), `{"p":19.99}`, "", ""},
	{flat(`{"type":"number","multipleOf":0.01}`), `{"p":19.999}`, "p", "multipleOf"},
	{flat(`{"type":"number","multipleOf":0.1}`), `{"p":1e308}`, "", ""},
	{flat(`{"type":"number","multipleOf":3}`), `{"p":-9}`, "", ""},
	{flat(`{"type":"number","multipleOf":5e-324}`), `{"p":1.5}`, "", ""},
	{flat(`{"type":"string","minLength":2}`), `{"p":"😀😀"}`, "", ""},
	{flat(`{"type":"string","minLength":2}`), `{"p":"😀"}`, "p", "minLength"},
	{flat(`{"type":"string","maxLength":2}`), `{"p":"😀😀"}`, "", ""},
	{flat(`{"type":"string","maxLength":2}`), `{"p":"abc"}`, "p", "maxLength"},
	{flat(`{"type":"string","pattern":"^[a-z]+$"}`), `{"p":"abc"}`, "", ""},
	{flat(`{"type":"string","pattern":"^[a-z]+$"}`), `{"p":"abc\n"}`, "p", "pattern"},
	{flat(`{"type":"string","pattern":"b"}`), `{"p":"abc"}`, "", ""},
	{flat(`{"type":"string","pattern":"^(a+)+$"}`), `{"p":"` + strings.Repeat("a", 5000) + `!"}`, "p", "pattern"},
	{flat(`{"type":"string","format":"email"}`), `{"p":"no mail"}`, "", ""},
	{flat(`{"enum":["a",1,true,null]}`), `{"p":null}`, "", ""},
	{flat(`{"enum":["a",1,true,null]}`), `{"p":1.0}`, "", ""},
	{flat(`{"enum":["a",1]}`), `{"p":"1"}`, "p", "enum"},
	{flat(`{"type":"string","enum":["a",1]}`), `{"p":1}`, "p", "type"},
	{flat(`{"const":"yes"}`), `{"p":"yes"}`, "", ""},
	{flat(`{"const":"yes"}`), `{"p":"no"}`, "p", "const"},
	{`{"type":"object","properties":{"p":{"type":"string"}},"required":["p"]}`, `{}`, "p", "required"},
	{`{"type":"object","properties":{"p":{"type":"string"}},"required":["p"]}`, `{"P":"x"}`, "p", "required"},
	{`{"type":"object","properties":{"a person's words":{"type":"string"}},"required":["a person's words"]}`, `{}`, "*", "required"},
	{`{"type":"object","additionalProperties":false}`, `{"q":1}`, "q", "additionalProperties"},
	{`{"type":"object","additionalProperties":false}`, `{"secret words":1}`, "*", "additionalProperties"},
	{`{"type":"object","additionalProperties":true}`, `{"q":{"a":[1]}}`, "", ""},
	{`{"type":"object"}`, `{"q":1}`, "", ""},
	{`{"type":"object"}`, `"x"`, "", "type"},
	{`{"type":"object"}`, `null`, "", "type"},
	{`{"type":"object"}`, `[]`, "", "type"},
	{`{"type":"object"}`, ``, "", schema.RuleJSON},
	{`{"type":"object"}`, `{"q":1} x`, "", schema.RuleJSON},
	{`{"type":"object"}`, `{"q":1,"q":2}`, "", schema.RuleJSON},
	{`{"type":"object"}`, `{"q":1e400}`, "", schema.RuleJSON},
	{`{"type":"object"}`, `{"q":"\ud800"}`, "", schema.RuleJSON},
}

// req: ASK-03 RES-05
func TestAnAnswerIsHeldAgainstItsSchema(t *testing.T) {
	for _, tc := range answers {
		in, err := schema.CompileInput([]byte(tc.schema))
		if err != nil {
			t.Fatalf("%s: %v", tc.schema, err)
		}
		err = in.Validate([]byte(tc.answer))
		if tc.rule == "" {
			if err != nil {
				t.Errorf("%s on %s: %v", tc.schema, tc.answer, err)
			}
			continue
		}
		if se, ok := errors.AsType[*schema.Error](err); !ok || se.Path != tc.path || se.Rule != tc.rule {
			t.Errorf("%s on %.80s: %v, want %q at %q", tc.schema, tc.answer, err, tc.rule, tc.path)
		}
	}
}

// The validator underneath divides doubles for multipleOf: this is why the
// keyword is checked apart. When this test fails, the detour can go.
func TestTheValidatorStillMisjudgesDecimalMultiples(t *testing.T) {
	resolved, err := (&jsonschema.Schema{MultipleOf: new(0.01)}).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if resolved.Validate(19.99) == nil {
		t.Error("19.99 is a multiple of 0.01 to the validator now")
	}
}

// req: ASK-09
func TestSensitivePropertiesAreListed(t *testing.T) {
	in, err := schema.CompileInput([]byte(`{"type":"object","properties":{
		"z":{"type":"string","x-ma2h-sensitive":true},"b":{"type":"string"},
		"a":{"type":"string","x-ma2h-sensitive":true},"c":{"type":"string","x-ma2h-sensitive":false}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := in.Sensitive(); !slices.Equal(got, []string{"a", "z"}) {
		t.Errorf("Sensitive() = %q", got)
	}
}

// req: ASK-06 AMB-20
func TestADefaultOnExpireIsAnAnswerThatTheRequestWouldTake(t *testing.T) {
	options := []types.Option{{Value: "ship"}, {Value: "hold"}}
	input := types.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	for _, tc := range []struct {
		req   types.Request
		field string
	}{
		{types.Request{Mode: types.ModeSelect, Options: options}, ""},
		{types.Request{Mode: types.ModeSelect, Options: options, DefaultOnExpire: types.Raw(`null`)}, ""},
		{types.Request{Mode: types.ModeSelect, Options: options, DefaultOnExpire: types.Raw(`"hold"`)}, ""},
		{types.Request{Mode: types.ModeSelect, Options: options, DefaultOnExpire: types.Raw(`"h\u006fld"`)}, ""},
		{types.Request{Mode: types.ModeSelect, Options: options, DefaultOnExpire: types.Raw(`"Hold"`)}, "default_on_expire"},
		{types.Request{Mode: types.ModeSelect, Options: options, DefaultOnExpire: types.Raw(`{"value":"hold"}`)}, "default_on_expire"},
		{types.Request{Mode: types.ModeConfirm, DefaultOnExpire: types.Raw(`"deny"`)}, ""},
		{types.Request{Mode: types.ModeConfirm, DefaultOnExpire: types.Raw(`"ship"`)}, "default_on_expire"},
		{types.Request{Mode: types.ModeConfirm, Options: options, DefaultOnExpire: types.Raw(`"ship"`)}, ""},
		{types.Request{Mode: types.ModeConfirm, Options: options, DefaultOnExpire: types.Raw(`"approve"`)}, "default_on_expire"},
		{types.Request{Mode: types.ModeInput, Schema: input, DefaultOnExpire: types.Raw(`{"n":1}`)}, ""},
		{types.Request{Mode: types.ModeInput, Schema: input, DefaultOnExpire: types.Raw(`null`)}, ""},
		{types.Request{Mode: types.ModeInput, Schema: input, DefaultOnExpire: types.Raw(`{"n":"1"}`)}, "default_on_expire"},
		{types.Request{Mode: types.ModeInput, Schema: input, DefaultOnExpire: types.Raw(`"n"`)}, "default_on_expire"},
		{types.Request{Mode: "other", DefaultOnExpire: types.Raw(`"x"`)}, "default_on_expire"},
	} {
		err := schema.CheckDefault(&tc.req)
		if tc.field == "" {
			if err != nil {
				t.Errorf("%s with %s: %v", tc.req.Mode, string(tc.req.DefaultOnExpire), err)
			}
			continue
		}
		if fe, ok := errors.AsType[*types.FieldError](err); !ok || fe.Field != tc.field {
			t.Errorf("%s with %s: %v", tc.req.Mode, string(tc.req.DefaultOnExpire), err)
		}
	}
	bad := types.Request{Mode: types.ModeInput, Schema: types.Raw(`{"type":"string"}`), DefaultOnExpire: types.Raw(`{}`)}
	if _, ok := errors.AsType[*schema.Error](schema.CheckDefault(&bad)); !ok {
		t.Error("a default was held against a schema that does not compile")
	}
}
