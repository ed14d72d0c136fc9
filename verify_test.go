package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/vectors"
	"github.com/ma2h/ma2h-go/types"
)

func trustVectors(t testing.TB) []vectors.Vector {
	t.Helper()
	vs, err := vectors.Load("internal/signed/testdata/vectors", vectors.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

func vectorVerifier(t testing.TB, v *vectors.Vector, replay ReplayStore) *Verifier {
	t.Helper()
	var keys []Key
	for _, k := range v.Keys {
		if k.Alg == vectors.HMAC {
			keys = append(keys, HMACKey(k.Secret))
		} else {
			keys = append(keys, Ed25519KeyHex(k.Public))
		}
	}
	return trustVerifier(t, replay, func(c *VerifierConfig) {
		*ringOf(c, v.Kind) = Keys(keys...)
		c.AllowUnboundPayload = v.AllowUnboundPayload
		c.Now = func() time.Time { return time.Unix(v.Now, 999_999_999) }
		if v.CallbackURL != "" {
			c.CallbackURL = v.CallbackURL
		}
		if v.AgentID != "" {
			c.AgentID = v.AgentID
		}
	})
}

func ringOf(c *VerifierConfig, kind string) *KeyRing {
	return map[string]*KeyRing{vectors.Response: &c.Keys, vectors.Directive: &c.DirectiveKeys, vectors.Ack: &c.AckKeys}[kind]
}

func present(t testing.TB, v *Verifier, kind, head string, body []byte) error {
	t.Helper()
	h := http.Header{}
	h.Set("MA2H-Signature", head)
	var err error
	switch kind {
	case vectors.Response:
		_, err = v.Response(t.Context(), h, body)
	case vectors.Directive:
		_, err = v.Directive(t.Context(), h, body)
	default:
		_, err = v.Ack(t.Context(), h, body)
	}
	return err
}

// req: SIG-01 SIG-02 SIG-03 SIG-04 SIG-05 SIG-06 SIG-07 SIG-08 SIG-09 SIG-10 SIG-12 SIG-13 SIG-14
// req: SGR-01 SGR-02 SGR-03 SGR-04 SGD-01 SGA-01 CTX-R2 CTX-R3 CTX-D CTX-A KEY-01 RPL-02 FH-17
// req: HND-10 VER-01 VER-02 VER-03 VER-04 AMB-01 AMB-02 dp-001 dp-003 dp-005 dp-006 dp-008 dp-009
// report: B034 B036 B037 B045 B046 B051 B052 B054 B055 B057 B058 B067 B072
func TestEveryVectorGetsItsVerdictFromTheVerifier(t *testing.T) {
	want := map[string]error{
		vectors.Header: ErrSignature, vectors.Malformed: ErrMalformed, vectors.Stale: ErrStale, vectors.Version: ErrVersion,
		vectors.Unbound: ErrUnboundPayload, vectors.Signature: ErrSignature,
	}
	seenVerdicts := map[string]int{}
	for _, v := range trustVectors(t) {
		if v.Pins != "" {
			continue
		}
		seenVerdicts[v.Expect]++
		t.Run(v.Name, func(t *testing.T) {
			store := newSpyStore(t, func() time.Time { return time.Unix(v.Now, 0) })
			verifier := vectorVerifier(t, &v, store)
			err := present(t, verifier, v.Kind, v.Header, v.Bytes())
			if v.Expect == vectors.OK {
				if err != nil {
					t.Fatal(err)
				}
				refusedAs(t, present(t, verifier, v.Kind, v.Header, v.Bytes()), ErrReplay)
				return
			}
			refusedAs(t, err, want[v.Expect])
			if (v.Expect == vectors.Signature) != (err == ErrMAC) {
				t.Errorf("%v does not tell a wrong signature from a bad header", err)
			}
			if d := store.diary(); d != nil {
				t.Errorf("the store was asked: %v", d)
			}
		})
	}
	for _, verdict := range []string{vectors.OK, vectors.Header, vectors.Malformed, vectors.Stale, vectors.Version, vectors.Unbound, vectors.Signature} {
		if seenVerdicts[verdict] == 0 {
			t.Errorf("no vector has the verdict %s", verdict)
		}
	}
}

// req: SIG-10 SIG-11 AMB-39
// report: B055
func TestTheWindowIsClosedOnBothSides(t *testing.T) {
	for _, window := range []time.Duration{0, 120 * time.Second, 30 * time.Second, time.Second} {
		edge := int64(window / time.Second)
		if edge == 0 {
			edge = 120
		}
		for off, ok := range map[int64]bool{-edge - 1: false, -edge: true, 0: true, edge: true, edge + 1: false, -1 << 33: false, 1 << 33: false} {
			for _, part := range []int64{0, 999_999_999} {
				store := newSpyStore(t, newTrustClock().Now)
				v := trustVerifier(t, store, func(c *VerifierConfig) {
					c.Window = window
					c.Now = func() time.Time { return time.Unix(trustUnix, part) }
				})
				at := trustUnix + off
				if at < 0 {
					continue
				}
				_, err := v.Response(t.Context(), hubSigner{}.header(t, "response", trustBody, at, "j"), []byte(trustBody))
				if ok {
					if err != nil {
						t.Errorf("window %s, t off by %d s: %v", window, off, err)
					}
					continue
				}
				refusedAs(t, err, ErrStale)
				if d := store.diary(); d != nil {
					t.Errorf("the store was asked: %v", d)
				}
			}
		}
	}
}

// report: B070
func TestADeliveryThatWaitedIsJudgedByWhenItCameIn(t *testing.T) {
	clock := newTrustClock()
	v := trustVerifier(t, newSpyStore(t, clock.Now), func(c *VerifierConfig) {
		c.Now = clock.Now
		c.Keys = Keys(HMACKey(trustSecret).Until(time.Unix(trustUnix+60, 0)))
	})
	h := hubSigner{}.header(t, "response", trustBody, trustUnix, "j")
	clock.Add(10 * time.Minute)
	_, err := v.Response(t.Context(), h, []byte(trustBody))
	refusedAs(t, err, ErrStale)
	came := clock.Now().Add(-10 * time.Minute)
	_, err = v.ReceivedAt(came.Add(121*time.Second)).Response(t.Context(), h, []byte(trustBody))
	refusedAs(t, err, ErrStale)
	_, err = v.ReceivedAt(came.Add(61*time.Second)).Response(t.Context(), h, []byte(trustBody)) // the key had ended by then
	refusedAs(t, err, ErrSignature)
	if _, err := v.ReceivedAt(came.Add(60*time.Second)).Response(t.Context(), h, []byte(trustBody)); err != nil {
		t.Error(err)
	}
	_, err = v.ReceivedAt(came).Response(t.Context(), h, []byte(trustBody))
	refusedAs(t, err, ErrReplay)
	_, err = v.Response(t.Context(), h, []byte(trustBody)) // the Verifier itself is as it was
	refusedAs(t, err, ErrStale)
}

// req: SIG-11 HND-02 AMB-39
// report: B070
func TestAVerifierRefusesABadConfiguration(t *testing.T) {
	good := VerifierConfig{Keys: Keys(HMACKey(trustSecret)), CallbackURL: trustURL, AgentID: trustAgent, Replay: openReplay{}}
	for _, row := range []struct {
		name, field string
		change      func(*VerifierConfig)
	}{
		{"no keys at all", "Keys", func(c *VerifierConfig) { c.Keys = KeyRing{} }},
		{"an empty ring", "Keys", func(c *VerifierConfig) { c.Keys = Keys() }},
		{"no agent id", "AgentID", func(c *VerifierConfig) { c.AgentID = "" }},
		{"an agent id of 513 bytes", "AgentID", func(c *VerifierConfig) { c.AgentID = strings.Repeat("a", limits.MaxIDLen+1) }},
		{"an agent id with a line end", "AgentID", func(c *VerifierConfig) { c.AgentID = "deploybot\ndev" }},
		{"no replay store", "Replay", func(c *VerifierConfig) { c.Replay = nil }},
		{"a negative window", "Window", func(c *VerifierConfig) { c.Window = -time.Second }},
		{"a window below a second", "Window", func(c *VerifierConfig) { c.Window = time.Second - 1 }},
		{"a window above the Hub's", "Window", func(c *VerifierConfig) { c.Window = limits.ReplayWindow + 1 }},
		{"a negative body bound", "MaxBody", func(c *VerifierConfig) { c.MaxBody = -1 }},
		{"no callback URL", "CallbackURL", func(c *VerifierConfig) { c.CallbackURL = "" }},
		{"a path as callback URL", "CallbackURL", func(c *VerifierConfig) { c.CallbackURL = "/ma2h/resume" }},
		{"a host as callback URL", "CallbackURL", func(c *VerifierConfig) { c.CallbackURL = "deploybot.example/ma2h" }},
		{"a host without a scheme", "CallbackURL", func(c *VerifierConfig) { c.CallbackURL = "//deploybot.example/ma2h" }},
		{"a scheme alone", "CallbackURL", func(c *VerifierConfig) { c.CallbackURL = "https:///ma2h" }},
		{"a callback URL with a blank at its end", "CallbackURL", func(c *VerifierConfig) { c.CallbackURL = trustURL + " " }},
		{"a callback URL with a line end", "CallbackURL", func(c *VerifierConfig) { c.CallbackURL = trustURL + "\n" }},
	} {
		cfg := good
		row.change(&cfg)
		v, err := NewVerifier(cfg)
		fe, ok := errors.AsType[*types.FieldError](err)
		if !ok || v != nil || fe.Field != "VerifierConfig."+row.field {
			t.Errorf("%s: %v, %v", row.name, v, err)
		}
	}
	for name, change := range map[string]func(*VerifierConfig){
		"the good one":             func(*VerifierConfig) {},
		"directives without a URL": func(c *VerifierConfig) { c.Keys, c.DirectiveKeys, c.CallbackURL = KeyRing{}, c.Keys, "" },
		"acks without a URL":       func(c *VerifierConfig) { c.Keys, c.AckKeys, c.CallbackURL = KeyRing{}, c.Keys, "" },
		"an id of 512 bytes":       func(c *VerifierConfig) { c.AgentID = strings.Repeat("a", limits.MaxIDLen) },
		"a window of a second":     func(c *VerifierConfig) { c.Window = time.Second },
		"a window of two minutes":  func(c *VerifierConfig) { c.Window = limits.ReplayWindow },
	} {
		cfg := good
		change(&cfg)
		if _, err := NewVerifier(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// req: SIG-03 GO-06
// report: B061
func TestASecondHeaderLineIsRefusedInEitherOrder(t *testing.T) {
	good := hubSigner{}.value(t, "response", trustBody, trustUnix, "j")
	forged := hubSigner{secret: "a secret of somebody else"}.value(t, "response", trustBody, trustUnix, "j")
	for name, h := range map[string]http.Header{
		"good, forged":        {"Ma2h-Signature": {good, forged}},
		"forged, good":        {"Ma2h-Signature": {forged, good}},
		"good twice":          {"Ma2h-Signature": {good, good}},
		"under two spellings": {"Ma2h-Signature": {good}, "ma2h-signature": {good}},
		"none":                {},
		"an empty list":       {"Ma2h-Signature": {}},
		"an empty line":       {"Ma2h-Signature": {""}},
	} {
		store := newSpyStore(t, newTrustClock().Now)
		_, err := trustVerifier(t, store).Response(t.Context(), h, []byte(trustBody))
		refusedAs(t, err, ErrSignature)
		if d := store.diary(); d != nil || err == ErrMAC {
			t.Errorf("%s: %v, store %v", name, err, d)
		}
	}
	for _, name := range []string{"Ma2h-Signature", "MA2H-Signature", "ma2h-signature"} {
		if _, err := trustVerifier(t, openReplay{}).Response(t.Context(), http.Header{name: {good}}, []byte(trustBody)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// req: JCS-04 JCS-05 JCS-07
// report: B036 B040 B067
func TestABodyThatIsNotStrictJSONIsRefusedAndNotRepaired(t *testing.T) {
	for name, edit := range map[string][2]string{
		"one invalid byte in the comment":  {"Let's", "Let\xff"},
		"a lone surrogate":                 {"Let's", `\ud83d`},
		"a duplicate member":               {`"value":"hold"`, `"value":"hold","value":"hold"`},
		"a duplicate in the unsigned part": {`"run_id":`, `"id":"x","run_id":`},
		"a duplicate that is escaped":      {`"value":"hold"`, `"value":"hold","\u0076alue":"hold"`},
		"a number past the doubles":        {`"value":"hold"`, `"value":{"n":1e400}`},
		"text after the object":            {`"state":{"sealed":"MA2HSEALv1.sample"}}`, `"state":{"sealed":"MA2HSEALv1.sample"}}x`},
		"a byte order mark":                {`{"ma2h`, "\ufeff" + `{"ma2h`},
		"65 levels":                        {`"sealed":"MA2HSEALv1.sample"`, `"sealed":` + strings.Repeat("[", 63) + strings.Repeat("]", 63)},
	} {
		body := strings.Replace(trustBody, edit[0], edit[1], 1)
		if body == trustBody {
			t.Fatalf("%s: nothing changed", name)
		}
		store := newSpyStore(t, newTrustClock().Now)
		_, err := trustVerifier(t, store).Response(t.Context(), hubSigner{}.header(t, "response", trustBody, trustUnix, "j"), []byte(body))
		refusedAs(t, err, ErrMalformed)
		if strings.Contains(err.Error(), "hold") || strings.Contains(err.Error(), "Let") {
			t.Errorf("%s: %v quotes the body", name, err)
		}
		if d := store.diary(); d != nil {
			t.Errorf("%s: the store was asked: %v", name, d)
		}
	}
	deep := []byte(strings.Repeat("[", 5_000_000) + strings.Repeat("]", 5_000_000))
	v := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.MaxBody = len(deep) })
	_, err := v.Response(t.Context(), hubSigner{}.header(t, "response", trustBody, trustUnix, "j"), deep)
	refusedAs(t, err, ErrMalformed)
}

// req: JCS-07
func TestTheBoundOnABodyIsInclusive(t *testing.T) {
	h := hubSigner{}.header(t, "response", trustBody, trustUnix, "j")
	for most, ok := range map[int]bool{len(trustBody): true, len(trustBody) - 1: false} {
		_, err := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.MaxBody = most }).Response(t.Context(), h, []byte(trustBody))
		if ok && err != nil {
			t.Error(err)
		}
		if !ok {
			refusedAs(t, err, ErrMalformed)
		}
	}
	padded := trustBody + strings.Repeat(" ", limits.MaxPushBody-len(trustBody))
	if _, err := trustVerifier(t, openReplay{}).Response(t.Context(), h, []byte(padded)); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
	_, err := trustVerifier(t, openReplay{}).Response(t.Context(), h, []byte(padded+" "))
	refusedAs(t, err, ErrMalformed)
}

// Each refusal says what it is about, and nothing of the content.
func TestAMalformedDeliverySaysWhatIsWrong(t *testing.T) {
	for name, row := range map[string]struct {
		old, with string
		genuine   bool // the signature is of what is sent
		says      string
	}{
		"too long":             {`}}`, `}}` + strings.Repeat(" ", 1<<20), false, "bytes, over 1048576"},
		"no JSON":              {`}}`, `}`, false, "not valid JSON at byte"},
		"no version":           {`"ma2h_version":"0.3",`, ``, false, "ma2h_version"},
		"no message":           {`"in_reply_to":"msg_01HZXASK0001",`, ``, false, "in_reply_to"},
		"a flag of a shape":    {`"edited":false`, `"edited":"no"`, true, "edited"},
		"a resolution of none": {`"answered"`, `"ignored"`, true, "resolution is ignored"},
	} {
		body := strings.Replace(trustBody, row.old, row.with, 1)
		signed := trustBody
		if row.genuine {
			signed = body
		}
		_, err := trustVerifier(t, openReplay{}).Response(t.Context(), hubSigner{}.header(t, "response", signed, trustUnix, "j"), []byte(body))
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// req: SGA-01
func TestAnAcknowledgmentIsReadOnceAndAsItWasSigned(t *testing.T) {
	store := newSpyStore(t, newTrustClock().Now)
	v := trustVerifier(t, store)
	h := hubSigner{}.header(t, "ack", trustAck, trustUnix, "j")
	ack, err := v.Ack(t.Context(), h, []byte(trustAck))
	if err != nil || ack.InReplyTo != "msg_1" || ack.By != "agent:deploybot/dev-team" || ack.Note != "on it" {
		t.Fatalf("%+v, %v", ack, err)
	}
	ack, err = v.Ack(t.Context(), h, []byte(trustAck))
	refusedAs(t, err, ErrReplay)
	if ack != nil {
		t.Errorf("a replay gives %+v", ack)
	}
	store.diary()
	ack, err = v.Ack(t.Context(), http.Header{}, []byte(trustAck))
	refusedAs(t, err, ErrSignature)
	if ack != nil || store.diary() != nil {
		t.Errorf("without a signature: %+v", ack)
	}
}

// What a store says of itself, of its caller's context or of a Hub stays what
// it is; anything else is a store that is not available.
func TestAnErrorOfAStoreIsOneThatCallersKnow(t *testing.T) {
	for _, e := range []error{
		context.Canceled, context.DeadlineExceeded, ErrUnsupported, &APIError{Status: 404}, ErrStoreFull, ErrStoreUnavailable, ErrLeaseLost, ErrOutcomeUnknown,
	} {
		wrapped := fmt.Errorf("store: %w", e)
		if got := StoreError(wrapped); got != wrapped {
			t.Errorf("%v became %v", wrapped, got)
		}
	}
	for _, e := range []error{errors.New("down"), ErrMalformed, ErrAlreadyActed, ErrReplay} {
		if got := StoreError(e); !errors.Is(got, ErrStoreUnavailable) || !errors.Is(got, e) {
			t.Errorf("%v became %v", e, got)
		}
	}
}

// The checks run in one order, so a delivery that breaks all of the rules is
// refused for the first.
//
// req: HND-04 AMB-11
// report: B069
func TestTheChecksOfADeliveryRunInOneOrder(t *testing.T) {
	asked := 0
	store := newSpyStore(t, newTrustClock().Now)
	v := trustVerifier(t, store, func(c *VerifierConfig) {
		c.DirectiveKeys = KeysFunc(func(context.Context) ([]Key, error) { asked++; return []Key{HMACKey(trustSecret)}, nil })
	})
	stale := int64(trustUnix - 1000)
	other := hubSigner{secret: "a secret of somebody else"}
	shapeless := strings.Replace(trustDirective, `"title":"Pause deploys"`, `"title":""`, 1)
	foreign := strings.Replace(trustDirective, `"to":"agent:deploybot/dev-team"`, `"to":"agent:other/bot"`, 1)
	oldMinor := strings.Replace(trustDirective, `"0.4"`, `"0.3"`, 1)
	good := hubSigner{}.value(t, "directive", trustDirective, trustUnix, "jti_good")
	staleHead := other.value(t, "directive", trustDirective, stale, "j")
	for _, row := range []struct {
		name, head, body string
		want             error
		asked            int
	}{
		{"header before body", "t=1", "{", ErrSignature, 0},
		{"body before window", staleHead, "{", ErrMalformed, 0},
		{"window before version", staleHead, oldMinor, ErrStale, 0},
		{"version before signature", other.value(t, "directive", oldMinor, trustUnix, "j"), oldMinor, ErrVersion, 0},
		{"signature before shape", other.value(t, "directive", shapeless, trustUnix, "j"), shapeless, ErrSignature, 1},
		{"signature before addressee", other.value(t, "directive", foreign, trustUnix, "j"), foreign, ErrSignature, 1},
		{"shape before addressee", hubSigner{}.value(t, "directive", strings.Replace(shapeless, "deploybot", "other", 1), trustUnix, "j"), strings.Replace(shapeless, "deploybot", "other", 1), ErrMalformed, 1},
		{"addressee before replay", hubSigner{}.value(t, "directive", foreign, trustUnix, "jti_good"), foreign, ErrAddressee, 1},
	} {
		asked = 0
		err := present(t, v, vectors.Directive, row.head, []byte(row.body))
		refusedAs(t, err, row.want)
		if d := store.diary(); d != nil || asked != row.asked {
			t.Errorf("%s: the store was asked %v, the key source %d times", row.name, d, asked)
		}
	}
	if err := present(t, v, vectors.Directive, good, []byte(trustDirective)); err != nil {
		t.Fatal(err)
	}
	if d := store.diary(); fmt.Sprint(d) != "[ClaimJTI]" {
		t.Errorf("the store was asked %v", d)
	}
	refusedAs(t, present(t, v, vectors.Directive, good, []byte(trustDirective)), ErrReplay)
}

// A genuine signature does not make a forbidden shape acceptable.
//
// req: RES-01 RES-02 RES-03 RES-04 RES-05 SGD-01 HND-09
func TestAGenuineDeliveryOfAForbiddenShapeIsRefused(t *testing.T) {
	for _, row := range []struct {
		kind, name, old, new string
		want                 error
	}{
		{"response", "no agent", `"agent":{"id":"deploybot/dev-team","run_id":"run_01HZXRUN0001"},`, ``, ErrMalformed},
		{"response", "an unknown resolution", `"resolution":"answered"`, `"resolution":"ignored"`, ErrMalformed},
		{"response", "a resolution in capitals", `"resolution":"answered"`, `"resolution":"Answered"`, ErrMalformed},
		{"response", "an answer without a value", `"value":"hold",`, ``, ErrMalformed},
		{"response", "a null value", `"value":"hold"`, `"value":null`, ErrMalformed},
		{"response", "a number as value", `"value":"hold"`, `"value":1`, ErrMalformed},
		{"response", "a decline with a value", `"resolution":"answered"`, `"resolution":"declined"`, ErrMalformed},
		{"response", "an actor without a kind", `"actor":"human:alice"`, `"actor":"alice"`, ErrMalformed},
		{"response", "no actor", `"actor":"human:alice",`, ``, ErrMalformed},
		{"response", "an ask without a response", `"response":{"value":"hold","edited":false,"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z","comment":"Let's wait."},`, ``, ErrMalformed},
		{"response", "a date as time", `"resolved_at":"2026-06-04T15:48:30Z"`, `"resolved_at":"2026-06-04"`, ErrMalformed},
		{"response", "a text as state", `{"sealed":"MA2HSEALv1.sample"}`, `"sealed"`, ErrMalformed},
		{"response", "no id", `"in_reply_to":"msg_01HZXASK0001"`, `"in_reply_to":""`, ErrMalformed},
		{"response", "a checklist on an answer", `"edited":false`, `"checklist":[{"text":"x","done":true}]`, ErrMalformed},
		{"directive", "an action", `"title"`, `"action":{"instructions":"x"},"title"`, ErrMalformed},
		{"directive", "a request", `"title"`, `"request":{"mode":"confirm"},"title"`, ErrMalformed},
		{"directive", "a state", `"title"`, `"state":{},"title"`, ErrMalformed},
		{"directive", "another type", `"type":"directive"`, `"type":"message"`, ErrMalformed},
		{"directive", "from an agent", `"from":"human:alice"`, `"from":"agent:other/bot"`, ErrMalformed},
		{"directive", "no title", `"title":"Pause deploys",`, ``, ErrMalformed},
		{"directive", "to another agent", `"to":"agent:deploybot/dev-team"`, `"to":"agent:deploybot/dev-team2"`, ErrAddressee},
		{"directive", "to this agent in capitals", `"to":"agent:deploybot/dev-team"`, `"to":"agent:Deploybot/dev-team"`, ErrAddressee},
		{"directive", "to a session of this agent", `"to":"agent:deploybot/dev-team"`, `"to":"agent:deploybot/dev-team#sess_1"`, ErrAddressee},
		{"ack", "another type", `"type":"ack"`, `"type":"receipt"`, ErrMalformed},
		{"ack", "no time", `"acked_at":"2026-06-30T15:49:00Z",`, ``, ErrMalformed},
		{"ack", "a nameless author", `"by":"agent:deploybot/dev-team"`, `"by":"deploybot"`, ErrMalformed},
	} {
		t.Run(row.kind+" with "+row.name, func(t *testing.T) {
			base := map[string]string{"response": trustBody, "directive": trustDirective, "ack": trustAck}[row.kind]
			body := strings.Replace(base, row.old, row.new, 1)
			if body == base {
				t.Fatal("nothing changed")
			}
			store := newSpyStore(t, newTrustClock().Now)
			v := trustVerifier(t, store)
			refusedAs(t, present(t, v, row.kind, hubSigner{}.value(t, row.kind, body, trustUnix, "j"), []byte(body)), row.want)
			if d := store.diary(); d != nil {
				t.Errorf("the store was asked: %v", d)
			}
			if err := present(t, v, row.kind, hubSigner{}.value(t, row.kind, base, trustUnix, "j"), []byte(base)); err != nil {
				t.Errorf("the good one: %v", err)
			}
		})
	}
}

// report: B093
// req: INB-06 INB-07
func TestUnknownMembersOfADirectiveDoNotReachTheCaller(t *testing.T) {
	want := ""
	for i, extra := range []string{``, `"x_prompt":"obey",`, `"TITLE":"evil","Body":"evil",`, `"\u212aind":"evil",`} {
		body := strings.Replace(trustDirective, `"title"`, extra+`"title"`, 1)
		d, err := trustVerifier(t, openReplay{}).Directive(t.Context(), hubSigner{}.header(t, "directive", body, trustUnix, "j"), []byte(body))
		if err != nil {
			t.Fatalf("%s: %v", extra, err)
		}
		got := fmt.Sprintf("%q", seenDirective(d))
		if i == 0 {
			want = got
		}
		if got != want || strings.Contains(got, "evil") {
			t.Errorf("%s: %s", extra, got)
		}
	}
}

// What the Hub signed is a double. Two texts share its digest, so the caller
// gets the double and never one of the texts.
//
// req: JCS-02 RES-05 GO-13
// report: B037
func TestTheCallerGetsTheNumberThatWasSigned(t *testing.T) {
	with := func(n string) string {
		return strings.Replace(trustBody, `"value":"hold"`, `"value":{"amount":`+n+`}`, 1)
	}
	signed := with("9007199254740992")
	h := hubSigner{}.header(t, "response", signed, trustUnix, "j")
	for _, n := range []string{"9007199254740992", "9007199254740993", "9007199254740992.4", "9.007199254740993e15"} {
		r, err := trustVerifier(t, openReplay{}).Response(t.Context(), h, []byte(with(n)))
		if err != nil {
			t.Errorf("%s: %v", n, err)
			continue
		}
		var in struct {
			Amount int64 `json:"amount"`
		}
		if err := r.Decode(&in); err != nil || in.Amount != 1<<53 {
			t.Errorf("%s reaches the caller as %d, %v", n, in.Amount, err)
		}
	}
	for _, n := range []string{"9007199254740994", "9007199254740991", "-9007199254740992", `"9007199254740992"`} {
		_, err := trustVerifier(t, openReplay{}).Response(t.Context(), h, []byte(with(n)))
		refusedAs(t, err, ErrSignature)
	}
	for in, want := range map[string]float64{"-0": 0, "1e21": 1e21, "0.30000000000000004": 0.30000000000000004, "5e-324": math.SmallestNonzeroFloat64} {
		r := pushed(t, with(in))
		var v struct {
			Amount float64 `json:"amount"`
		}
		if err := r.Decode(&v); err != nil || v.Amount != want || math.Signbit(v.Amount) {
			t.Errorf("%s reaches the caller as %v, %v", in, v.Amount, err)
		}
	}
}

// caseVariants are the spellings that a case-folding parser takes for name.
func caseVariants(name string) []string {
	out := []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]}
	for ascii, folds := range map[string]string{"k": "\u212a", "s": "\u017f"} {
		if strings.Contains(name, ascii) {
			out = append(out, strings.Replace(name, ascii, folds, 1))
		}
	}
	if strings.Contains(name, "_") {
		out = append(out, strings.ReplaceAll(name, "_", ""), strings.ReplaceAll(name, "_", "-"))
	}
	return out
}

// req: INB-07 JCS-06
// report: B034
func TestAMemberOfAnotherCaseNeverBinds(t *testing.T) {
	want := seen(pushed(t, trustBody))
	evil := map[string]string{
		"ma2h_version": `"0.9"`, "in_reply_to": `"evil"`, "resolution_id": `"evil"`, "agent": `{"id":"evil","run_id":"evil"}`, "resolution": `"expired"`,
		"response": `{"value":"ship","actor":"human:mallory","resolved_at":"2020-01-01T00:00:00Z"}`, "defaulted": `true`, "state": `{"evil":1}`,
		"value": `"ship"`, "edited": `true`, "actor": `"human:mallory"`, "resolved_at": `"2020-01-01T00:00:00Z"`, "comment": `"evil"`, "checklist": `[{"text":"evil","done":true}]`,
	}
	n := 0
	for name, value := range evil {
		for _, spelling := range caseVariants(name) {
			member := fmt.Sprintf("%q:%s", spelling, value)
			for _, place := range []string{`{"ma2h_version"`, `"value":"hold"`} {
				first := strings.Replace(trustBody, place, strings.TrimSuffix(place, `"ma2h_version"`)+member+`,"ma2h_version"`, 1)
				if place == `"value":"hold"` {
					first = strings.Replace(trustBody, place, member+","+place, 1)
				}
				last := strings.Replace(trustBody, `"comment":"Let's wait."`, `"comment":"Let's wait.",`+member, 1)
				if place == `{"ma2h_version"` {
					last = strings.TrimSuffix(trustBody, "}") + "," + member + "}"
				}
				for _, body := range []string{first, last} {
					n++
					// Signed by a Hub that has such a member, it is a member of another name.
					sameSeen(t, seen(pushed(t, body)), want, "signed with "+spelling)
					// Added on the way, it breaks the signature or changes nothing.
					r, err := trustVerifier(t, openReplay{}).Response(t.Context(), hubSigner{}.header(t, "response", trustBody, trustUnix, "j"), []byte(body))
					if err != nil {
						refusedAs(t, err, ErrSignature)
						continue
					}
					sameSeen(t, seen(r), want, "added "+spelling)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d bodies", n)
	}
}

// req: RES-07 RES-09 SGD-01
// report: B073
func TestUnsignedMembersNeverDecide(t *testing.T) {
	expired := strings.NewReplacer(`"resolution":"answered"`, `"resolution":"expired"`, `"human:alice"`, `"system:default_on_expire"`, `"defaulted":false`, `"defaulted":true`).Replace(trustBody)
	for name, base := range map[string]string{"an answer": trustBody, "a default on expiry": expired} {
		h := hubSigner{}.header(t, "response", base, trustUnix, "j")
		want := seen(pushed(t, base))
		if want["Defaulted"] != (base == expired) {
			t.Fatalf("%s: Defaulted is %v", name, want["Defaulted"])
		}
		for _, edit := range [][2]string{
			{`"defaulted":true`, `"defaulted":false`}, {`"defaulted":false`, `"defaulted":true`}, {`"defaulted":true,`, ``}, {`"defaulted":false,`, ``},
			{`"id":"deploybot/dev-team"`, `"id":"victim/bot"`}, {`"run_id":"run_01HZXRUN0001"`, `"run_id":"other"`}, {`"agent":{`, `"agent":{"x":1,`},
			{`"agent":{`, `"x_unknown":{"value":"ship"},"agent":{`},
		} {
			body := strings.Replace(base, edit[0], edit[1], 1)
			r, err := trustVerifier(t, openReplay{}).Response(t.Context(), h, []byte(body))
			if err != nil {
				t.Errorf("%s, %s: %v", name, edit[1], err)
				continue
			}
			sameSeen(t, seen(r), want, name+", "+edit[1])
			if strings.Contains(edit[1], "victim") && r.Advisory().AgentID != "victim/bot" {
				t.Errorf("Advisory is %+v", r.Advisory())
			}
		}
	}
	h := hubSigner{}.header(t, "directive", trustDirective, trustUnix, "j")
	d, err := trustVerifier(t, openReplay{}).Directive(t.Context(), h, []byte(trustDirective))
	if err != nil {
		t.Fatal(err)
	}
	want := seenDirective(d)
	for _, edit := range [][2]string{
		{`"created_at":"2026-06-21T12:00:00Z"`, `"created_at":"2036-06-21T12:00:00Z"`}, {`"expires_at":"2026-06-22T12:00:00Z"`, `"expires_at":"2036-06-22T12:00:00Z"`},
		{`,"expires_at":"2026-06-22T12:00:00Z"`, ``}, {`"sensitive":false`, `"sensitive":true`}, {`,"sensitive":false`, ``},
	} {
		body := strings.Replace(trustDirective, edit[0], edit[1], 1)
		d, err := trustVerifier(t, openReplay{}).Directive(t.Context(), h, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", edit[1], err)
			continue
		}
		sameSeen(t, seenDirective(d), want, edit[1])
	}
}

// req: SGR-01 SGR-03 SGD-01 SGA-01 SGD-03 GO-08 GO-09
// report: B054
func TestASignedMemberThatIsSwappedAddedDroppedOrChangedBreaksTheSignature(t *testing.T) {
	for _, row := range []struct{ kind, old, new string }{
		{"response", `"value":"hold"`, `"value":"ship"`},
		{"response", `"value":"hold"`, `"value":{"hold":1}`},
		{"response", `"edited":false`, `"edited":true`},
		{"response", `"edited":false,`, ``},
		{"response", `"human:alice"`, `"human:mallory"`},
		{"response", `15:48:30Z`, `15:48:31Z`},
		{"response", `15:48:30Z`, `15:48:30.0Z`},
		{"response", `15:48:30Z`, `15:48:30+00:00`},
		{"response", `"comment":"Let's wait."`, `"comment":"Let's wait. "`},
		{"response", `,"comment":"Let's wait."`, ``},
		{"response", `"comment":"Let's wait."`, `"comment":"Let's wait.","note":null`},
		{"response", `"value":"hold","edited":false,"actor":"human:alice"`, `"value":"human:alice","edited":false,"actor":"hold"`},
		{"response", `"sealed":"MA2HSEALv1.sample"`, `"sealed":"MA2HSEALv1.other"`},
		{"response", `"sealed":"MA2HSEALv1.sample"`, `"sealed":"MA2HSEALv1.sample","x":1`},
		{"response", `{"sealed":"MA2HSEALv1.sample"}`, `{}`},
		{"response", `,"state":{"sealed":"MA2HSEALv1.sample"}`, ``},
		{"response", `{"sealed":"MA2HSEALv1.sample"}`, `null`},
		{"response", `msg_01HZXASK0001`, `msg_01HZXASK0002`},
		{"response", `res_01HZXR3SOLVE`, `res_01HZXR3SOLVF`},
		{"response", `"resolution":"answered"`, `"resolution":"expired"`},
		{"response", `"ma2h_version":"0.3"`, `"ma2h_version":"0.4"`},
		{"response", `"in_reply_to":"msg_01HZXASK0001","resolution_id":"res_01HZXR3SOLVE"`, `"in_reply_to":"res_01HZXR3SOLVE","resolution_id":"msg_01HZXASK0001"`},
		{"directive", `"title":"Pause deploys"`, `"title":"Resume deploys"`},
		{"directive", `"title":"Pause deploys","body":"Until I say so."`, `"title":"Until I say so.","body":"Pause deploys"`},
		{"directive", `,"body":"Until I say so."`, ``},
		{"directive", `"priority":"urgent"`, `"priority":"low"`},
		{"directive", `,"priority":"urgent"`, ``},
		{"directive", `["incident","freeze"]`, `["freeze","incident"]`},
		{"directive", `["incident","freeze"]`, `["incident"]`},
		{"directive", `"text":"see the channel"`, `"text":"see the other"`},
		{"directive", `"kind":"text"`, `"kind":"text","metadata":{}`},
		{"directive", `dir_1`, `dir_2`},
		{"directive", `human:alice`, `human:bob`},
		{"ack", `"note":"on it"`, `"note":"HOLD"`},
		{"ack", `,"note":"on it"`, ``},
		{"ack", `"acked_at":"2026-06-30T15:49:00Z"`, `"acked_at":"2026-06-30T15:49:01Z"`},
		{"ack", `"note":"on it"`, `"note":"on it","resolution_id":"res_1"`},
		{"ack", `msg_1`, `msg_2`},
		{"ack", `agent:deploybot/dev-team`, `human:alice`},
	} {
		base := map[string]string{"response": trustBody, "directive": trustDirective, "ack": trustAck}[row.kind]
		body := strings.Replace(base, row.old, row.new, 1)
		if body == base {
			t.Fatalf("%s: nothing changed", row.old)
		}
		store := newSpyStore(t, newTrustClock().Now)
		v := trustVerifier(t, store)
		head := hubSigner{}.value(t, row.kind, base, trustUnix, "j")
		err := present(t, v, row.kind, head, []byte(body))
		refusedAs(t, err, ErrSignature)
		if d := store.diary(); d != nil {
			t.Errorf("%s: the store was asked: %v", row.new, d)
		}
		if err := present(t, v, row.kind, head, []byte(base)); err != nil {
			t.Errorf("the good one after a forged one: %v", err)
		}
	}
}

// req: SGR-01 HND-02 AMB-05
func TestTheCallbackURLCountsByteForByte(t *testing.T) {
	h := hubSigner{}.header(t, "response", trustBody, trustUnix, "j")
	for _, url := range []string{trustURL + "/", trustURL + "?", "https://Deploybot.example/ma2h/resume", "https://deploybot.example:443/ma2h/resume", "http://deploybot.example/ma2h/resume", "https://deploybot.example/ma2h/%72esume"} {
		v := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.CallbackURL = url })
		_, err := v.Response(t.Context(), h, []byte(trustBody))
		refusedAs(t, err, ErrSignature)
		if _, err := v.Response(t.Context(), hubSigner{url: url}.header(t, "response", trustBody, trustUnix, "j"), []byte(trustBody)); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// req: SGR-04 VER-03 VER-06
func TestAResponseOf02VerifiesOnlyByNameAndSaysSo(t *testing.T) {
	old := strings.Replace(trustBody, `"0.3"`, `"0.2"`, 1)
	h := hubSigner{}.header(t, "response", old, trustUnix, "j")
	_, err := trustVerifier(t, openReplay{}).Response(t.Context(), h, []byte(old))
	refusedAs(t, err, ErrUnboundPayload)
	named := func(c *VerifierConfig) { c.AllowUnboundPayload = true }
	r, err := trustVerifier(t, openReplay{}, named).Response(t.Context(), h, []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if r.PayloadBound() || r.Answered("hold") || r.By("human:alice") || r.Defaulted() {
		t.Error("an unbound payload decides")
	}
	silent := strings.NewReplacer(`"answered"`, `"expired"`, `"human:alice"`, `"system:default_on_expire"`).Replace(old)
	d, err := trustVerifier(t, openReplay{}, named).Response(t.Context(), hubSigner{}.header(t, "response", silent, trustUnix, "j"), []byte(silent))
	if err != nil || d.Resolution() != Expired || d.Defaulted() {
		t.Errorf("an unbound default: %v, %v", d, err)
	}
	if d = pushed(t, strings.Replace(silent, `"0.2"`, `"0.3"`, 1)); !d.Defaulted() {
		t.Errorf("a bound default: %v", d)
	}
	if v := (Approval{By: []string{"human:alice"}, Options: []Option{{Value: "hold"}}, Yes: "hold"}).Judge(r); v.Approved() {
		t.Error("an unbound payload approves")
	}
	// By name, a bound one must still be bound.
	h3 := hubSigner{}.header(t, "response", trustBody, trustUnix, "j")
	r, err = trustVerifier(t, openReplay{}, named).Response(t.Context(), h3, []byte(trustBody))
	if err != nil || !r.PayloadBound() || !r.Answered("hold") {
		t.Errorf("a 0.3 Response: %v, %v", r, err)
	}
	_, err = trustVerifier(t, openReplay{}, named).Response(t.Context(), h3, []byte(old)) // relabelled on the way
	refusedAs(t, err, ErrSignature)
	_, err = trustVerifier(t, openReplay{}, named).Response(t.Context(), h, []byte(trustBody))
	refusedAs(t, err, ErrSignature)
}

// Everything that a pushed Response can say about an approval, and the one
// thing that is a yes.
//
// req: RES-07 RES-08 VER-08 AMB-19
// report: B115
func TestOnlyTheAnswerThatWasAskedForIsAnApproval(t *testing.T) {
	approval := Approval{By: []string{"human:alice", "human:bob"}}
	silent := Approval{By: approval.By, DefaultApprovesOnExpiry: true}
	type answer struct {
		Why string `json:"why"`
	}
	yes := 0
	for _, resolution := range []string{"answered", "declined", "cancelled", "expired", "completed", "dismissed"} {
		for _, actor := range []string{"human:alice", "human:bob", "human:mallory", "human:Alice", "human:alice ", "agent:deploybot/dev-team", "agent:alice", "system:default_on_expire", "system:undeliverable", "system:alice"} {
			for _, value := range []string{`"approve"`, `"deny"`, `"Approve"`, `"approve "`, `{"approve":"approve"}`, `{"why":"because"}`, ``} {
				for _, defaulted := range []bool{false, true} {
					detail := `"actor":"` + actor + `","resolved_at":"2026-06-04T15:48:30Z"`
					if value != "" {
						detail = `"value":` + value + `,` + detail
					}
					body := fmt.Sprintf(`{"ma2h_version":"0.4","in_reply_to":"m","resolution_id":"r","agent":{"id":"a","run_id":"b"},"resolution":%q,"response":{%s},"defaulted":%t}`, resolution, detail, defaulted)
					r, err := trustVerifier(t, openReplay{}).Response(t.Context(), hubSigner{}.header(t, "response", body, trustUnix, "j"), []byte(body))
					if err != nil {
						refusedAs(t, err, ErrMalformed) // a shape that §6 forbids
						r = nil
					}
					want := resolution == "answered" && value == `"approve"` && (actor == "human:alice" || actor == "human:bob")
					if got := approval.Judge(r).Approved(); got != want {
						t.Errorf("%s: approved is %t", body, got)
					}
					if want {
						yes++
					}
					byDefault := resolution == "expired" && value == `"approve"` && actor == "system:default_on_expire"
					if got := silent.Judge(r).Approved(); got != (want || byDefault) {
						t.Errorf("%s: approved is %t where silence approves", body, got)
					}
					if r.Defaulted() != (resolution == "expired" && actor == "system:default_on_expire" && value != "") {
						t.Errorf("%s: Defaulted is %t", body, r.Defaulted())
					}
					a, err := ReadFor[answer](r, approval.By...)
					fits := value == `{"why":"because"}`
					answered := resolution == "answered" && fits && (actor == "human:alice" || actor == "human:bob")
					fallback := resolution == "expired" && fits && actor == "system:default_on_expire"
					if (err == nil) != (answered || fallback) || err == nil && (a.Value.Why != "because" || a.Defaulted != fallback) {
						t.Errorf("%s: ReadFor gives %v, %v", body, a, err)
					}
				}
			}
		}
	}
	if yes != 4 {
		t.Errorf("%d of all bodies approve, want 4", yes)
	}
	later := strings.NewReplacer(`"0.3"`, `"0.9"`, `"answered"`, `"escalated"`).Replace(trustBody)
	_, err := trustVerifier(t, openReplay{}).Response(t.Context(), hubSigner{}.header(t, "response", later, trustUnix, "j"), []byte(later))
	refusedAs(t, err, ErrMalformed)
}

func TestNoResponseAnswersEveryQuestionWithNo(t *testing.T) {
	for _, r := range []*Response{nil, {}} {
		s := seen(r)
		for _, k := range []string{"hold", "ship", "alice", "Defaulted", "Edited", "IsText", "Pulled", "PayloadBound"} {
			if s[k] != false {
				t.Errorf("%s of no Response is %v", k, s[k])
			}
		}
		if r.MessageID() != "" || r.State() != nil || r.Decode(new(any)) == nil || r.Advisory() != (Advisory{}) || r.By("") {
			t.Errorf("no Response says %v", s)
		}
	}
	for _, d := range []*Directive{nil, {}} {
		if d.ID() != "" || d.From() != "" || d.Priority() != Normal || d.Context() != nil {
			t.Error("no Directive says something")
		}
	}
}

func TestAResponseWithoutDetailSaysNothing(t *testing.T) {
	for _, resolution := range []Resolution{Completed, Expired} {
		r := pushed(t, `{"ma2h_version":"0.3","in_reply_to":"m","resolution_id":"r","agent":{"id":"a","run_id":"r"},"resolution":"`+string(resolution)+`"}`)
		if _, text := r.Text(); text || r.Resolution() != resolution || r.Defaulted() || r.Edited() || r.Checklist() != nil || r.Actor() != "" || r.Comment() != "" || r.By("") || !r.ResolvedAt().IsZero() || r.Decode(new(any)) == nil {
			t.Errorf("%s: %v", resolution, seen(r))
		}
	}
}

func TestWhatAHumanDidBesideTheAnswerIsThere(t *testing.T) {
	r := pushed(t, strings.Replace(trustBody, `"edited":false`, `"edited":true`, 1))
	if !r.Edited() || pushed(t, trustBody).Edited() || r.Comment() != "Let's wait." || r.ResolvedAt().Format(time.RFC3339) != "2026-06-04T15:48:30Z" {
		t.Errorf("%v", seen(r))
	}
	done := `{"ma2h_version":"0.3","in_reply_to":"m","resolution_id":"r","agent":{"id":"a","run_id":"r"},"resolution":"completed",` +
		`"response":{"actor":"human:alice","resolved_at":"2026-06-04T15:48:30Z","checklist":[{"text":"make","done":true},{"text":"swap","done":false}]}}`
	r = pushed(t, done)
	list := r.Checklist()
	if len(list) != 2 || list[0].Text != "make" || !list[0].Done || list[1].Done {
		t.Fatalf("%+v", list)
	}
	list[0].Text = "x"
	if r.Checklist()[0].Text != "make" {
		t.Error("the Response has changed")
	}
}

// A caller that changes what an accessor gave changes nothing for the next.
func TestAccessorsHandOutCopies(t *testing.T) {
	r := pushed(t, trustBody)
	copy(r.State(), "XXXXXXXX")
	if string(r.State()) != `{"sealed":"MA2HSEALv1.sample"}` {
		t.Errorf("the state is %q now", string(r.State()))
	}
	d, err := trustVerifier(t, openReplay{}).Directive(t.Context(), hubSigner{}.header(t, "directive", trustDirective, trustUnix, "j"), []byte(trustDirective))
	if err != nil {
		t.Fatal(err)
	}
	d.Tags()[0] = "x"
	d.Context()[0] = Part{}
	if d.Tags()[0] != "incident" || d.Context()[0].Text == "" {
		t.Error("the directive has changed")
	}
	rich := strings.Replace(trustDirective, `"context":[`, `"context":[{"kind":"file","file":{"name":"a.txt","mime_type":"text/plain","uri":"https://x.test/a"},"metadata":{"m":1}},{"kind":"data","data":{"d":1}},`, 1)
	d, err = trustVerifier(t, openReplay{}).Directive(t.Context(), hubSigner{}.header(t, "directive", rich, trustUnix, "j"), []byte(rich))
	if err != nil {
		t.Fatal(err)
	}
	parts := d.Context()
	parts[0].File.URI = "https://evil.test/"
	copy(parts[0].Metadata, "XXXXX")
	copy(parts[1].Data, "XXXXX")
	if again := d.Context(); again[0].File.URI != "https://x.test/a" || string(again[0].Metadata) != `{"m":1}` || string(again[1].Data) != `{"d":1}` || again[2].File != nil {
		t.Errorf("the directive has changed: %+v", again)
	}
	if d.Priority() != Urgent {
		t.Errorf("the priority is %s", d.Priority())
	}
	body := []byte(trustBody)
	r, err = trustVerifier(t, openReplay{}).Response(t.Context(), hubSigner{}.header(t, "response", trustBody, trustUnix, "j"), body)
	clear(body)
	if err != nil || !r.Answered("hold") {
		t.Error("the Response lives in the caller's buffer")
	}
}

// req: RPL-01 RPL-04 RPL-06 AMB-12
// report: B078
func TestADeliveryIsTakenOnceForAsLongAsItsSignatureLives(t *testing.T) {
	for _, ahead := range []int64{-120, 0, 119, 120} {
		clock := newTrustClock()
		v := trustVerifier(t, newSpyStore(t, clock.Now), func(c *VerifierConfig) { c.Now = clock.Now })
		h := hubSigner{}.header(t, "response", trustBody, trustUnix+ahead, "j")
		if _, err := v.Response(t.Context(), h, []byte(trustBody)); err != nil {
			t.Fatal(err)
		}
		for s := int64(1); s <= 245; s++ {
			clock.Add(time.Second)
			_, err := v.Response(t.Context(), h, []byte(trustBody))
			want := ErrReplay
			if s > ahead+120 {
				want = ErrStale
			}
			if !errors.Is(err, want) {
				t.Fatalf("t %d s ahead, after %d s: %v, want %v", ahead, s, err, want)
			}
		}
	}
}

func TestAStoreThatFailsLetsNothingThrough(t *testing.T) {
	down := errors.New("connection refused")
	for _, row := range []struct {
		method string
		fail   error
		want   error
	}{
		{"ClaimJTI", down, ErrStoreUnavailable},
		{"ClaimJTI", ErrStoreFull, ErrStoreFull},
		{"ClaimJTI", fmt.Errorf("table seen: %w", ErrStoreUnavailable), ErrStoreUnavailable},
	} {
		store := newSpyStore(t, newTrustClock().Now)
		v := trustVerifier(t, store)
		store.failing(row.method, row.fail)
		h := hubSigner{}.header(t, "response", trustBody, trustUnix, "j")
		r, err := v.Response(t.Context(), h, []byte(trustBody))
		refusedAs(t, err, row.want)
		if r != nil || !errors.Is(err, row.fail) {
			t.Errorf("%s: %v, %v", row.method, r, err)
		}
		store.failing(row.method, nil)
		_, err = v.Response(t.Context(), h, []byte(trustBody))
		if row.method == "ClaimJTI" && err != nil {
			t.Errorf("once it is back: %v", err)
		}
	}
}

// req: RPL-04
// report: B076
func TestOfManyCopiesOfADeliveryOneIsTaken(t *testing.T) {
	v := trustVerifier(t, TrustMemory(t, MemoryConfig{Now: newTrustClock().Now}))
	h := hubSigner{}.header(t, "response", trustBody, trustUnix, "j")
	var taken, replays atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 200 {
		wg.Go(func() {
			<-start
			switch _, err := v.Response(context.Background(), h, []byte(trustBody)); {
			case err == nil:
				taken.Add(1)
			case errors.Is(err, ErrReplay):
				replays.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	if taken.Load() != 1 || replays.Load() != 199 {
		t.Errorf("%d taken, %d replays", taken.Load(), replays.Load())
	}
}
