package ma2h_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/types"
)

func trustPrivate(fill byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i) + fill
	}
	return ed25519.NewKeyFromSeed(seed)
}

func trustPublic(fill byte) ed25519.PublicKey {
	return trustPrivate(fill).Public().(ed25519.PublicKey)
}

func trustPEM(t testing.TB, blockType string, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der})
}

// req: KEY-03 SIG-06 SIG-07 AMB-07
// report: B063 B060 B120 B121
func TestAKeyIsReadInOneWayOnly(t *testing.T) {
	pub := trustPublic(0)
	ed := hubSigner{private: trustPrivate(0)}
	raw := []byte("0123456789abcdef\xff\x00")
	b64 := base64.StdEncoding.EncodeToString(raw)
	byRaw := hubSigner{secret: string(raw)}
	good := trustPEM(t, "PUBLIC KEY", pub)
	for _, row := range []struct {
		name   string
		key    Key
		signer *hubSigner // nil where the key is refused
	}{
		{"a secret as it is", HMACKey(trustSecret), &hubSigner{}},
		{"a secret of 16 bytes", HMACKey("0123456789abcdef"), &hubSigner{secret: "0123456789abcdef"}},
		{"a secret of 15 bytes", HMACKey("0123456789abcde"), nil},
		{"a secret of 3 bytes", HMACKey("abc"), nil},
		{"an empty secret", HMACKey(""), nil},
		{"a secret of blanks", HMACKey(strings.Repeat(" ", 32)), nil},
		{"a secret with a line end", HMACKey(trustSecret + "\n"), nil},
		{"a secret with a leading tab", HMACKey("\t" + trustSecret), nil},
		{"a secret with a blank inside", HMACKey("two words of a secret"), &hubSigner{secret: "two words of a secret"}},
		{"a prefixed secret", HMACKey("whsec_" + b64), nil},
		{"a prefixed secret that is no base64", HMACKey("whsec_!!!!!!!!!!!!!!!!"), nil},
		{"a secret of zeros", HMACKey(strings.Repeat("\x00", 32)), nil},
		{"hex digits as they are", HMACKey(hex.EncodeToString(raw)), &hubSigner{secret: hex.EncodeToString(raw)}},
		{"base64", HMACKeyBase64(b64), &byRaw},
		{"base64 without padding", HMACKeyBase64(strings.TrimRight(base64.StdEncoding.EncodeToString(raw[:17]), "=")), nil},
		{"base64 with a line end", HMACKeyBase64(b64 + "\n"), nil},
		{"base64 with a line end inside", HMACKeyBase64(b64[:8] + "\r\n" + b64[8:]), nil},
		{"base64 and what is none", HMACKeyBase64(base64.StdEncoding.EncodeToString(raw[:18]) + "!!!!"), nil},
		{"base64url", HMACKeyBase64(base64.URLEncoding.EncodeToString([]byte("\xff\xff\xff\xff0123456789abcdef"))), nil},
		{"base64 of nothing", HMACKeyBase64(""), nil},
		{"base64 of 15 bytes", HMACKeyBase64(base64.StdEncoding.EncodeToString(raw[:15])), nil},
		{"base64 of zeros", HMACKeyBase64(base64.StdEncoding.EncodeToString(make([]byte, 32))), nil},
		{"base64 of blanks", HMACKeyBase64(base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", 32)))), nil},
		{"base64 with stray bits", HMACKeyBase64("MDEyMzQ1Njc4OWFiY2RlZh=="), nil},
		{"hex", HMACKeyHex(hex.EncodeToString(raw)), &byRaw},
		{"hex in capitals", HMACKeyHex(strings.ToUpper(hex.EncodeToString(raw))), &byRaw},
		{"hex with a prefix", HMACKeyHex("0x" + hex.EncodeToString(raw)), nil},
		{"hex of 15 bytes", HMACKeyHex(hex.EncodeToString(raw[:15])), nil},
		{"hex of odd length", HMACKeyHex(hex.EncodeToString(raw)[1:]), nil},
		{"hex with a line end", HMACKeyHex(hex.EncodeToString(raw) + "\n"), nil},
		{"hex and what is none", HMACKeyHex(hex.EncodeToString(raw) + "zz"), nil},
		{"hex of nothing", HMACKeyHex(""), nil},
		{"a public key", Ed25519Key(pub), &ed},
		{"a public key of 31 bytes", Ed25519Key(pub[:31]), nil},
		{"a public key of 33 bytes", Ed25519Key(append(pub[:32:32], 0)), nil},
		{"a public key of zeros", Ed25519Key(make([]byte, 32)), nil},
		{"a private key", Ed25519Key(trustPrivate(0)), nil},
		{"a public key in base64url", Ed25519KeyBase64URL(base64.RawURLEncoding.EncodeToString(pub)), &ed},
		{"a public key in padded base64url", Ed25519KeyBase64URL(base64.URLEncoding.EncodeToString(pub)), nil},
		{"a public key in base64url with a line end", Ed25519KeyBase64URL(base64.RawURLEncoding.EncodeToString(pub) + "\n"), nil},
		{"a public key in standard base64", Ed25519KeyBase64URL(base64.RawStdEncoding.EncodeToString(ed25519.PublicKey(strings.Repeat("\xfb", 32)))), nil},
		{"a public key in base64url and what is none", Ed25519KeyBase64URL(base64.RawURLEncoding.EncodeToString(append(pub[:32:32], 0)) + "!"), nil},
		{"a public key in base64url of 32 bytes and what is none", Ed25519KeyBase64URL(base64.RawURLEncoding.EncodeToString(pub) + "!"), nil},
		{"a public key in hex and what is none", Ed25519KeyHex(hex.EncodeToString(pub) + "zz"), nil},
		{"a public key in hex", Ed25519KeyHex(hex.EncodeToString(pub)), &ed},
		{"a public key in hex of 31 bytes", Ed25519KeyHex(hex.EncodeToString(pub[:31])), nil},
		{"a public key in hex that is none", Ed25519KeyHex("zz" + hex.EncodeToString(pub)[2:]), nil},
		{"a public key in PEM", Ed25519KeyPEM(good), &ed},
		{"a public key in PEM and a blank line", Ed25519KeyPEM(append(good[:len(good):len(good)], '\n')), &ed},
		{"a public key in PEM and a character", Ed25519KeyPEM(append(good[:len(good):len(good)], 'x')), nil},
		{"a public key in PEM and another", Ed25519KeyPEM(append(good[:len(good):len(good)], good...)), nil},
		{"a public key in PEM of another type", Ed25519KeyPEM(trustPEM(t, "PRIVATE KEY", pub)), nil},
		{"a key of another algorithm in PEM", Ed25519KeyPEM([]byte("-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n-----END PUBLIC KEY-----\n")), nil},
		{"PEM of nothing", Ed25519KeyPEM([]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")), nil},
		{"no PEM", Ed25519KeyPEM([]byte("PUBLIC KEY")), nil},
		{"the zero Key", Key{}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, err := NewVerifier(VerifierConfig{Keys: Keys(row.key), CallbackURL: trustURL, AgentID: trustAgent, Replay: openReplay{}, Now: newTrustClock().Now})
			if row.signer == nil {
				if _, ok := errors.AsType[*types.FieldError](err); !ok || v != nil {
					t.Fatalf("NewVerifier = %v, %v", v, err)
				}
				if !strings.Contains(err.Error(), "VerifierConfig.Keys") {
					t.Errorf("%v does not say where", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.Response(t.Context(), row.signer.header(t, "response", trustBody, trustUnix, "j"), []byte(trustBody)); err != nil {
				t.Errorf("a push under this key: %v", err)
			}
			other := hubSigner{secret: "another secret of the Hub"}
			_, err = v.Response(t.Context(), other.header(t, "response", trustBody, trustUnix, "j"), []byte(trustBody))
			refusedAs(t, err, ErrSignature)
		})
	}
}

func TestAKeyAndARingPrintWhatTheyAreAndNothingOfIt(t *testing.T) {
	key := HMACKey(trustSecret)
	for want, v := range map[string]any{
		"Key{alg=hmac-sha256}":        key,
		"Key{alg=ed25519}":            Ed25519Key(trustPublic(0)),
		"KeyRing{keys=2}":             Keys(key, key),
		`KeyRing{keys="from a func"}`: KeysFunc(func(context.Context) ([]Key, error) { return nil, nil }),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
			if got := fmt.Sprintf(verb, v); got != want {
				t.Errorf("%s prints %s, not %s", verb, got, want)
			}
		}
		if got := v.(slog.LogValuer).LogValue().String(); got != want {
			t.Errorf("logged as %s, not %s", got, want)
		}
	}
}

// Whoever misreads a setting is told what it is.
//
// report: B063 B120
func TestAKeyThatIsRefusedSaysWhatItShouldBe(t *testing.T) {
	for want, key := range map[string]Key{
		"is not what HMACKey takes: it is empty or blank":                         HMACKey("  "),
		"is not what HMACKey takes: it has white space at an end":                 HMACKey(trustSecret + " "),
		"is not what HMACKeyBase64 takes: it is not standard base64 with padding": HMACKeyBase64("!"),
		"is not what HMACKeyHex takes: it is not hex":                             HMACKeyHex("!"),
		"is not what HMACKeyHex takes: it is 1 bytes, below 16":                   HMACKeyHex("00"),
		"is not what Ed25519KeyBase64URL takes: it is not base64url":              Ed25519KeyBase64URL("!"),
		"is not what Ed25519KeyHex takes: it is not hex":                          Ed25519KeyHex("!"),
		"is not what Ed25519Key takes: it is 1 bytes, not 32":                     Ed25519KeyHex("00"),
		"is not what Ed25519KeyPEM takes: it is not one PEM block PUBLIC KEY":     Ed25519KeyPEM(nil),
		"is not what Ed25519KeyPEM takes: it is not an ed25519 key":               Ed25519KeyPEM([]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")),
	} {
		_, err := NewVerifier(VerifierConfig{Keys: Keys(key), CallbackURL: trustURL, AgentID: trustAgent, Replay: openReplay{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not: %s", err, want)
		}
	}
}

// report: B064
func TestABlankSlotOfARingIsRefusedAndNotSkipped(t *testing.T) {
	good := HMACKey(trustSecret)
	many := func(n int) (keys []Key) {
		for range n {
			keys = append(keys, good)
		}
		return keys
	}
	for _, row := range []struct {
		name string
		keys []Key
		ok   bool
	}{
		{"one key", many(1), true},
		{"16 keys", many(16), true},
		{"17 keys", many(17), false},
		{"a blank second slot", []Key{good, HMACKey(" ")}, false},
		{"an empty second slot", []Key{good, {}}, false},
		{"a blank first slot", []Key{HMACKey(""), good}, false},
		{"a key that ends before it begins", []Key{good, good.From(time.Unix(2, 0)).Until(time.Unix(1, 0))}, false},
		{"a key that ends as it begins", []Key{good.From(time.Unix(trustUnix, 0)).Until(time.Unix(trustUnix, 0))}, true},
		{"a blank slot with times", []Key{good, HMACKey("").From(time.Unix(1, 0)).Until(time.Unix(2, 0))}, false},
	} {
		for _, kind := range []string{"Keys", "DirectiveKeys", "AckKeys"} {
			cfg := VerifierConfig{CallbackURL: trustURL, AgentID: trustAgent, Replay: openReplay{}}
			*map[string]*KeyRing{"Keys": &cfg.Keys, "DirectiveKeys": &cfg.DirectiveKeys, "AckKeys": &cfg.AckKeys}[kind] = Keys(row.keys...)
			_, err := NewVerifier(cfg)
			if _, ok := errors.AsType[*types.FieldError](err); ok == row.ok || err != nil && !strings.Contains(err.Error(), "VerifierConfig."+kind) {
				t.Errorf("%s in %s: %v", row.name, kind, err)
			}

			// The same ring from a source is found at the first delivery.
			store := newSpyStore(t, newTrustClock().Now)
			source := KeysFunc(func(context.Context) ([]Key, error) { return row.keys, nil })
			v := trustVerifier(t, store, func(c *VerifierConfig) { c.Keys = source })
			_, err = v.Response(t.Context(), hubSigner{}.header(t, "response", trustBody, trustUnix, "j"), []byte(trustBody))
			if row.ok {
				if err != nil {
					t.Errorf("%s from a source: %v", row.name, err)
				}
				continue
			}
			refusedAs(t, err, ErrKeySource)
			if d := store.diary(); d != nil {
				t.Errorf("%s from a source: the store was asked: %v", row.name, d)
			}
		}
	}
}

// req: KEY-04
func TestWithoutItsKeySourceAVerifierBelievesNothing(t *testing.T) {
	store := newSpyStore(t, newTrustClock().Now)
	down := errors.New("vault is sealed")
	var keys []Key
	var failure error
	calls := 0
	v := trustVerifier(t, store, func(c *VerifierConfig) {
		c.Keys = KeysFunc(func(context.Context) ([]Key, error) { calls++; return keys, failure })
	})
	push := func(jti string) error {
		_, err := v.Response(t.Context(), hubSigner{}.header(t, "response", trustBody, trustUnix, jti), []byte(trustBody))
		return err
	}
	failure = down
	err := push("a")
	refusedAs(t, err, ErrKeySource)
	if !errors.Is(err, down) {
		t.Errorf("%v lost its cause", err)
	}
	failure = nil
	refusedAs(t, push("a"), ErrKeySource) // an empty ring
	if d := store.diary(); d != nil {
		t.Errorf("the store was asked: %v", d)
	}
	keys = []Key{HMACKey(trustSecret)}
	if err := push("a"); err != nil {
		t.Error(err)
	}
	keys = []Key{HMACKey("the key of the next year")} // rotated without a restart
	refusedAs(t, push("b"), ErrSignature)
	if calls != 4 {
		t.Errorf("the source was asked %d times for 4 deliveries", calls)
	}
}

// req: KEY-01
// report: B058
func TestARotationHoldsBothKeysForAsLongAsTheyAreValid(t *testing.T) {
	now := time.Unix(trustUnix, 0)
	older := hubSigner{secret: "the secret of last year"}
	newer := hubSigner{private: trustPrivate(0)}
	retired := hubSigner{secret: "the secret before that one"}
	ring := []Key{
		Ed25519Key(trustPublic(0)).From(now),
		HMACKey(older.secret).Until(now),
		HMACKey(retired.secret).Until(now.Add(-time.Second)),
		Ed25519Key(trustPublic(1)).From(now.Add(time.Second)),
	}
	next := hubSigner{private: trustPrivate(1)}
	for _, row := range []struct {
		name   string
		signer hubSigner
		ok     bool
	}{
		{"the new key in the second in which it begins", newer, true},
		{"the old key in the second in which it ends", older, true},
		{"a key that ended a second ago", retired, false},
		{"a key that begins in a second", next, false},
	} {
		store := newSpyStore(t, newTrustClock().Now)
		v := trustVerifier(t, store, func(c *VerifierConfig) { c.Keys = Keys(ring...) })
		_, err := v.Response(t.Context(), row.signer.header(t, "response", trustBody, trustUnix, "j"), []byte(trustBody))
		if row.ok != (err == nil) {
			t.Errorf("%s: %v", row.name, err)
		}
		if !row.ok {
			refusedAs(t, err, ErrSignature)
			if d := store.diary(); d != nil {
				t.Errorf("%s: the store was asked: %v", row.name, d)
			}
		}
	}

	// Both signatures in one header, either of which is of a key that holds.
	v := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.Keys = Keys(HMACKey(older.secret)) })
	text := specContext(t, "response", trustBody, trustURL, fmt.Sprint(trustUnix), "j")
	both := hubSigner{}.header(t, "response", trustBody, trustUnix, "j")
	for _, macs := range [][]string{{newer.mac(text), older.mac(text)}, {older.mac(text), newer.mac(text)}} {
		both.Set("MA2H-Signature", fmt.Sprintf("t=%d,jti=j,v1=%s,v1=%s,v2=later", trustUnix, macs[0], macs[1]))
		if _, err := v.Response(t.Context(), both, []byte(trustBody)); err != nil {
			t.Errorf("two signatures: %v", err)
		}
	}
	both.Set("MA2H-Signature", fmt.Sprintf("t=%d,jti=j,v1=%s,v1=%s", trustUnix, newer.mac(text), retired.mac(text)))
	_, err := v.Response(t.Context(), both, []byte(trustBody))
	refusedAs(t, err, ErrSignature)
}

func TestAKeyAndARingCopyWhatTheyAreMadeFrom(t *testing.T) {
	pub := []byte(trustPublic(0))
	keys := []Key{Ed25519Key(pub), HMACKey(trustSecret)}
	ring := Keys(keys...)
	clear(pub)
	keys[0], keys[1] = HMACKey("a secret that comes too late"), Key{}
	v := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.Keys = ring })
	for _, s := range []hubSigner{{}, {private: trustPrivate(0)}} {
		if _, err := v.Response(t.Context(), s.header(t, "response", trustBody, trustUnix, "j"), []byte(trustBody)); err != nil {
			t.Error(err)
		}
	}
}

// req: SIG-07 SIG-09
func TestTheKeyDecidesTheAlgorithm(t *testing.T) {
	pub := trustPublic(0)
	ed := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.Keys = Keys(Ed25519Key(pub)) })
	sym := trustVerifier(t, openReplay{}, func(c *VerifierConfig) { c.Keys = Keys(HMACKey(trustSecret)) })
	for _, row := range []struct {
		name   string
		v      *Verifier
		signer hubSigner
	}{
		{"the public key as the secret of an HMAC", ed, hubSigner{secret: string(pub)}},
		{"the public key in hex as the secret of an HMAC", ed, hubSigner{secret: hex.EncodeToString(pub)}},
		{"an HMAC for an ed25519 key", ed, hubSigner{}},
		{"an ed25519 signature for an HMAC key", sym, hubSigner{private: trustPrivate(0)}},
	} {
		_, err := row.v.Response(t.Context(), row.signer.header(t, "response", trustBody, trustUnix, "j"), []byte(trustBody))
		refusedAs(t, err, ErrSignature)
	}
	// An HMAC of the right key, cut or drawn out.
	text := specContext(t, "response", trustBody, trustURL, fmt.Sprint(trustUnix), "j")
	good := hubSigner{}.mac(text)
	h := hubSigner{}.header(t, "response", trustBody, trustUnix, "j")
	h.Set("MA2H-Signature", fmt.Sprintf("t=%d,jti=j,v1=%s", trustUnix, good+"AAAA"))
	_, err := sym.Response(t.Context(), h, []byte(trustBody))
	refusedAs(t, err, ErrSignature)
}

// req: KEY-02
func TestOnePurposeNeverBorrowsTheKeysOfAnother(t *testing.T) {
	signers := map[string]hubSigner{"Keys": {secret: "secret for the responses"}, "DirectiveKeys": {secret: "secret for the directives"}, "AckKeys": {secret: "secret for acknowledgments"}}
	store := newSpyStore(t, newTrustClock().Now)
	all := trustVerifier(t, store, func(c *VerifierConfig) {
		c.Keys, c.DirectiveKeys, c.AckKeys = Keys(HMACKey(signers["Keys"].secret)), Keys(HMACKey(signers["DirectiveKeys"].secret)), Keys(HMACKey(signers["AckKeys"].secret))
	})
	kinds := map[string]struct {
		kind, body string
		verify     func(*Verifier, hubSigner, string) error
	}{}
	add := func(ring, kind, body string, f func(v *Verifier, s hubSigner, jti string) error) {
		kinds[ring] = struct {
			kind, body string
			verify     func(*Verifier, hubSigner, string) error
		}{kind, body, f}
	}
	add("Keys", "response", trustBody, func(v *Verifier, s hubSigner, jti string) error {
		_, err := v.Response(t.Context(), s.header(t, "response", trustBody, trustUnix, jti), []byte(trustBody))
		return err
	})
	add("DirectiveKeys", "directive", trustDirective, func(v *Verifier, s hubSigner, jti string) error {
		_, err := v.Directive(t.Context(), s.header(t, "directive", trustDirective, trustUnix, jti), []byte(trustDirective))
		return err
	})
	add("AckKeys", "ack", trustAck, func(v *Verifier, s hubSigner, jti string) error {
		_, err := v.Ack(t.Context(), s.header(t, "ack", trustAck, trustUnix, jti), []byte(trustAck))
		return err
	})
	for ring, k := range kinds {
		for of, s := range signers {
			store.diary()
			err := k.verify(all, s, "j")
			if ring == of {
				if err != nil {
					t.Errorf("%s: %v", ring, err)
				}
				continue
			}
			refusedAs(t, err, ErrSignature)
			if d := store.diary(); d != nil {
				t.Errorf("the store was asked: %v", d)
			}
		}
		// Without the ring of its own, no kind is believed.
		without := trustVerifier(t, store, func(c *VerifierConfig) {
			for name, r := range map[string]*KeyRing{"Keys": &c.Keys, "DirectiveKeys": &c.DirectiveKeys, "AckKeys": &c.AckKeys} {
				if name == ring {
					*r = KeyRing{}
				}
			}
		})
		err := k.verify(without, hubSigner{}, "k")
		refusedAs(t, err, ErrSignature)
		if err == nil || !strings.Contains(err.Error(), "VerifierConfig."+ring+" is empty") {
			t.Errorf("%v does not say which ring is missing", err)
		}
	}
}

// One delivery's jti is not another kind's.
//
// req: RPL-03
func TestTheKindsOfDeliveryDoNotShareTheirJTIs(t *testing.T) {
	v := trustVerifier(t, newSpyStore(t, newTrustClock().Now))
	s := hubSigner{}
	for range 2 {
		_, err1 := v.Response(t.Context(), s.header(t, "response", trustBody, trustUnix, "same"), []byte(trustBody))
		_, err2 := v.Directive(t.Context(), s.header(t, "directive", trustDirective, trustUnix, "same"), []byte(trustDirective))
		_, err3 := v.Ack(t.Context(), s.header(t, "ack", trustAck, trustUnix, "same"), []byte(trustAck))
		if (err1 == nil) != (err2 == nil) || (err2 == nil) != (err3 == nil) {
			t.Fatal(err1, err2, err3)
		}
		if err1 != nil {
			refusedAs(t, err1, ErrReplay)
			refusedAs(t, err2, ErrReplay)
			refusedAs(t, err3, ErrReplay)
			return
		}
	}
	t.Error("a replay passed")
}

// req: STA-03
// report: B108
func TestASealKeyIsNoCallbackKey(t *testing.T) {
	key := SealKeyBytes('k')
	s, err := NewSealer(SealerConfig{AgentID: trustAgent, Keys: []SealKey{SealKeyRaw("other", SealKeyBytes('x')), SealKeyRaw("k", key)}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(key)
	b64 := base64.StdEncoding.EncodeToString(key)
	for _, row := range []struct {
		name string
		key  Key
		ok   bool
	}{
		{"the same bytes", HMACKey(text), false},
		{"its base64", HMACKey(b64), false},
		{"its base64, decoded", HMACKeyBase64(b64), false},
		{"its hex", HMACKey(hex.EncodeToString(key)), false},
		{"the second of the ring", HMACKey(string(SealKeyBytes('x'))), false},
		{"as a public key", Ed25519Key(key), false},
		{"another secret", HMACKey(trustSecret), true},
		{"another public key", Ed25519Key(trustPublic(0)), true},
	} {
		for _, ring := range []string{"Keys", "DirectiveKeys", "AckKeys"} {
			cfg := VerifierConfig{CallbackURL: trustURL, AgentID: trustAgent, Replay: openReplay{}, Sealer: s, Now: newTrustClock().Now}
			slot := map[string]*KeyRing{"Keys": &cfg.Keys, "DirectiveKeys": &cfg.DirectiveKeys, "AckKeys": &cfg.AckKeys}[ring]
			*slot = Keys(HMACKey("a secret that comes first"), row.key)
			_, err := NewVerifier(cfg)
			fe, ok := errors.AsType[*types.FieldError](err)
			if ok == row.ok || ok && fe.Section != "§9.3" {
				t.Errorf("%s in %s: %v", row.name, ring, err)
			}
			cfg.Sealer = nil
			if _, err := NewVerifier(cfg); err != nil {
				t.Errorf("%s without a Sealer: %v", row.name, err)
			}
		}
		v := trustVerifier(t, openReplay{}, func(c *VerifierConfig) {
			c.Sealer = s
			c.Keys = KeysFunc(func(context.Context) ([]Key, error) { return []Key{HMACKey(trustSecret), row.key}, nil })
		})
		_, err := v.Response(t.Context(), hubSigner{}.header(t, "response", trustBody, trustUnix, "j"), []byte(trustBody))
		if row.ok && err != nil {
			t.Errorf("%s from a source: %v", row.name, err)
		}
		if !row.ok {
			refusedAs(t, err, ErrKeySource)
		}
	}
}
