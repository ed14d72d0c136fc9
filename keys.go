package ma2h

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// minHMACKey is the shortest secret that is taken, in bytes: anything shorter
// can be guessed.
const minHMACKey = 16

// keyedHash is an HMAC whose secret has been hashed, and a place for its sum.
type keyedHash struct {
	hash.Hash
	sum [sha256.Size]byte
}

// Key verifies signatures of a Hub. The key decides the algorithm, never the
// message: an HMAC key takes a 32-byte MAC, an ed25519 key a 64-byte
// signature. It copies what it is made from and prints as its algorithm. A
// constructor that got something else than it documents keeps the error, and
// whoever is given the key returns it.
type Key struct {
	alg       string
	secret    hidden[[]byte] // hmac-sha256
	macs      *sync.Pool     // of *keyedHash under secret
	public    ed25519.PublicKey
	notBefore time.Time
	notAfter  time.Time
	bad       *FieldError // of the constructor, which it names
}

func badKey(constructor, format string, args ...any) Key {
	return Key{bad: &FieldError{Field: constructor, Problem: fmt.Sprintf(format, args...), Section: "§9.2"}}
}

// HMACKey is an hmac-sha256 key: the bytes of secret as they are, 16 or more,
// without white space at an end. A secret that is written in an encoding has a
// constructor of its own.
func HMACKey(secret string) Key {
	switch {
	case strings.TrimSpace(secret) == "":
		return badKey("HMACKey", "is empty or blank")
	case strings.TrimSpace(secret) != secret:
		return badKey("HMACKey", "has white space at an end")
	case strings.HasPrefix(secret, "whsec_"):
		return badKey("HMACKey", "begins with whsec_, so it is encoded; HMACKeyBase64 takes what follows the prefix")
	}
	return hmacKey("HMACKey", []byte(secret))
}

// HMACKeyBase64 is an hmac-sha256 key in standard base64 with padding.
func HMACKeyBase64(s string) Key {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return badKey("HMACKeyBase64", "is not standard base64 with padding")
	}
	return hmacKey("HMACKeyBase64", b)
}

// HMACKeyHex is an hmac-sha256 key in hex.
func HMACKeyHex(s string) Key {
	b, err := hex.DecodeString(s)
	if err != nil {
		return badKey("HMACKeyHex", "is not hex")
	}
	return hmacKey("HMACKeyHex", b)
}

// hmacKey keeps secret, which nobody else has.
func hmacKey(constructor string, secret []byte) Key {
	if len(secret) < minHMACKey {
		return badKey(constructor, "is %d bytes, below %d", len(secret), minHMACKey)
	}
	if len(bytes.Trim(secret, "\x00")) == 0 || len(bytes.TrimSpace(secret)) == 0 {
		return badKey(constructor, "is all zero or blank")
	}
	macs := &sync.Pool{New: func() any { return &keyedHash{Hash: hmac.New(sha256.New, secret)} }}
	return Key{alg: types.AlgHMACSHA256, secret: hide(secret), macs: macs}
}

// Ed25519Key is a raw public key of 32 bytes.
func Ed25519Key(public []byte) Key {
	if len(public) != ed25519.PublicKeySize {
		return badKey("Ed25519Key", "is %d bytes, not %d", len(public), ed25519.PublicKeySize)
	}
	if bytes.Equal(public, make([]byte, len(public))) {
		return badKey("Ed25519Key", "is all zero")
	}
	return Key{alg: types.AlgEd25519, public: bytes.Clone(public)}
}

// Ed25519KeyBase64URL is a public key in base64url without padding.
func Ed25519KeyBase64URL(s string) Key {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return badKey("Ed25519KeyBase64URL", "is not base64url without padding")
	}
	return Ed25519Key(b)
}

// Ed25519KeyHex is a public key in hex.
func Ed25519KeyHex(s string) Key {
	b, err := hex.DecodeString(s)
	if err != nil {
		return badKey("Ed25519KeyHex", "is not hex")
	}
	return Ed25519Key(b)
}

// Ed25519KeyPEM is a public key in a PEM block PUBLIC KEY (PKIX), and nothing
// after it.
func Ed25519KeyPEM(b []byte) Key {
	block, rest := pem.Decode(b)
	if block == nil || block.Type != "PUBLIC KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return badKey("Ed25519KeyPEM", "is not one PEM block PUBLIC KEY")
	}
	pub, _ := x509.ParsePKIXPublicKey(block.Bytes)
	key, ok := pub.(ed25519.PublicKey)
	if !ok {
		return badKey("Ed25519KeyPEM", "is not an ed25519 key")
	}
	return Ed25519Key(key)
}

