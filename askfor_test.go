package ma2h_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

type level string

// everything has a field of each kind and each tag.
type everything struct {
	Reason  string  `json:"reason" jsonschema:"why it should be held" ma2h:"minlen=1,maxlen=80"`
	Level   level   `json:"level" ma2h:"enum=low|high"`
	Token   string  `json:"token,omitempty" ma2h:"sensitive"`
	Score   int     `json:"score" ma2h:"min=1,max=9"`
	Small   int8    `json:"small" ma2h:"max=300"`
	Half    int16   `json:"half"`
	Mid     int32   `json:"mid"`
	Big     int64   `json:"big"`
	Count   uint    `json:"count"`
	Byte    uint8   `json:"byte"`
	Words   uint16  `json:"words"`
	Long    uint32  `json:"long"`
	Huge    uint64  `json:"huge,omitzero"`
	Share   float64 `json:"share" ma2h:"min=0, max=1"`
	Ratio   float32 `json:"ratio"`
	Sure    bool    `json:"sure"`
	Maybe   *string `json:"maybe"`
	Perhaps *int    `json:"perhaps" ma2h:"min=-5"`
	Plain   string
	hidden  int
	Skipped []int `json:"-"`
}

const everythingSchema = `{
  "type": "object",
  "properties": {
    "reason": {"type": "string", "description": "why it should be held", "minLength": 1, "maxLength": 80},
    "level": {"type": "string", "enum": ["low", "high"]},
    "token": {"type": "string", "x-ma2h-sensitive": true},
    "score": {"type": "integer", "minimum": 1, "maximum": 9},
    "small": {"type": "integer", "minimum": -128, "maximum": 127},
    "half": {"type": "integer", "minimum": -32768, "maximum": 32767},
    "mid": {"type": "integer", "minimum": -2147483648, "maximum": 2147483647},
    "big": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
    "count": {"type": "integer", "minimum": 0, "maximum": 9007199254740991},
    "byte": {"type": "integer", "minimum": 0, "maximum": 255},
    "words": {"type": "integer", "minimum": 0, "maximum": 65535},
    "long": {"type": "integer", "minimum": 0, "maximum": 4294967295},
    "huge": {"type": "integer", "minimum": 0, "maximum": 9007199254740991},
    "share": {"type": "number", "minimum": 0, "maximum": 1},
    "ratio": {"type": "number", "minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38},
    "sure": {"type": "boolean"},
    "maybe": {"type": "string"},
    "perhaps": {"type": "integer", "minimum": -5, "maximum": 9007199254740991},
    "Plain": {"type": "string"}
  },
  "required": ["reason", "level", "score", "small", "half", "mid", "big", "count", "byte", "words", "long", "share", "ratio", "sure", "Plain"],
  "additionalProperties": false
}`

const everythingAnswer = `{"reason":"é","level":"high","score":9,"small":-128,"half":1,"mid":1,"big":9007199254740991,"count":0,"byte":255,` +
	`"words":1,"long":1,"share":0.5,"ratio":1.5,"sure":true,"perhaps":-5,"Plain":"p"}`

func ask(key string) ma2h.Ask {
	return ma2h.Ask{Title: "Why hold?", IdempotencyKey: key, AllowedResolvers: []string{alice}}
}

// req: ASK-03 ASK-09 ENV-06
func TestAStructIsTheSchemaOfItsQuestion(t *testing.T) {
	_ = everything{hidden: 0}
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ack, err := ma2h.SubmitFor[everything](t.Context(), c, ask("k"))
		mustNot(t, err)
		m, err := c.Message(t.Context(), ack.ID)
		mustNot(t, err)
		var got, want any
		mustNot(t, json.Unmarshal(m.Wire.Request.Schema, &got))
		mustNot(t, json.Unmarshal([]byte(everythingSchema), &want))
		a, _ := json.MarshalIndent(got, "", " ")
		b, _ := json.MarshalIndent(want, "", " ")
		if string(a) != string(b) {
			t.Errorf("schema\n%s\nwant\n%s", a, b)
		}
		in, err := schema.CompileInput(m.Wire.Request.Schema)
		mustNot(t, err)
		if s := in.Sensitive(); len(s) != 1 || s[0] != "token" {
			t.Errorf("sensitive: %v", s)
		}
		mustNot(t, hub.Answer(ack.ID, types.Raw(everythingAnswer), ma2htest.Comment("because"), ma2htest.Edited()))
		answer, err := ma2h.AwaitFor[everything](t.Context(), c, ack.ID, alice)
		mustNot(t, err)
		v := answer.Value
		if v.Reason != "é" || v.Level != "high" || v.Score != 9 || v.Small != -128 || v.Big != 1<<53-1 || v.Byte != 255 || v.Share != 0.5 ||
			!v.Sure || v.Maybe != nil || *v.Perhaps != -5 || v.Plain != "p" {
			t.Errorf("%+v", v)
		}
		if answer.Actor != alice || !answer.At.Equal(time.Now()) || answer.Comment != "because" || !answer.Edited || answer.Defaulted || answer.MessageID != ack.ID || answer.ResolutionID == "" {
			t.Errorf("%v by %s at %s", answer, answer.Actor, answer.At)
		}
	})
}

