package ma2htest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	firstSecret  = "CANARY-first-secret-of-the-ref"
	secondSecret = "CANARY-second-secret-of-the-ref"
)

var (
	bearerAuth = fields{"scheme": "bearer", "token_ref": "env:T"}
	apiKeyAuth = fields{"scheme": "apikey", "token_ref": "env:T"}
	hmacAuth   = fields{"scheme": "hmac", "secret_ref": "env:T"}
)

// pushOnce answers an ask with that callback and returns what arrived at its URL.
func pushOnce(t *testing.T, hub *Hub, url string, auth fields) (arrived, Push) {
	t.Helper()
	r := &receiver{hub: hub}
	hub.ServeCallback(url, r)
	callback := fields{"url": url}
	if auth != nil {
		callback["auth"] = auth
	}
	id := answered(t, hub, pushAsk(url+fmt.Sprint(auth, len(hub.Messages())), callback))
	hub.Advance(0)
	got := r.arrivals()
	if len(got) != 1 {
		t.Fatalf("%d arrivals", len(got))
	}
	return got[0], hub.Pushes(id)[0]
}

func signedBy(t *testing.T, a arrived, url string, k SigningKey) bool {
	t.Helper()
	n, head := splitSignature(t, a.header)
	text, err := responseContext(a.body, url)(n)
	if err != nil {
		t.Fatal(err)
	}
	return head == renderSignature(n, k.sign(text))
}

// req: FH-09 SGR-02 CB-04
func TestACredentialGoesWithItsSchemeAndEveryPushIsSigned(t *testing.T) {
	for _, tc := range []struct {
		name          string
		auth          fields
		bearer, key   string
		signedBySetUp bool
	}{
		{"none", nil, "", "", false},
		{"hmac", hmacAuth, "", "", true},
		{"bearer", bearerAuth, "Bearer " + firstSecret, "", false},
		{"apikey", apiKeyAuth, "", firstSecret, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			if err := hub.RegisterCallback(bot, "bot.example", map[string]string{"env:T": firstSecret}); err != nil {
				t.Fatal(err)
			}
			got, p := pushOnce(t, hub, callbackURL, tc.auth)
			if got.header.Get("Authorization") != tc.bearer || got.header.Get("X-Api-Key") != tc.key {
				t.Fatalf("%v", got.header)
			}
			key := SigningKey{secret: hub.SigningSecret()}
			if tc.signedBySetUp {
				key.secret = firstSecret
			}
			if !signedBy(t, got, callbackURL, key) {
				t.Fatal("signed with another key")
			}
			if strings.Contains(fmt.Sprintf("%+v", p.Header), "CANARY") {
				t.Fatal("the record holds the credential")
			}
			if want := map[string]string{"bearer": "bearer", "apikey": "apikey"}[tc.name]; string(p.Credential) != want {
				t.Fatalf("credential %q", p.Credential)
			}
		})
	}
}

// req: FH-08 FH-09
func TestACredentialGoesOnlyWhereItsAgentIsRegistered(t *testing.T) {
	const other = "other/bot"
	for _, tc := range []struct {
		agent, destination, url string
		ok                      bool
	}{
		{bot, "bot.example", "https://bot.example/ma2h", true},
		{bot, "bot.example", "https://BOT.example:443/x", true},
		{bot, "BOT.example:443", "https://bot.example/x", true},
		{bot, "bot.example:8443", "https://bot.example:8443/x", true},
		{bot, "bot.example", "https://bot.example:8443/x", false},
		{bot, "bot.example", "https://evil.example/x", false},
		{bot, "bot.example", "https://sub.bot.example/x", false},
		{bot, "bot.example", "https://bot.example.evil.example/x", false},
		{bot, "bot.example", "https://bot.example./x", false},
		{bot, "bot.example", "https://evil.example/?https://bot.example/", false},
		{bot, "bot.example", "https://evil.example/bot.example", false},
		{bot, "https://bot.example", "https://bot.example/any", true},
		{bot, "https://bot.example/", "https://bot.example", true},
		{bot, "https://bot.example/a", "https://bot.example/a", true},
		{bot, "https://bot.example/a", "https://bot.example/a/b?c=d", true},
		{bot, "https://bot.example/a/", "https://bot.example/a/b", true},
		{bot, "https://bot.example/a", "https://bot.example/ab", false},
		{bot, "https://bot.example/a", "https://bot.example/b/a", false},
		{bot, "https://bot.example/a", "https://bot.example/a/../b", false},
		{bot, "https://bot.example/a", "https://bot.example/a/%2e%2e/b", false},
		{bot, "https://bot.example/a", `https://bot.example/a/..%5Cb`, false},
		{bot, "https://bot.example/a", "https://bot.example.evil.example/a", false},
		{other, "bot.example", "https://bot.example/ma2h", false},
	} {
		t.Run(tc.destination+" "+tc.url, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			if err := hub.RegisterCallback(tc.agent, tc.destination, map[string]string{"env:T": firstSecret}); err != nil {
				t.Fatal(err)
			}
			got, p := pushOnce(t, hub, tc.url, bearerAuth)
			if ok := got.header.Get("Authorization") == "Bearer "+firstSecret; ok != tc.ok || len(got.header["Authorization"]) != len(p.Credential)/len("bearer") {
				t.Fatalf("attached %t", ok)
			}
			signed, _ := pushOnce(t, hub, tc.url, hmacAuth)
			if !signedBy(t, signed, tc.url, SigningKey{secret: map[bool]string{true: firstSecret, false: hub.SigningSecret()}[tc.ok]}) {
				t.Fatal("signed with another key")
			}
		})
	}
}

