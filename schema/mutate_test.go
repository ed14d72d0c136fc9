package schema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// place is a member or an item of a document.
type place struct {
	in   any // map[string]any or []any
	name string
	i    int
}

func (p place) set(v any) {
	if m, ok := p.in.(map[string]any); ok {
		m[p.name] = v
		return
	}
	p.in.([]any)[p.i] = v
}

func (p place) get() any {
	if m, ok := p.in.(map[string]any); ok {
		return m[p.name]
	}
	return p.in.([]any)[p.i]
}

// places lists what a document has, in a fixed order.
func places(v any) []place {
	var out []place
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, place{in: v, name: name})
			out = append(out, places(v[name])...)
		}
	case []any:
		for i := range v {
			out = append(out, place{in: v, i: i})
			out = append(out, places(v[i])...)
		}
	}
	return out
}

// objects lists the objects of a document, itself first.
func objects(v any) []map[string]any {
	var out []map[string]any
	switch v := v.(type) {
	case map[string]any:
		out = append(out, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, objects(v[name])...)
		}
	case []any:
		for _, item := range v {
			out = append(out, objects(item)...)
		}
	}
	return out
}

// values are what a place is changed to: every JSON type, the edges of every
// rule, every enum.
var values = parseAll(`null`, `true`, `false`, `0`, `1`, `-1`, `1.5`, `4`, `9007199254740991`, `9007199254740992`, `1e300`,
	`""`, `" "`, `"x"`, `"é"`, `{}`, `[]`, `[null]`, `[""]`, `[{}]`, `{"a":null}`, `{"a":"b"}`,
	`"0.2"`, `"0.3"`, `"0.4"`, `"0.03"`, `"0.10"`, `"1.0"`, `"0.4\n"`,
	`"2026-06-04T15:48:30Z"`, `"2026-02-30T15:48:30Z"`, `"2026-06-04T15:48:30.5+14:00"`, `"2026-06-04 15:48:30Z"`,
	`"https://x.example/a?b#c"`, `"//x.example"`, `"mailto:a"`, `"https://x.example/%zz"`, `"https://é.example/"`,
	`"human:a"`, `"agent:a"`, `"system:a"`, `"human:"`, `"human:a\nb"`, `"system:default_on_expire"`, `"dog:a"`,
	`"notify"`, `"ask"`, `"task"`, `"directive"`, `"ack"`, `"select"`, `"input"`, `"confirm"`, `"push"`, `"pull"`,
	`"hmac"`, `"bearer"`, `"apikey"`, `"low"`, `"cli"`, `"text"`, `"data"`, `"file"`,
	`"open"`, `"delivered"`, `"answered"`, `"declined"`, `"cancelled"`, `"expired"`, `"completed"`, `"dismissed"`,
	`"online"`, `"offline"`, `"unknown"`, `"delivered-to-agent"`, `"acknowledged"`,
	`{"mode":"confirm"}`, `{"instructions":""}`, `{"kind":"text","text":""}`, `{"uri":"https://x.example/"}`,
	`{"enabled":false}`, `{"scheme":"hmac","secret_ref":"env:A"}`, `{"value":"a","label":"b"}`,
	`{"text":"a"}`, `{"actor":"human:a","resolved_at":"2026-06-04T15:48:30Z"}`, `{"state":"delivered-to-agent"}`)

// added are the values of a member that was not there.
var added = parseAll(`null`, `""`, `{}`)