type inner struct{ X string }
type mark string
type own struct{ s string }

func (o *own) UnmarshalText(b []byte) error { o.s = string(b); return nil }

type digits int

func (d *digits) UnmarshalJSON([]byte) error { return nil }

type inside struct{ N int }

// refusedFor asks for a T of a Hub that would take anything.
func refusedFor[T any](t *testing.T, field string) {
	t.Helper()
	s := always(202, accepted)
	c := connect(t, s.config())
	_, err := ma2h.AskFor[T](t.Context(), c, ask("k"))
	var none T
	fe, ok := errors.AsType[*ma2h.FieldError](err)
	if !ok || !strings.Contains(fe.Field, field) || fe.Section != "§5.2" {
		t.Errorf("%T: %v, want a FieldError on %s", none, err, field)
	}
	if s.calls.Load() != 0 {
		t.Errorf("%T: %d requests", none, s.calls.Load())
	}
	_, err = ma2h.ReadFor[T](pulled(t, view()), alice)
	if fe, ok := errors.AsType[*ma2h.FieldError](err); !ok || !strings.Contains(fe.Field, field) {
		t.Errorf("%T: read %v", none, err)
	}
}

// req: ASK-03
func TestATypeThatIsNotFlatIsRefusedBeforeAnythingIsSent(t *testing.T) {
	refusedFor[string](t, "string")
	refusedFor[*everything](t, "")
	refusedFor[map[string]string](t, "")
	refusedFor[any](t, "")
	refusedFor[struct{ F inner }](t, ".F")
	refusedFor[struct{ F *inner }](t, ".F")
	refusedFor[struct{ F []string }](t, ".F")
	refusedFor[struct{ F [2]int }](t, ".F")
	refusedFor[struct{ F map[string]int }](t, ".F")
	refusedFor[struct{ F any }](t, ".F")
	refusedFor[struct{ F func() }](t, "")
	refusedFor[struct{ F chan int }](t, "")
	refusedFor[struct{ F complex128 }](t, "")
	refusedFor[struct{ F **string }](t, ".F")
	refusedFor[struct{ F uintptr }](t, ".F")
	refusedFor[struct{ F []byte }](t, ".F")
	refusedFor[struct{ F json.RawMessage }](t, ".F")
	refusedFor[struct{ inside }](t, ".inside")
	refusedFor[struct{ *inner }](t, ".inner")
	refusedFor[struct{ mark }](t, ".mark")
	refusedFor[struct {
		inner `json:"named"`
	}](t, ".inner")
	// Names that the decoder reads otherwise, or that are there twice.
	refusedFor[struct {
		F string `json:"'a b'"`
	}](t, ".F")
	refusedFor[struct {
		E string `json:"F"`
		F int
	}](t, ".F")
	refusedFor[struct {
		mark
		F int `json:"mark"`
	}](t, ".")
	// Types that decode from something else than their kind.
	refusedFor[struct{ F time.Time }](t, ".F")
	refusedFor[struct{ F time.Duration }](t, ".F")
	refusedFor[struct{ F own }](t, ".F")
	refusedFor[struct{ F digits }](t, ".F")
	refusedFor[struct{ F *digits }](t, ".F")
	refusedFor[struct {
		F int `json:"f,string"`
	}](t, ".F")
	refusedFor[struct {
		F int `json:"f,format:x"`
	}](t, ".F")
	// Tags that say nothing, or not that.
	refusedFor[struct {
		F string `ma2h:"min=1"`
	}](t, ".F")
	refusedFor[struct {
		F int `ma2h:"min=x"`
	}](t, ".F")
	refusedFor[struct {
		F float64 `ma2h:"max=NaN"`
	}](t, ".F")
	refusedFor[struct {
		F float64 `ma2h:"min=-Inf"`
	}](t, ".F")
	refusedFor[struct {
		F int `ma2h:"minlen=1"`
	}](t, ".F")
	refusedFor[struct {
		F string `ma2h:"maxlen=-1"`
	}](t, ".F")
	refusedFor[struct {
		F string `ma2h:"maxlen=x"`
	}](t, ".F")
	refusedFor[struct {
		F int `ma2h:"enum=1|2"`
	}](t, ".F")
	refusedFor[struct {
		F string `ma2h:"colour=red"`
	}](t, ".F")
	refusedFor[struct {
		F string `ma2h:"sensitiv"`
	}](t, ".F")
}

