package ma2h_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	. "github.com/ma2h/ma2h-go"
)

const trustCanary = "CANARY-0123456789"

// canarySpellings are the forms in which a leak of the canary could show.
func canarySpellings() []string {
	b := []byte(trustCanary)
	var decimal strings.Builder
	for _, c := range b[:6] {
		fmt.Fprintf(&decimal, "%d ", c)
	}
	var hexed strings.Builder
	for _, c := range b[:6] {
		fmt.Fprintf(&hexed, "0x%x, ", c)
	}
	return []string{
		"CANARY", hex.EncodeToString(b)[:12], strings.ToUpper(hex.EncodeToString(b))[:12], base64.StdEncoding.EncodeToString(b)[:8],
		strings.TrimSpace(decimal.String()), strings.TrimSuffix(hexed.String(), ", "), "0x43, 0x41, 0x4e",
	}
}

// printed returns what a value shows under every verb, in slog and as JSON.
func printed(v any, plainData bool) map[string]string {
	out := map[string]string{}
	verbs := "vsqdxXtbcoOUeEfFgGT"
	if !plainData {
		verbs += "p" // fmt calls no method for it
	}
	for _, verb := range verbs {
		for _, flags := range []string{"", "+", "#", " ", "+#", "-20.3", "0"} {
			format := "%" + flags + string(verb)
			out[format] = fmt.Sprintf(format, v)
		}
	}
	out["Sprint"], out["Sprintln"] = fmt.Sprint(v), fmt.Sprintln(v)
	var b bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(h).Info("x", "v", v)
		slog.New(h).With("v", v).WithGroup("g").Info("x", slog.Any("w", v))
	}
	out["slog"] = b.String()
	if !plainData {
		std, err := stdjson.Marshal(v)
		v2, err2 := json.Marshal(v)
		out["json"] = fmt.Sprint(string(std), err, string(v2), err2)
	}
	return out
}

