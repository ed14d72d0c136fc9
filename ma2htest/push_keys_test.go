package ma2htest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// req: KEY-01 KEY-04 FH-15
func TestAKeyThatRotatesBetweenTwoAttempts(t *testing.T) {
	for _, alg := range []string{types.AlgHMACSHA256, types.AlgEd25519} {
		for name, tc := range map[string]struct {
			all    bool
			ring   func(hub *ma2htest.Hub, before []ma2h.Key) ma2h.KeyRing
			status int
		}{
			"a receiver that asks for keys each time follows": {false, func(hub *ma2htest.Hub, _ []ma2h.Key) ma2h.KeyRing {
				return ma2h.KeysFunc(func(context.Context) ([]ma2h.Key, error) { return keys(hub, alg), nil })
			}, 200},
			"a receiver with the old key alone refuses": {false, func(_ *ma2htest.Hub, before []ma2h.Key) ma2h.KeyRing {
				return ma2h.Keys(before...)
			}, 401},
			"a Hub that signs with both is believed by it": {true, func(_ *ma2htest.Hub, before []ma2h.Key) ma2h.KeyRing {
				return ma2h.Keys(before...)
			}, 200},
		} {
			t.Run(name+" "+alg, func(t *testing.T) {
				hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch, SigningAlg: alg, SignWithAllKeys: tc.all})
				a := newPushed(t, hub)
				a.fail = func(n int) error { return map[bool]error{true: errors.New("not now")}[n == 1] }
				hub.ServeCallback(callbackURL, a.handler(callbackURL, tc.ring(hub, keys(hub, alg)), nil))
				id := a.ask("k", ma2h.PushTo(callbackURL))
				answer(t, hub, id, "hold")
				hub.Advance(0)
				hub.RotateKeys()
				hub.Advance(time.Hour)
				p := hub.Pushes(id)
				if len(p) != 2 || p[0].Status != 503 || p[1].Status != tc.status {
					t.Fatalf("%d attempts, the last %d", len(p), p[len(p)-1].Status)
				}
				if got := len(a.acted()); got != 1+tc.status/200%2 {
					t.Fatalf("the handler ran %d times", got)
				}
			})
		}
	}
}

// req: FH-09 AMB-06
func TestAHandlerThatWantsACredentialGetsItOnlyIfItsHostIsRegistered(t *testing.T) {
	const token = "the-token-behind-the-reference"
	for _, scheme := range []types.AuthScheme{types.AuthBearer, types.AuthAPIKey} {
		for _, registered := range []bool{false, true} {
			hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch})
			a := newPushed(t, hub)
			hub.ServeCallback(callbackURL, a.handler(callbackURL, ma2h.Keys(keys(hub, types.AlgHMACSHA256)...), func(_ *ma2h.VerifierConfig, c *ma2h.CallbackConfig) {
				if scheme == types.AuthBearer {
					c.BearerToken = []string{token}
				} else {
					c.APIKey = []string{token}
				}
			}))
			if registered {
				if err := hub.RegisterCallback(bot, "bot.example", map[string]string{"env:CALLBACK_TOKEN": token}); err != nil {
					t.Fatal(err)
				}
			}
			cb := ma2h.PushTo(callbackURL)
			cb.Auth = &types.CallbackAuth{Scheme: scheme, TokenRef: "env:CALLBACK_TOKEN"}
			id := a.ask("k", cb)
			answer(t, hub, id, "hold")
			hub.Advance(time.Hour)
			hub.RequirePushes(t, id, 1)
			if want := map[bool]int{true: 200, false: 401}[registered]; hub.Pushes(id)[0].Status != want {
				t.Fatalf("%s, registered %t: %d", scheme, registered, hub.Pushes(id)[0].Status)
			}
		}
	}
}

// req: FH-09
func TestARegisteredSecretIsTheKeyOfAnHMACCallback(t *testing.T) {
	const secret = "the-secret-behind-the-reference"
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch})
	a := newPushed(t, hub)
	hub.ServeCallback(callbackURL, a.handler(callbackURL, ma2h.Keys(ma2h.HMACKey(secret)), nil))
	if err := hub.RegisterCallback(bot, callbackURL, map[string]string{"env:CALLBACK_SECRET": secret}); err != nil {
		t.Fatal(err)
	}
	signed, bare := ma2h.PushTo(callbackURL), ma2h.PushTo(callbackURL)
	signed.Auth = &types.CallbackAuth{Scheme: types.AuthHMAC, SecretRef: "env:CALLBACK_SECRET"}
	for want, cb := range map[int]*ma2h.Callback{200: signed, 401: bare} {
		id := a.ask(http.StatusText(want), cb)
		answer(t, hub, id, "hold")
		hub.Advance(0)
		if got := hub.Pushes(id)[0].Status; got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	}
}

// req: SGA-01 HND-10
func TestAPushedAckVerifiesAndATamperedOneDoesNot(t *testing.T) {
	const phone = "https://phone.example/acks"
	hub := ma2htest.NewHub(t, ma2htest.Options{Start: epoch})
	a := newPushed(t, hub)
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := ma2h.NewVerifier(ma2h.VerifierConfig{AckKeys: ma2h.Keys(keys(hub, types.AlgHMACSHA256)...), AgentID: bot, Replay: store, Now: hub.Now})
	if err != nil {
		t.Fatal(err)
	}
	hub.ServeCallback(phone, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for note, tampers := range map[string]bool{"on it": false, "": false, "tampered with": true} {
		id := a.ask("k"+note, nil)
		answer(t, hub, id, "hold")
		if _, err := a.client.Message(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := a.client.Acknowledge(t.Context(), id, note); err != nil {
			t.Fatal(err)
		}
		if tampers {
			hub.Fault(ma2htest.TamperPayload(1))
		}
		if err := hub.PushAck(phone, id); err != nil {
			t.Fatal(err)
		}
		hub.Advance(0)
		p := hub.AckPushes(id)[0]
		ack, err := v.Ack(t.Context(), p.Header, p.Body)
		if tampers != errors.Is(err, ma2h.ErrSignature) || !tampers && (err != nil || ack.Note != note || ack.InReplyTo != id) {
			t.Fatalf("note %q: %v", note, err)
		}
	}
}