func TestAQuestionOfATypeHasNoOtherRequest(t *testing.T) {
	s := always(202, accepted)
	q := ask("k")
	q.Request = ma2h.Confirm()
	_, err := ma2h.SubmitFor[inner](t.Context(), connect(t, s.config()), q)
	wantsField(t, err, "Ask.Request")
	q = ask("k")
	q.AllowedResolvers = nil
	_, err = ma2h.AskFor[inner](t.Context(), connect(t, s.config()), q)
	wants(t, err, ma2h.ErrNoResolver)
	_, err = ma2h.AwaitFor[inner](t.Context(), connect(t, s.config()), "msg_1")
	wants(t, err, ma2h.ErrNoResolver)
	_, err = ma2h.SubmitFor[inner](t.Context(), connect(t, s.config()), ask(""))
	wantsField(t, err, "IdempotencyKey")
	_, err = ma2h.AskFor[inner](t.Context(), connect(t, s.config(), func(c *ma2h.Config) { c.Rand = failing{} }), ask(""))
	if err == nil || !strings.Contains(err.Error(), "Rand") {
		t.Error(err)
	}
	if s.calls.Load() != 0 {
		t.Errorf("%d requests", s.calls.Load())
	}
}

type held struct {
	Reason string `json:"reason" ma2h:"enum=freeze|risk,maxlen=6"`
	Hours  int8   `json:"hours" ma2h:"min=1"`
	Note   string `json:"note,omitempty"`
}

// heldView is the GET body of an answer to a question for a held.
func heldView(value, actor, resolution string) string {
	s := view(`"mode":"confirm"`, `"mode":"input","schema":{"type":"object","properties":{"reason":{"type":"string"},"hours":{"type":"integer"}}}`,
		`"answered"`, `"`+resolution+`"`, `"human:alice","resolved`, `"`+actor+`","resolved`)
	if value == "" {
		return strings.Replace(s, `"value":"approve",`, "", 1)
	}
	return strings.Replace(s, `"value":"approve"`, `"value":`+value, 1)
}