// req: FH-09
func TestAReferenceThatNobodyRegisteredAttachesNothing(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	if err := hub.RegisterCallback(bot, "bot.example", map[string]string{"env:OTHER": firstSecret}); err != nil {
		t.Fatal(err)
	}
	for _, auth := range []fields{bearerAuth, apiKeyAuth} {
		got, p := pushOnce(t, hub, callbackURL, auth)
		if got.header.Get("Authorization")+got.header.Get("X-Api-Key")+string(p.Credential) != "" {
			t.Fatalf("%v", got.header)
		}
	}
}

// req: KEY-01
func TestARegisteredSecretRotates(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	register := func(secret string) {
		t.Helper()
		if err := hub.RegisterCallback(bot, "https://bot.example/ma2h", map[string]string{"env:T": secret}); err != nil {
			t.Fatal(err)
		}
	}
	register(firstSecret)
	register(secondSecret)
	register(secondSecret)
	if got, _ := pushOnce(t, hub, callbackURL, hmacAuth); !signedBy(t, got, callbackURL, SigningKey{secret: secondSecret}) {
		t.Fatal("not signed with the newest secret")
	}
	if got, _ := pushOnce(t, hub, callbackURL, bearerAuth); got.header.Get("Authorization") != "Bearer "+secondSecret {
		t.Fatal("not the newest token")
	}
	hub.Fault(OlderKey(1))
	if got, _ := pushOnce(t, hub, callbackURL, hmacAuth); !signedBy(t, got, callbackURL, SigningKey{secret: firstSecret}) {
		t.Fatal("not signed with the older secret")
	}
}

// req: FH-08
func TestARegistrationIsForItsScheme(t *testing.T) {
	const url = "http://127.0.0.1:8000/ma2h"
	for destination, ok := range map[string]bool{"http://127.0.0.1:8000": true, "https://127.0.0.1:8000": false, "127.0.0.1:8000": false} {
		hub := NewHub(t, Options{Start: start, AllowLoopbackCallbacks: true})
		if err := hub.RegisterCallback(bot, destination, map[string]string{"env:T": firstSecret}); err != nil {
			t.Fatal(err)
		}
		if got, _ := pushOnce(t, hub, url, bearerAuth); ok != (got.header.Get("Authorization") != "") {
			t.Fatalf("%s: attached %t", destination, !ok)
		}
	}
}

// req: FH-09
func TestAHubOfEd25519SignsAnHMACCallbackWithItsOwnKey(t *testing.T) {
	hub := NewHub(t, Options{Start: start, SigningAlg: "ed25519"})
	if err := hub.RegisterCallback(bot, "bot.example", map[string]string{"env:T": firstSecret}); err != nil {
		t.Fatal(err)
	}
	if got, _ := pushOnce(t, hub, callbackURL, hmacAuth); !signedBy(t, got, callbackURL, hub.ring.of("ed25519")[0]) {
		t.Fatal("signed otherwise")
	}
}

func TestARegistrationThatIsNoneIsRefused(t *testing.T) {
	hub := NewHub(t)
	for _, destination := range []string{"", "https://", "bot.example/path", "https://u@bot.example", "https://bot.example?q", "https://bot.example#f", "https://bot.example/a/../b", "ftp://bot.example", "://", "https://bot.example/%zz"} {
		if err := hub.RegisterCallback(bot, destination, nil); err == nil {
			t.Errorf("%q was taken", destination)
		}
	}
	for _, refs := range []map[string]string{{"": "secret"}, {"env:T": ""}, {"env:T": " \t"}} {
		err := hub.RegisterCallback(bot, "bot.example", refs)
		if err == nil || strings.Contains(err.Error(), "secret of") {
			t.Errorf("%v: %v", refs, err)
		}
	}
	if n := len(hub.callbacks.bindings); n != 0 {
		t.Fatalf("%d bindings", n)
	}
}

func TestAServedCallbackCanBeTakenAway(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, first(503))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(0)
	hub.ServeCallback(callbackURL, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	hub.Advance(time.Second)
	if len(r.arrivals()) != 1 || hub.Pushes(id)[1].Status != 200 {
		t.Fatalf("%+v", hub.Pushes(id))
	}
	hub.ServeCallback(callbackURL, nil)
	if len(hub.callbacks.served) != 0 {
		t.Fatal("still served")
	}
}