// req: TEL-01 TEL-02 TEL-03 TEL-05 KEY-04 SIG-14
func TestNothingOfTheReturnLegPrintsItsSecrets(t *testing.T) {
	secret := trustCanary + " of 32 bytes, no less"
	token := "token-" + trustCanary
	fill := func(n int) []byte { return []byte(strings.Repeat(trustCanary, 4))[:n] }
	sealer, err := NewSealer(SealerConfig{AgentID: trustAgent, Keys: []SealKey{SealKeyRaw("k", append([]byte("x"), fill(31)...))}})
	if err != nil {
		t.Fatal(err)
	}
	hmacKey := HMACKey(secret)
	edKey := Ed25519Key(trustPublic(0))
	ring := Keys(hmacKey, edKey)
	store := newSpyStore(t, newTrustClock().Now)
	vc := VerifierConfig{Keys: ring, DirectiveKeys: ring, CallbackURL: trustURL, AgentID: trustAgent, Replay: store, Sealer: sealer, Now: newTrustClock().Now}
	v, err := NewVerifier(vc)
	if err != nil {
		t.Fatal(err)
	}
	cc := CallbackConfig{Verifier: v, Ledger: store, Handle: func(context.Context, *Response) error { return errors.New(trustCanary) }, BearerToken: []string{token}}
	keyed := CallbackConfig{Verifier: v, Ledger: store, Handle: cc.Handle, APIKey: []string{token}}
	h, err := NewCallbackHandler(cc)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.NewReplacer(`"hold"`, `"`+trustCanary+`"`, "Let's wait.", trustCanary, "MA2HSEALv1.sample", trustCanary, "human:alice", "human:"+trustCanary).Replace(trustBody)
	head := hubSigner{secret: secret}.header(t, "response", body, trustUnix, "j")
	head.Set("Authorization", "Bearer "+token)
	resp, err := v.Response(t.Context(), head, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	dirBody := strings.NewReplacer("Pause deploys", trustCanary, "Until I say so.", trustCanary, "see the channel", trustCanary, "incident", trustCanary, "human:alice", "human:"+trustCanary).Replace(trustDirective)
	dir, err := v.Directive(t.Context(), hubSigner{secret: secret}.header(t, "directive", dirBody, trustUnix, "d"), []byte(dirBody))
	if err != nil {
		t.Fatal(err)
	}
	head.Set("MA2H-Signature", hubSigner{secret: secret}.value(t, "response", body, trustUnix, "k"))
	out := h.Process(t.Context(), head, []byte(body))
	if out.Status != 503 {
		t.Fatal(out)
	}
	memory := TrustMemory(t, MemoryConfig{})
	values := map[string]any{
		"HMAC key": hmacKey, "ed25519 key": edKey, "bad key": HMACKey(" " + secret), "ring": ring, "ring of a func": KeysFunc(func(context.Context) ([]Key, error) { return []Key{hmacKey}, nil }),
		"verifier config": vc, "verifier": v, "verifier by value": *v, "handler": h,
		"response": resp, "response by value": *resp, "directive": dir, "directive by value": *dir,
		"act": ActOf(resp, trustAgent), "handle": Handle{MessageID: "m", AgentID: trustAgent, IdempotencyKey: "k"}, "store": memory,
	}
	// Data with exported fields, which its own methods guard where fmt calls them.
	plain := map[string]any{
		"delivery": Delivery{"m", head, []byte(body)}, "delivery by pointer": &Delivery{"m", head, []byte(body)}, "outcome": out, "outcome by pointer": &out,
		"callback config": cc, "callback config with a key": keyed, "callback config by pointer": &cc,
	}
	if b, err := stdjson.Marshal([]any{cc, &keyed}); err != nil || strings.Contains(string(b), "CANARY") {
		t.Errorf("a CallbackConfig encodes as %s, %v", b, err)
	}
	n := 0
	check := func(name string, shows map[string]string) {
		for format, text := range shows {
			n++
			for _, leak := range canarySpellings() {
				if strings.Contains(text, leak) {
					t.Errorf("%s under %s shows %q in %.300s", name, format, leak, text)
					return
				}
			}
		}
	}
	for name, value := range values {
		if name == "handler" {
			value = struct{ inner *CallbackHandler }{h}.inner
		}
		check(name, printed(value, false))
		// fmt calls no method on what sits in an unexported field.
		check(name+" in a field", printed(struct {
			Exported   any
			unexported any
		}{value, value}, false))
		check(name+" in a list", printed([]any{value}, false))
		check(name+" in a map", printed(map[string]any{"k": value}, false))
	}
	for name, value := range plain {
		check(name, printed(value, true))
		if strings.HasPrefix(name, "delivery") {
			continue // encodes as what it is, for whoever passes it on
		}
		check(name+" in a list", printed([]any{value}, true))
		check(name+" in a field", printed(struct{ V any }{value}, true))
	}
	type holder struct {
		k  Key
		ks []Key
		r  KeyRing
		p  *KeyRing
		re Response
		rp *Response
		d  Directive
		v  Verifier
		vc VerifierConfig
	}
	hold := holder{hmacKey, []Key{hmacKey, edKey}, ring, &ring, *resp, resp, *dir, *v, vc}
	check("a struct of the caller's", printed(hold, false))
	check("a pointer to a struct of the caller's", printed(&hold, false))
	check("the insides of the handler", printed(struct{ h []*CallbackHandler }{[]*CallbackHandler{h}}, false))
	if n < 4000 {
		t.Errorf("only %d texts", n)
	}
	if hmacKey.String() != "Key{alg=hmac-sha256}" || edKey.GoString() != "Key{alg=ed25519}" || fmt.Sprint(ring) != "KeyRing{keys=2}" {
		t.Errorf("%v %v %v", hmacKey, edKey, ring)
	}
	if got := fmt.Sprint(resp); got != "Response{message=msg_01HZXASK0001 resolution=answered actor=human}" {
		t.Errorf("a Response prints as %s", got)
	}
	if fmt.Sprint(dir) != "Directive{id=dir_1}" || fmt.Sprint(cc) != "CallbackConfig{credentials=1}" {
		t.Errorf("%v %v", dir, cc)
	}
}

// Every error of a delivery that is full of canaries is free of them.
//
// req: SIG-14 TEL-02 ERR-07
func TestNoErrorOfADeliveryQuotesIt(t *testing.T) {
	log := &syncBuffer{}
	c := trustCanary
	bodies := []string{
		c, `{"` + c + `":`, `{"ma2h_version":["` + c + `"]}`, `{"ma2h_version":"0.3","in_reply_to":1,"` + c + `":1}`, `{"ma2h_version":"0.3","` + c + `":1,"` + c + `":2}`,
		strings.ReplaceAll(trustBody, "hold", c), strings.ReplaceAll(trustBody, "answered", "answered\",\"comment\":\""+c),
		strings.Replace(trustBody, `"value":"hold"`, `"value":["`+c+`"]`, 1), strings.Replace(trustBody, `"human:alice"`, `"`+c+`"`, 1),
		strings.Replace(trustBody, `"2026-06-04T15:48:30Z"`, `"`+c+`"`, 1), strings.Replace(trustBody, `"edited":false`, `"edited":"`+c+`"`, 1),
		strings.Replace(trustBody, `{"sealed":"MA2HSEALv1.sample"}`, `"`+c+`"`, 1), strings.Replace(trustBody, `"comment":"Let's wait."`, `"comment":"`+c+"\xff"+`"`, 1),
		strings.Replace(trustDirective, `"Pause deploys"`, `"`+strings.Repeat(c, 20)+`"`, 1), strings.Replace(trustDirective, `"urgent"`, `{"`+c+`":1}`, 1),
		strings.Replace(trustDirective, `"kind":"text"`, `"kind":["`+c+`"]`, 1), strings.Replace(trustAck, `"on it"`, `["`+c+`"]`, 1),
	}
	errs := 0
	for _, body := range bodies {
		for _, kind := range []string{"response", "directive", "ack"} {
			heads := []string{"t=1,jti=" + c, "t=" + c + ",jti=x,v1=" + c, c, "t=1749050910,jti=j,v1=" + strings.Repeat("A", 43)}
			if stdjson.Valid([]byte(body)) && utf8.ValidString(body) {
				heads = append(heads, hubSigner{}.value(t, kind, body, trustUnix, "j"+c))
			}
			for _, head := range heads {
				r := newCallbackRig(t, func(cc *CallbackConfig, v *VerifierConfig) {
					cc.Logger = slog.New(slog.NewTextHandler(log, nil))
					v.AckKeys = v.Keys
				})
				err := present(t, r.Configured().Verifier, kind, head, []byte(body))
				if err != nil {
					errs++
				}
				out := r.Process(t.Context(), http.Header{"Ma2h-Signature": {head}}, []byte(body))
				text := fmt.Sprintf("%v %+v %#v %v %v", err, err, out, out.Err, r.log)
				if strings.Contains(text, "CANARY") {
					t.Errorf("%s under %s: %s", body, head, text)
				}
			}
		}
	}
	if errs < 150 || strings.Contains(log.String(), "CANARY") || !strings.Contains(log.String(), "ma2h: delivery") {
		t.Errorf("%d errors, log\n%.2000s", errs, log)
	}
}

func TestTheLogOfADeliveryHoldsIdsAndReasonsOnly(t *testing.T) {
	r := newCallbackRig(t)
	r.act = func(context.Context, *Response) error { return errors.New(trustCanary) }
	body := strings.NewReplacer("hold", trustCanary, "Let's wait.", trustCanary).Replace(trustBody)
	for i := range 2 {
		r.Process(t.Context(), hubSigner{}.header(t, "response", body, trustUnix, fmt.Sprint("j", i)), []byte(body))
		r.act = nil
	}
	log := r.log.String()
	for _, want := range []string{"status=503", "status=200", "id=msg_01HZXASK0001", "acted=true", `reason="ma2h: the handler failed"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, "CANARY") || strings.Contains(log, "v1=") {
		t.Errorf("the log says too much:\n%s", log)
	}
	if line := len(strings.Split(strings.TrimSpace(log), "\n")); line != 2 {
		t.Errorf("%d lines for 2 deliveries", line)
	}
}