// req: RES-05 RES-07 RES-08
func TestAnAnswerIsTakenOnlyIfItFitsTheQuestionAndWhoWasAsked(t *testing.T) {
	const good = `{"reason":"freeze","hours":24}`
	for _, tt := range []struct {
		name, value, actor, resolution string
		want                           error
	}{
		{"as it is", good, alice, "answered", nil},
		{"an integer written as a decimal", `{"reason":"freeze","hours":2.40e1}`, alice, "answered", nil},
		{"the default", good, "system:default_on_expire", "expired", nil},
		{"by another", good, "human:bob", "answered", ma2h.ErrActor},
		{"by an agent", good, "agent:alice", "answered", ma2h.ErrActor},
		{"by a system", good, "system:default_on_expire", "answered", ma2h.ErrActor},
		{"declined", "", alice, "declined", ma2h.ErrNoAnswer},
		{"cancelled", "", alice, "cancelled", ma2h.ErrNoAnswer},
		{"expired", "", "system:expired", "expired", ma2h.ErrNoAnswer},
		{"a default without a value", "", "system:default_on_expire", "expired", ma2h.ErrNoAnswer},
		{"expired by a human", good, alice, "expired", ma2h.ErrNoAnswer},
		{"expired by nobody known", good, "system:expired", "expired", ma2h.ErrNoAnswer},
		{"a string", `"freeze"`, alice, "answered", ma2h.ErrMalformed},
		{"an empty object", `{}`, alice, "answered", ma2h.ErrMalformed},
		{"a member that is not asked", `{"reason":"freeze","hours":24,"force":true}`, alice, "answered", ma2h.ErrMalformed},
		{"upper case", `{"Reason":"freeze","hours":24}`, alice, "answered", ma2h.ErrMalformed},
		{"null", `{"reason":null,"hours":24}`, alice, "answered", ma2h.ErrMalformed},
		{"not in the enum", `{"reason":"mood","hours":24}`, alice, "answered", ma2h.ErrMalformed},
		{"below the bound", `{"reason":"risk","hours":0}`, alice, "answered", ma2h.ErrMalformed},
		{"over what the field holds", `{"reason":"risk","hours":128}`, alice, "answered", ma2h.ErrMalformed},
		{"a fraction", `{"reason":"risk","hours":1.5}`, alice, "answered", ma2h.ErrMalformed},
		{"a number as text", `{"reason":"risk","hours":"24"}`, alice, "answered", ma2h.ErrMalformed},
		{"a default that does not fit", `{"reason":"mood","hours":24}`, "system:default_on_expire", "expired", ma2h.ErrMalformed},
	} {
		c := connect(t, always(200, heldView(tt.value, tt.actor, tt.resolution)).config())
		a, err := ma2h.AwaitFor[held](t.Context(), c, "msg_1", alice)
		if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil && (a.Value != held{Reason: "freeze", Hours: 24} || a.Defaulted != (tt.resolution == "expired") || a.Actor != tt.actor) {
			t.Errorf("%s: %+v", tt.name, a.Value)
		}
		if err != nil && a != (ma2h.Answer[held]{}) {
			t.Errorf("%s: an error came with %+v", tt.name, a)
		}
		if no, ok := errors.AsType[*ma2h.NoAnswerError](err); ok && (no.ID != "msg_1" || string(no.Resolution) != tt.resolution) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "mood") {
			t.Errorf("%s: the answer is in %v", tt.name, err)
		}
	}
	if _, err := ma2h.ReadFor[held](nil, alice); !errors.Is(err, ma2h.ErrNoAnswer) {
		t.Error(err)
	}
	if _, err := ma2h.ReadFor[held](pulled(t, heldView(good, alice, "answered"))); !errors.Is(err, ma2h.ErrActor) {
		t.Error("nobody was asked: ", err)
	}
}

func TestATypedQuestionInOneCall(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		go func() {
			m, err := hub.Next(t.Context())
			if err == nil {
				err = hub.Answer(m.ID, held{Reason: "risk", Hours: 4})
			}
			if err != nil {
				t.Error(err)
			}
		}()
		a, err := ma2h.AskFor[held](t.Context(), c, ask(""))
		if err != nil || a.Value != (held{Reason: "risk", Hours: 4}) || a.Defaulted {
			t.Errorf("%+v %v", a.Value, err)
		}
	})
}

// wide has one field more than a flat schema may have properties.
type wide struct {
	F0, F1, F2, F3, F4, F5, F6, F7, F8, F9, F10, F11, F12, F13, F14, F15,
	F16, F17, F18, F19, F20, F21, F22, F23, F24, F25, F26, F27, F28, F29, F30, F31,
	F32, F33, F34, F35, F36, F37, F38, F39, F40, F41, F42, F43, F44, F45, F46, F47,
	F48, F49, F50, F51, F52, F53, F54, F55, F56, F57, F58, F59, F60, F61, F62, F63,
	F64, F65, F66, F67, F68, F69, F70, F71, F72, F73, F74, F75, F76, F77, F78, F79,
	F80, F81, F82, F83, F84, F85, F86, F87, F88, F89, F90, F91, F92, F93, F94, F95,
	F96, F97, F98, F99, F100, F101, F102, F103, F104, F105, F106, F107, F108, F109, F110, F111,
	F112, F113, F114, F115, F116, F117, F118, F119, F120, F121, F122, F123, F124, F125, F126, F127,
	F128 int
}

// What the schema compiler refuses is refused here too, before a human sees it.
func TestATypeWhoseSchemaDoesNotCompileIsRefused(t *testing.T) {
	s := always(202, accepted)
	if _, err := ma2h.AskFor[wide](t.Context(), connect(t, s.config()), ask("k")); err == nil || !strings.Contains(err.Error(), "ma2h_test.wide") || s.calls.Load() != 0 {
		t.Errorf("%d requests: %v", s.calls.Load(), err)
	}
}

