package schema_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/schema"
)

// req: ENV-01, ENV-02, ENV-03, ENV-04, ENV-05, ENV-06, ENV-08, ENV-09, ENV-10, ENV-11, ENV-12
// req: ENV-13, ENV-14, ENV-15, ENV-17, ENV-16, ENV-18, ENV-19, ASK-01, ASK-02, ASK-03, ASK-04
// req: ASK-05, ASK-06, ASK-07, ASK-08, ASK-09, TSK-01, TSK-02, CB-01, CB-02, CB-03, CB-04, CB-05
// req: CB-06, CB-07, RES-01, RES-02, RES-03, RES-04, RES-05, RES-06, RES-07, DISC-01, DISC-02
// req: DISC-03, DISC-04, DISC-05, SUB-02, PUL-01, PUL-08, PUL-09, PUL-13, ACK-04, INB-05, INB-24
// req: PRE-01, ERR-01, AMB-42
func TestTypesAndSchemasAcceptAndRefuseTheSameBodies(t *testing.T) {
	for _, r := range rows {
		t.Run(r.base+" "+strings.Join(r.changes, " "), func(t *testing.T) {
			d, found := documents[r.base]
			if !found {
				t.Fatalf("no document %q", r.base)
			}
			text := edit(t, d.text, r.changes...)
			err := typed(d.body, text)
			if (err != nil) != (r.at != "") {
				t.Errorf("types: %v", err)
			}
			// What is not an object is refused by the item's own decoder, which does
			// not know where the item stands.
			item := len(r.changes) > 0 && strings.Contains(r.changes[0], ".0=\"")
			if err != nil && !item && !namesPart(err.Error(), r.at) {
				t.Errorf("types: %q does not name %s", err, r.at)
			}
			for _, version := range schema.Versions() {
				if !slices.Contains(schema.Names(version), d.body) || version < r.from {
					continue
				}
				err := schema.Validate(version, d.body, []byte(text))
				if (err != nil) != (r.at != "") {
					t.Errorf("schema of %s: %v", version, err)
				}
				if se, ok := errors.AsType[*schema.Error](err); ok && !slices.Contains(strings.Split(r.at, "|"), se.Path) {
					t.Errorf("schema of %s: refused at %q (%s), want %s", version, se.Path, se.Rule, r.at)
				}
			}
		})
	}
}

// namesPart reports whether text names one of the members on the path at.
func namesPart(text, at string) bool {
	for name := range strings.FieldsFuncSeq(at, func(r rune) bool { return r == '.' || r == '|' }) {
		if strings.Contains(text, strings.TrimRight(name, "[]0123456789")) {
			return true
		}
	}
	return false
}

// Rules that the types have and a schema cannot state, or must not.
var typesOnly = []struct {
	reason, body, text string
	at                 string
}{
	{"a schema cannot compare the items of a list by one member", schema.Message,
		change("ask", `request.options.1.value="ship"`), "request.options[1].value"},
	{"a schema cannot compare two members", schema.GetMessage,
		change("get answered", `response.in_reply_to="msg_2"`), "response.in_reply_to"},
	{"a schema cannot compare two members", schema.GetMessage,
		change("get answered", `response.resolution="expired"`), "response.resolution"},
	{"a bound of this library, in bytes; the protocol has none and a schema counts characters", schema.Response,
		change("answered", `in_reply_to="`+strings.Repeat("é", 257)+`"`), "in_reply_to"},
	{"a bound of this library, in bytes; the protocol has none and a schema counts characters", schema.Message,
		change("ask", `idempotency_key="`+strings.Repeat("k", 513)+`"`), "idempotency_key"},
	{"JSON Schema takes 32.0 for an integer, Go's integers do not", schema.Capability,
		strings.Replace(documents["capability"].text, `"max_batch":32`, `"max_batch":32.0`, 1), "max_batch"},
}

func change(base string, changes ...string) string {
	return edit(nopTB{}, documents[base].text, changes...)
}

// nopTB serves edit outside a test, where only a broken table can fail it.
type nopTB struct{ testing.TB }

func (nopTB) Helper()               {}
func (nopTB) Fatal(args ...any)     { panic(args) }
func (nopTB) Fatalf(string, ...any) { panic("broken table") }

// req: ASK-02 PUL-08
func TestRulesThatASchemaCannotStateAreHeldByTheTypes(t *testing.T) {
	for _, r := range typesOnly {
		if r.reason == "" {
			t.Errorf("%s has no reason", r.at)
		}
		if err := typed(r.body, r.text); err == nil || !strings.Contains(err.Error(), r.at) {
			t.Errorf("types on %s (%s): %v", r.at, r.reason, err)
		}
		if err := schema.Validate("0.4", r.body, []byte(r.text)); err != nil {
			t.Errorf("the schema has the rule, so it is no exception: %v", err)
		}
	}
}

// The schema of a minor does not know what a later one defines; the types read
// one shape for all minors, so they are stricter there.
var laterMembers = []row{
	since("0.4", no("inbound", "capability", `inbound=1`)),
	since("0.4", no("ack", "capability", `ack="x"`)),
	since("0.4", no("presence", "capability", `presence=[]`)),
	since("0.4", no("delivery", "get answered", `delivery=1`)),
	// 0.2 itself pushes at 0.2; this library never does.
	since("0.3", no("ma2h_version", "push", `ma2h_version="0.2"`)),
}

// req: DISC-02 CB-07
func TestAnEarlierSchemaIgnoresWhatALaterMinorDefines(t *testing.T) {
	for _, r := range laterMembers {
		d := documents[r.base]
		text := []byte(edit(t, d.text, r.changes...))
		if err := typed(d.body, string(text)); err == nil {
			t.Errorf("types accept %s %v", r.base, r.changes)
		}
		for _, version := range schema.Versions() {
			err := schema.Validate(version, d.body, text)
			if (err != nil) != (version >= r.from) {
				t.Errorf("schema of %s on %s %v: %v", version, r.base, r.changes, err)
			}
		}
	}
}

// req: ERR-01
func TestABodyThatIsNoObjectIsRefused(t *testing.T) {
	for _, version := range schema.Versions() {
		for _, name := range schema.Names(version) {
			for _, text := range []string{`null`, `true`, `1`, `"x"`, `[]`, `[{}]`} {
				if err := typed(name, text); err == nil {
					t.Errorf("types take %s for a %s", text, name)
				}
				err := schema.Validate(version, name, []byte(text))
				if se, ok := errors.AsType[*schema.Error](err); !ok || se.Path != "" || se.Rule != "type" {
					t.Errorf("%s of %s on %s: %v", name, version, text, err)
				}
			}
		}
	}
}

func TestEveryDocumentIsValid(t *testing.T) {
	if len(documentNames) != len(documents) {
		t.Fatalf("%d names for %d documents", len(documentNames), len(documents))
	}
	for _, name := range documentNames {
		d := documents[name]
		if err := typed(d.body, d.text); err != nil {
			t.Errorf("%s: types: %v", name, err)
		}
		for _, version := range schema.Versions() {
			if !slices.Contains(schema.Names(version), d.body) {
				continue
			}
			if err := schema.Validate(version, d.body, []byte(d.text)); err != nil {
				t.Errorf("%s: schema of %s: %v", name, version, err)
			}
		}
	}
}