// names are what is added: every member that some body gives a meaning to.
var names = func() []string {
	set := map[string]bool{"unknown": true, "Title": true, "default_on_expire": true, "checklist": true, "delivery": true}
	for _, d := range documents {
		for _, o := range objects(parseAll(d.text)[0]) {
			for name := range o {
				set[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}()

func parseAll(texts ...string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &out[i]); err != nil {
			panic(text)
		}
	}
	return out
}

func render(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// clone keeps a document from coming to contain itself, and the tables whole.
func clone(v any) any { return parseAll(render(v))[0] }

// disagree returns how types and schemas differ on a body, or nothing.
func disagree(body, text string) string {
	err := typed(body, text)
	for _, version := range schema.Versions() {
		if version < schema.Versions()[2] && laterShapes(body) || version == types.V02 && body != schema.Response {
			continue
		}
		refused := schema.Validate(version, body, []byte(text))
		switch {
		case (err == nil) == (refused == nil):
		case err != nil && typesAlone(err):
		default:
			return "types: " + errText(err) + "\nschema of " + version + ": " + errText(refused)
		}
	}
	return ""
}

// laterShapes reports whether 0.4 gives meaning to members of the body that an
// earlier schema ignores.
func laterShapes(body string) bool {
	switch body {
	case schema.Message, schema.Response, schema.SubmitAck, schema.ErrorBody:
		return false
	}
	return true
}

// typesAlone reports whether err is of one of the rules in typesOnly.
func typesAlone(err error) bool {
	text := err.Error()
	return strings.Contains(text, "repeats an earlier option's") ||
		strings.Contains(text, "response.in_reply_to is not the id") ||
		strings.Contains(text, "response.resolution is ")
}

func errText(err error) string {
	if err == nil {
		return "accepted"
	}
	return err.Error()
}

func TestTypesAndSchemasAgreeOnEverySingleChange(t *testing.T) {
	tried := 0
	for _, name := range documentNames {
		d := documents[name]
		fresh := func() any { return parseAll(d.text)[0] }
		try := func(what string, v any) {
			if tried++; testing.Short() && tried%8 != 0 {
				return
			}
			if text := render(v); disagree(d.body, text) != "" {
				t.Errorf("%s, %s:\n%s\n%s", name, what, text, disagree(d.body, text))
			}
		}
		for i := range places(fresh()) {
			for j := range values {
				v := fresh()
				places(v)[i].set(values[j])
				try("change "+strconv.Itoa(i), v)
			}
			v := fresh()
			if p := places(v)[i]; p.name != "" {
				delete(p.in.(map[string]any), p.name)
				try("drop "+p.name, v)
			}
		}
		for i := range objects(fresh()) {
			for _, member := range names {
				for _, value := range added {
					v := fresh()
					o := objects(v)[i]
					if _, there := o[member]; there {
						continue
					}
					o[member] = value
					try("add "+member, v)
				}
			}
		}
	}
	if tried < 10_000 {
		t.Fatalf("only %d changes were tried", tried)
	}
}

// apply runs a program of changes, three bytes each.
func apply(v any, program []byte) any {
	for ; len(program) >= 3; program = program[3:] {
		op, at, what := program[0], int(program[1]), int(program[2])
		all := places(v)
		if len(all) == 0 {
			return v
		}
		p := all[at%len(all)]
		switch op % 4 {
		case 0:
			p.set(clone(values[what%len(values)]))
		case 1:
			if p.name != "" {
				delete(p.in.(map[string]any), p.name)
			}
		case 2:
			os := objects(v)
			os[at%len(os)][names[what%len(names)]] = clone(values[(what+at)%len(values)])
		case 3:
			p.set(clone(all[what%len(all)].get()))
		}
	}
	return v
}

func FuzzTypesAndSchemasAgree(f *testing.F) {
	corpus := seeds.For(f)
	for i := range documentNames {
		for _, program := range []string{"", "\x00\x01\x0b", "\x01\x03\x00", "\x02\x00\x09", "\x03\x02\x05\x01\x04\x00"} {
			corpus.Add(uint8(i), []byte(program))
		}
	}
	corpus.Counted(5 * len(documents))
	f.Fuzz(func(t *testing.T, which uint8, program []byte) {
		if len(program) > 30 {
			return
		}
		d := documents[documentNames[int(which)%len(documentNames)]]
		text := render(apply(parseAll(d.text)[0], program))
		if len(text) > 1<<16 {
			return
		}
		if diff := disagree(d.body, text); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	})
}
