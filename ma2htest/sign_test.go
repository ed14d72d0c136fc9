package ma2htest

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go/internal/vectors"
	"github.com/ma2h/ma2h-go/types"
)

// fixtureKey is the key of the vectors' own header.
func fixtureKey(t *testing.T, k vectors.Key) SigningKey {
	t.Helper()
	if k.Alg == vectors.HMAC {
		return SigningKey{secret: k.Secret}
	}
	// The one ed25519 fixture is signed with the seed 00..1f.
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	key := SigningKey{private: ed25519.NewKeyFromSeed(seed)}
	if hex.EncodeToString(key.Public()) != k.Public {
		t.Fatalf("no private key for %s", k.Public)
	}
	return key
}

func contextFor(v *vectors.Vector) contextOf {
	switch v.Kind {
	case vectors.Directive:
		return directiveContext(v.Bytes())
	case vectors.Ack:
		return ackContext(v.Bytes())
	}
	return responseContext(v.Bytes(), v.CallbackURL)
}

var headerItems = regexp.MustCompile(`^t=([0-9]+),jti=([^,]+),v1=[^,]+$`)

// req: FH-17 SGR-01 SGA-01 AMB-03
func TestEveryGenuineFixtureIsWhatThisSignerSigns(t *testing.T) {
	all, err := vectors.Load("../internal/signed/testdata/vectors", vectors.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, v := range all {
		// A variant may have a header that no signer writes, or a body whose
		// unsigned or oddly spelt parts are what it is about; its context is
		// still that of its body.
		if v.Expect != vectors.OK || v.Context == "" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			m := headerItems.FindStringSubmatch(strings.TrimPrefix(v.Header, signatureHeader+": "))
			if m == nil {
				t.Skip("the header is a spelling of its own")
			}
			n := nonce{t: m[1], jti: m[2]}
			text, err := contextFor(&v)(n)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != v.Context {
				t.Fatalf("signed text\n%s\nwant\n%s", text, v.Context)
			}
			key := fixtureKey(t, v.Keys[len(v.Keys)-1])
			if got := renderSignature(n, key.sign(text)); got != strings.TrimRight(strings.TrimPrefix(v.Header, signatureHeader+": "), "=") {
				t.Fatalf("header %s, want %s", got, v.Header)
			}
			seen[v.Kind]++
		})
	}
	if seen[vectors.Response] < 8 || seen[vectors.Directive] < 3 || seen[vectors.Ack] < 2 {
		t.Fatalf("too few fixtures were reproduced: %v", seen)
	}
}

// req: FH-17
func TestADigestAndABareContextReproduce(t *testing.T) {
	all, err := vectors.Load("../internal/signed/testdata/vectors", vectors.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	digests, contexts := 0, 0
	for _, v := range all {
		switch v.Pins {
		case vectors.PinsDigest:
			digests++
			var r map[string]json.RawMessage
			if err := json.Unmarshal(v.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			got, err := digestOf(map[string]any{"response": orNull(r["response"]), "state": orNull(r["state"])})
			if err != nil || got != v.Digest {
				t.Fatalf("%s: digest %s (%v), want %s", v.Name, got, err, v.Digest)
			}
		case vectors.PinsContext:
			contexts++
			m := headerItems.FindStringSubmatch(v.Header)
			if got := renderSignature(nonce{m[1], m[2]}, fixtureKey(t, v.Keys[0]).sign([]byte(v.Context))); got != v.Header {
				t.Fatalf("%s: %s, want %s", v.Name, got, v.Header)
			}
		}
	}
	if digests == 0 || contexts == 0 {
		t.Fatal("no fixture pins a digest or a context")
	}
}

// req: FH-17
func TestTheForgedFixturesAreNotWhatThisSignerSigns(t *testing.T) {
	all, err := vectors.Load("../internal/signed/testdata/vectors", vectors.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, v := range all {
		m := headerItems.FindStringSubmatch(v.Header)
		if v.Expect != vectors.Signature || m == nil || v.Keys[0].Alg != vectors.HMAC {
			continue
		}
		n := nonce{t: m[1], jti: m[2]}
		text, err := contextFor(&v)(n)
		if err != nil {
			continue
		}
		checked++
		if renderSignature(n, fixtureKey(t, v.Keys[0]).sign(text)) == v.Header {
			t.Errorf("%s: a forgery is reproduced", v.Name)
		}
	}
	if checked < 30 {
		t.Fatalf("%d forgeries were looked at", checked)
	}
}

func TestANumberPastTheDoublesIsNotSigned(t *testing.T) {
	body := `{"ma2h_version":"0.3","in_reply_to":"m","resolution_id":"r","resolution":"answered","state":{"n":%s}}`
	if _, err := responseContext(fmt.Appendf(nil, body, "1e400"), "https://a.example")(nonce{"1", "j"}); err == nil {
		t.Fatal("1e400 was signed")
	}
	if _, err := responseContext(fmt.Appendf(nil, body, "1e300"), "https://a.example")(nonce{"1", "j"}); err != nil {
		t.Fatal(err)
	}
}

// req: KEY-01
func TestTheNewestKeySignsAndAFaultMayTakeAnother(t *testing.T) {
	for _, alg := range []string{types.AlgHMACSHA256, types.AlgEd25519} {
		t.Run(alg, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start, Seed: 7, SigningAlg: alg})
			hub.RotateKeys()
			ring := hub.ring.of(alg)
			if len(ring) != 2 || len(hub.Keys()) != 4 {
				t.Fatalf("%d keys of %d", len(ring), len(hub.Keys()))
			}
			text := []byte("text")
			for choice, want := range map[keyChoice]int{newestKey: 0, olderKey: 1, unknownKey: -1} {
				got := hub.ring.choose(ring, choice, false)
				if len(got) != 1 || got[0].Alg() != alg {
					t.Fatalf("choice %d: %v", choice, got)
				}
				for i := range ring {
					if same := string(ring[i].sign(text)) == string(got[0].sign(text)); same != (i == want) {
						t.Fatalf("choice %d took key %d: %t", choice, i, same)
					}
				}
			}
			if all := hub.ring.choose(ring, newestKey, true); len(all) != 2 {
				t.Fatalf("an overlap signs with %d keys", len(all))
			}
			if one := hub.ring.choose(slices.Clip(ring[:1]), olderKey, false); string(one[0].sign(text)) == string(ring[0].sign(text)) {
				t.Fatal("a ring of one has no older key")
			}
		})
	}
}