// From returns the key, valid from t on, t included.
func (k Key) From(t time.Time) Key { k.notBefore = t; return k }

// Until returns the key, valid until t, t included.
func (k Key) Until(t time.Time) Key { k.notAfter = t; return k }

func (k *Key) valid(now time.Time) bool {
	return !now.Before(k.notBefore) && (k.notAfter.IsZero() || !now.After(k.notAfter))
}

// check names slot, the place of the key, in its error.
func (k *Key) check(slot string) error {
	switch {
	case k.bad != nil:
		return invalid(slot, k.bad.Section, "is not what %s takes: it %s", k.bad.Field, k.bad.Problem)
	case k.alg == "":
		return invalid(slot, "§9.2", "is the zero Key")
	case !k.notAfter.IsZero() && k.notAfter.Before(k.notBefore):
		return invalid(slot, "§9.2", "ends before it begins")
	}
	return nil
}

// verify reports whether one of the MACs is right for text. text is a string
// of bytes that only a Hub with the key can have signed.
func (k *Key) verify(text []byte, macs [][]byte) bool {
	if k.alg == types.AlgEd25519 {
		for _, m := range macs {
			if ed25519.Verify(k.public, text, m) {
				return true
			}
		}
		return false
	}
	mac := k.macs.Get().(*keyedHash)
	defer k.macs.Put(mac)
	mac.Reset()
	mac.Write(text)
	want := mac.Sum(mac.sum[:0])
	for _, m := range macs {
		if hmac.Equal(want, m) {
			return true
		}
	}
	return false
}

func (k Key) text() string { return redactedText("Key", "alg", k.alg) }

// String returns the algorithm.
func (k Key) String() string { return k.text() }

// GoString returns the algorithm.
func (k Key) GoString() string { return k.text() }

// Format prints the algorithm under every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.text()) }

// LogValue logs the algorithm.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.text()) }

// MarshalJSON writes the algorithm.
func (k Key) MarshalJSON() ([]byte, error) { return json.Marshal(k.text()) }

// usedBy reports whether the key is also one of s's seal keys, which the
// protocol wants distinct (§9.3).
func (k *Key) usedBy(s *Sealer) bool {
	switch {
	case s == nil:
		return false
	case k.secret != nil:
		return s.usesKey(k.secret())
	}
	return s.usesKey(k.public)
}

// KeyRing is the keys of one purpose, in order of preference. It prints as
// their number.
type KeyRing struct {
	keys   []Key
	source func(context.Context) ([]Key, error)
}

// maxKeys bounds a ring: each key costs a MAC for each delivery.
const maxKeys = 16

// Keys is a fixed ring. During a rotation it holds the new key and the old.
func Keys(keys ...Key) KeyRing { return KeyRing{keys: slices.Clone(keys)} }

// KeysFunc is a ring that f gives anew for each delivery, for rotation without
// a restart. f is called from many goroutines and should cache. Its error is
// ErrKeySource, and nothing is accepted until it is over.
func KeysFunc(f func(context.Context) ([]Key, error)) KeyRing { return KeyRing{source: f} }

func (r KeyRing) empty() bool { return r.source == nil && len(r.keys) == 0 }

// checkKeys checks the ring that field names.
func checkKeys(field string, keys []Key, seals *Sealer) error {
	if len(keys) == 0 || len(keys) > maxKeys {
		return invalid(field, "§9.2", "holds %d keys, not 1 to %d", len(keys), maxKeys)
	}
	for i := range keys {
		slot := fmt.Sprintf("%s[%d]", field, i)
		if err := keys[i].check(slot); err != nil {
			return err
		}
		if keys[i].usedBy(seals) {
			return invalid(slot, "§9.3", "is also a seal key; the two must differ")
		}
	}
	return nil
}

func (r KeyRing) current(ctx context.Context, seals *Sealer) ([]Key, error) {
	if r.source == nil {
		return r.keys, nil
	}
	keys, err := r.source(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeySource, err)
	}
	if err := checkKeys("KeysFunc", keys, seals); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeySource, err)
	}
	return keys, nil
}

// Format prints how many keys there are.
func (r KeyRing) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.text()) }

// LogValue logs what Format prints.
func (r KeyRing) LogValue() slog.Value { return slog.StringValue(r.text()) }

// MarshalJSON writes what Format prints.
func (r KeyRing) MarshalJSON() ([]byte, error) { return json.Marshal(r.text()) }

func (r KeyRing) text() string {
	if r.source != nil {
		return redactedText("KeyRing", "keys", "from a func")
	}
	return redactedText("KeyRing", "keys", strconv.Itoa(len(r.keys)))
}