// req: VER-06
func TestAnAnswerThatNoSignatureCoversIsNotTaken(t *testing.T) {
	body := strings.NewReplacer(`"0.3"`, `"0.2"`, `"hold"`, `{"reason":"risk","hours":4}`).Replace(trustBody)
	v := trustVerifier(t, openReplay{}, func(c *ma2h.VerifierConfig) { c.AllowUnboundPayload = true })
	r, err := v.Response(t.Context(), hubSigner{}.header(t, "response", body, trustUnix, "j"), []byte(body))
	mustNot(t, err)
	_, err = ma2h.ReadFor[held](r, alice)
	wants(t, err, ma2h.ErrUnboundPayload)
}

// req: ASK-06 RES-07
func TestADefaultIsTakenOnlyWhereTheQuestionHasOne(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		q := ask("")
		q.ExpiresAt = time.Now().Add(time.Hour)
		q.DefaultOnExpire = held{Reason: "risk", Hours: 2}
		a, err := ma2h.AskFor[held](t.Context(), c, q)
		if err != nil || !a.Defaulted || a.Value != (held{Reason: "risk", Hours: 2}) || a.Actor != types.ActorDefaultOnExpire {
			t.Errorf("%+v %v", a, err)
		}
		q.ExpiresAt = time.Now().Add(time.Hour)
		q.DefaultOnExpire = nil
		_, err = ma2h.AskFor[held](t.Context(), c, q)
		wants(t, err, ma2h.ErrNoAnswer)
		q.ExpiresAt = time.Now().Add(time.Hour)
		for _, bad := range []any{held{Reason: "mood", Hours: 2}, held{Reason: "risk"}, "risk", 7, map[string]any{"reason": "risk", "hours": 2, "x": 1}} {
			before := count(hub, ma2htest.Submit)
			q.DefaultOnExpire = bad
			_, err := ma2h.AskFor[held](t.Context(), c, q)
			if err == nil || !strings.Contains(err.Error(), "DefaultOnExpire") && !strings.Contains(err.Error(), "default_on_expire") || strings.Contains(err.Error(), "mood") {
				t.Errorf("%v: %v", bad, err)
			}
			hub.RequireRequests(t, ma2htest.Submit, before)
		}
	})
	// A Hub that makes one up is not believed.
	c := connect(t, over(roundTrip(func(r *http.Request) (*http.Response, error) {
		switch {
		case strings.HasSuffix(r.URL.Path, "ma2h"):
			return canned(404, ""), nil
		case r.Body != nil:
			_ = r.Body.Close()
			return canned(202, accepted), nil
		}
		return canned(200, heldView(`{"reason":"freeze","hours":24}`, "system:default_on_expire", "expired")), nil
	})))
	if _, err := ma2h.AskFor[held](t.Context(), c, ask("k")); !errors.Is(err, ma2h.ErrNoAnswer) || !errors.Is(err, ma2h.ErrProtocol) {
		t.Error(err)
	}
}

// report: B033
func TestATypedQuestionOfAnAgentThatExits(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ack, err := ma2h.SubmitFor[held](t.Context(), c, ask("k"))
		mustNot(t, err)
		mustNot(t, hub.Answer(ack.ID, map[string]any{"reason": "risk", "hours": 3, "note": "n"}))
		second := connect(t, hub.Config(asker))
		a, err := ma2h.AwaitFor[held](t.Context(), second, ack.ID, alice)
		if err != nil || a.Value != (held{"risk", 3, "n"}) {
			t.Errorf("%+v %v", a.Value, err)
		}
		r, err := second.Wait(t.Context(), ack.ID)
		mustNot(t, err)
		b, err := ma2h.ReadFor[held](r, "human:bob", alice)
		if err != nil || b != a {
			t.Errorf("%+v %v", b, err)
		}
	})
}

// req: ASK-08
func TestTheAgentItselfMayBeAsked(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		q := ask("k")
		q.AllowedResolvers = []string{ma2h.ResolverSelf}
		ack, err := ma2h.SubmitFor[held](t.Context(), c, q)
		mustNot(t, err)
		if q.AllowedResolvers[0] != ma2h.ResolverSelf {
			t.Error("the caller's list was changed")
		}
		mustNot(t, hub.Answer(ack.ID, held{Reason: "risk", Hours: 1}, ma2htest.By("agent:"+asker)))
		a, err := ma2h.AwaitFor[held](t.Context(), c, ack.ID, ma2h.ResolverSelf)
		if err != nil || a.Actor != "agent:"+asker {
			t.Errorf("%v", err)
		}
	})
}