func TestTheSameSeedGivesTheSameKeysAndAnotherGivesOthers(t *testing.T) {
	a, b, c := NewHub(t, Options{Seed: 1}), NewHub(t, Options{Seed: 1}), NewHub(t, Options{Seed: 2})
	if a.SigningSecret() != b.SigningSecret() || !a.SigningPublicKey().Equal(b.SigningPublicKey()) {
		t.Fatal("keys differ under one seed")
	}
	if a.SigningSecret() == c.SigningSecret() || a.SigningPublicKey().Equal(c.SigningPublicKey()) {
		t.Fatal("two seeds share keys")
	}
}

func TestASigningKeyPrintsOnlyItsAlgorithm(t *testing.T) {
	for _, k := range NewHub(t).Keys() {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
			if got := fmt.Sprintf(verb, k); got != "SigningKey("+k.Alg()+")" {
				t.Fatalf("%s prints %s", verb, got)
			}
		}
	}
}

func TestOptionsRefuseAnAlgorithmThatIsNotOne(t *testing.T) {
	if _, err := New(Options{SigningAlg: "rsa"}); err == nil {
		t.Fatal("rsa was taken")
	}
}

// req: SGR-01
func TestASignatureHasAFreshTimeAndNonceEachTime(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	context := ackContext([]byte(`{"ma2h_version":"0.4","by":"agent:a","in_reply_to":"m"}`))
	signs := func(s signing) string {
		now := hub.lock()
		defer hub.unlock()
		head, err := hub.sign(now, context, s)
		if err != nil {
			t.Fatal(err)
		}
		return head
	}
	a, b := signs(signing{}), signs(signing{})
	if a == b || !strings.HasPrefix(a, fmt.Sprintf("t=%d,jti=", start.Unix())) {
		t.Fatalf("%s and %s", a, b)
	}
	if early := signs(signing{skew: -121e9}); !strings.HasPrefix(early, fmt.Sprintf("t=%d,", start.Unix()-121)) {
		t.Fatalf("skewed: %s", early)
	}
}

// The canonicaliser of the fake is not the one under test; both are held to
// the same published number forms here.
func TestNumbersHaveTheirECMAScriptForm(t *testing.T) {
	for in, want := range map[string]string{
		"-0": "0", "4.50": "4.5", "1e21": "1e+21", "1e20": "100000000000000000000", "1e-7": "1e-7", "1e-6": "0.000001",
		"9007199254740993": "9007199254740992", "5e-324": "5e-324", "9.999999999999999e22": "1e+23",
	} {
		got, err := jcs.Transform([]byte("[" + in + "]"))
		if err != nil || string(got) != "["+want+"]" {
			t.Errorf("%s is %s (%v), want %s", in, got, err, want)
		}
	}
}
