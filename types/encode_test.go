package types_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ma2h/ma2h-go/types"
)

func message() types.Message {
	return types.Message{
		Version: types.V03, Type: types.VerbAsk, CreatedAt: "2026-06-04T15:48:30Z",
		Agent: types.Agent{ID: "bot/dev", RunID: "run_1", Runtime: types.RuntimeCLI, Labels: map[string]string{
			"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6", "g": "7", "h": "8"}},
		Title: "Ship?", Body: "<b>&</b>\u2028", State: types.Raw(`{"sealed":"x"}`), IdempotencyKey: "k",
		Context: []types.Part{{Kind: types.PartText}, {Kind: types.PartData, Data: types.Raw(`{"z":1,"a":2}`)}},
		Request: &types.Request{Mode: types.ModeConfirm, DefaultOnExpire: types.Raw(`null`),
			Permissions: &types.Permissions{AllowEdit: new(false)}},
	}
}

const encoded = `{"ma2h_version":"0.3","type":"ask","created_at":"2026-06-04T15:48:30Z",` +
	`"agent":{"id":"bot/dev","run_id":"run_1","runtime":"cli","labels":{"a":"1","b":"2","c":"3","d":"4","e":"5","f":"6","g":"7","h":"8"}},` +
	`"title":"Ship?","body":"<b>&</b>` + "\u2028" + `","context":[{"kind":"text","text":""},{"kind":"data","data":{"z":1,"a":2}}],` +
	`"state":{"sealed":"x"},"idempotency_key":"k",` +
	`"request":{"mode":"confirm","permissions":{"allow_edit":false},"default_on_expire":null}}`

// req: ENV-10 ENV-22
func TestEqualValuesEncodeToEqualBytes(t *testing.T) {
	for range 50 {
		m := message()
		got, err := types.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != encoded {
			t.Fatalf("got  %s\nwant %s", got, encoded)
		}
		if again, err := types.Encode(&m); err != nil || !bytes.Equal(got, again) {
			t.Fatalf("a pointer gives %s, %v", again, err)
		}
	}
}

func TestAValueSurvivesEncodeAndDecode(t *testing.T) {
	for name, v := range map[string]interface{ Validate() error }{
		"message": new(message()),
		"view":    &types.MessageView{Message: message(), ID: "msg_1", Status: types.StatusOpen},
		"callback": &types.Callback{Mode: types.CallbackPush, URL: "https://bot.example/", Auth: &types.CallbackAuth{
			Scheme: types.AuthAPIKey, TokenRef: "env:T"}},
		"capability": &types.Capability{Version: types.V04, MaxContextParts: new(int64(0)), Inbound: &types.Inbound{Enabled: true}},
	} {
		first, err := types.Encode(v)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := types.Decode(first, v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := v.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if second, err := types.Encode(v); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: %s became %s, %v", name, first, second, err)
		}
	}
}

// req: PUL-01
func TestAViewEncodesAsOneObject(t *testing.T) {
	got, err := types.Encode(types.MessageView{Message: message(), ID: "msg_1", Status: types.StatusOpen})
	if want := encoded[:len(encoded)-1] + `,"id":"msg_1","status":"open"}`; err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// req: ENV-13
func TestARawThatIsNotJSONIsNeverSent(t *testing.T) {
	m := message()
	for _, state := range []string{`{`, `x`, `{} {}`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}"} {
		m.State = types.Raw(state)
		if got, err := types.Encode(m); err == nil {
			t.Errorf("%q was sent as %s", state, got)
		}
	}
}

// req: CB-02 CB-03
func TestABuiltCallbackNamesTheSecretOfItsScheme(t *testing.T) {
	for _, tc := range []struct {
		auth  types.CallbackAuth
		field string
	}{
		{types.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: "env:S"}, ""},
		{types.CallbackAuth{Scheme: types.AuthBearer, TokenRef: "env:T"}, ""},
		{types.CallbackAuth{Scheme: types.AuthHMAC}, "secret_ref"},
		{types.CallbackAuth{Scheme: types.AuthAPIKey}, "token_ref"},
		{types.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: "env:S", TokenRef: "env:T"}, "token_ref"},
		{types.CallbackAuth{Scheme: types.AuthBearer, SecretRef: "env:S", TokenRef: "env:T"}, "secret_ref"},
		{types.CallbackAuth{SecretRef: "env:S"}, "scheme"},
	} {
		err := tc.auth.Validate()
		fe, ok := errors.AsType[*types.FieldError](err)
		if ok != (tc.field != "") || ok && fe.Field != tc.field {
			t.Errorf("%v: %v, want %q", tc.auth, err, tc.field)
		}
	}
}

// req: ENV-02
func TestOnlyCanonicalVersionsOfMajorZeroAreRead(t *testing.T) {
	for text, minor := range map[string]int{"0.0": 0, "0.2": 2, "0.3": 3, "0.4": 4, "0.10": 10, "0.999999999": 999999999} {
		v, err := types.ParseVersion(text)
		if err != nil || v.Major != 0 || v.Minor != minor || v.String() != text || v.BindsPayload() != (minor >= 3) {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
	for text, major := range map[string]bool{
		"": false, "0": false, "0.": false, ".3": false, "0.03": false, "00.3": false, "0.3.1": false, "0,3": false, "v0.3": false,
		" 0.3": false, "0.3 ": false, "0.3\n": false, "+0.3": false, "0.-3": false, "0.1000000000": false, "0.٣": false, "01.3": false,
		"0.3e1": false, "0x0.3": false,
		"1.0": true, "2.3": true, "10.4": true, "999999999.0": true,
	} {
		v, err := types.ParseVersion(text)
		fe, ok := errors.AsType[*types.FieldError](err)
		if !ok || fe.Field != "ma2h_version" || errors.Is(err, types.ErrVersion) != major || v != (types.Version{}) {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
}