// The reference is one that could be followed, which makes it a test.
//
// req: TEL-04, TEL-05
func TestAReferenceToASecretStaysOneAndIsNotFollowed(t *testing.T) {
	var followed atomic.Int64
	vault := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer vault.Close()
	ref := vault.URL + "/kv"
	value := func(token string) string { return `{"reason":"risk","token":` + token + `}` }
	hub := always(200, heldView(value(`{"secret_ref":"`+ref+`"}`), alice, "answered"))
	m, err := connect(t, hub.config()).Message(t.Context(), "msg_1")
	mustNot(t, err)
	type target struct {
		Reason string          `json:"reason"`
		Token  types.SecretRef `json:"token"`
	}
	var got target
	if err := m.Response.Decode(&got); err != nil || got.Token.Ref != ref || got.Reason != "risk" {
		t.Errorf("%v, %v", got.Token, err)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", got.Token, got.Token, got.Token, &got.Token); s != strings.Repeat(" SecretRef{ref="+types.Quote(ref)+"}", 4)[1:] {
		t.Error(s)
	}
	if b, err := types.Encode(got.Token); err != nil || string(b) != `{"secret_ref":"`+ref+`"}` {
		t.Errorf("%s, %v", b, err)
	}
	if m.Response.Answered(ref) || m.Response.Answered("") {
		t.Error("a reference is the answer of a select")
	}
	// A text that was asked for is not looked up behind a reference.
	type asked struct {
		Reason string `json:"reason"`
		Token  string `json:"token"`
	}
	_, err = ma2h.ReadFor[asked](m.Response, alice)
	wants(t, err, ma2h.ErrMalformed)
	wants(t, m.Response.Decode(new(asked)), ma2h.ErrMalformed)

	for _, token := range []string{
		`{}`, `{"secret_ref":""}`, `{"secret_ref":null}`, `{"secret_ref":1}`, `{"Secret_Ref":"x"}`, `{"secret_ref":"x","secret":"y"}`,
		`"` + ref + `"`, `null`, `[]`, `1`,
	} {
		got := target{}
		err := pulled(t, heldView(value(token), alice, "answered")).Decode(&got)
		wants(t, err, ma2h.ErrMalformed)
		if got.Token.Ref != "" || err != nil && strings.Contains(err.Error(), ref) {
			t.Errorf("%s: %v, %v", token, got.Token, err)
		}
	}
	if followed.Load() != 0 || hub.calls.Load() != 1 {
		t.Errorf("%d requests to where the reference points, %d to the Hub", followed.Load(), hub.calls.Load())
	}
}

func TestAWaitForATypedAnswerEndsWithItsContext(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := ma2h.AskFor[held](ctx, c, ask(""))
		wants(t, err, context.DeadlineExceeded)
		hub.RequireMessages(t, 1)
		// Each call without a key is a question of its own.
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = ma2h.AskFor[held](ctx, c, ask(""))
		hub.RequireMessages(t, 2)
	})
}

// req: RES-05
func TestDecodeTakesExactlyTheMembersOfTheTarget(t *testing.T) {
	r := pulled(t, heldView(`{"reason":"x","hours":200}`, alice, "answered"))
	var got struct {
		Reason string `json:"reason"`
		Hours  int    `json:"hours"`
	}
	if err := r.Decode(&got); err != nil || got.Hours != 200 {
		t.Errorf("%+v %v", got, err)
	}
	for _, target := range []any{
		new(struct {
			Reason string `json:"reason"`
		}),
		new(struct {
			Reason string `json:"Reason"`
			Hours  int    `json:"hours"`
		}),
		new(held), new(string), new([]int),
	} {
		err := r.Decode(target)
		wants(t, err, ma2h.ErrMalformed)
		if strings.Contains(err.Error(), "200") {
			t.Error(err)
		}
	}
	if s := strconv.Quote(r.Actor()); s != `"human:alice"` {
		t.Error(s)
	}
	if r.Answered("") || r.Edited() {
		t.Error("an object is an empty text, or edited")
	}
	text := pulled(t, view(`"in_reply_to"`, `"state":null,"in_reply_to"`))
	wants(t, text.Decode(&got), ma2h.ErrMalformed)
	wants(t, text.Decode(new(string)), ma2h.ErrMalformed)
	if text.State() != nil {
		t.Error("a null state is there")
	}
}
