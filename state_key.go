package ma2h

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	sealKeyLen   = 32
	maxSealKeyID = 64
	sealCheckLen = 6
)

// SealKey is one named 32-byte key of a Sealer. It must differ from the
// callback credential and must never reach the Hub (§9.3).
//
// The constructors do not fail: a bad key keeps its error, and NewSealer
// returns it. A SealKey prints as its id only, under every fmt verb, in
// log/slog and as JSON.
type SealKey struct {
	id  string
	key hidden[[sealKeyLen]byte]
	err error
}

// hidden keeps a secret from fmt, which calls no method on an unexported field
// of somebody else's struct and follows a pointer under a verb that does not
// fit it. Of a func it can print the address only.
type hidden[T any] func() T

func hide[T any](v T) hidden[T] { return func() T { return v } }

// SealKeyRaw names a key of exactly 32 random bytes, which are copied. The id
// travels in clear in every token: 1 to 64 of A-Z, a-z, 0-9, '_' and '-'.
func SealKeyRaw(id string, key []byte) SealKey {
	if !validSealKeyID(id) {
		return SealKey{err: errSealKeyID}
	}
	if len(key) != sealKeyLen {
		return SealKey{err: fmt.Errorf("is %d bytes, not %d", len(key), sealKeyLen)}
	}
	k := [sealKeyLen]byte(key)
	if k == [sealKeyLen]byte{} || len(bytes.TrimSpace(key)) == 0 {
		return SealKey{err: errors.New("is all zero or blank")}
	}
	return SealKey{id: id, key: hide(k)}
}

// SealKeyBase64 names a key written in standard base64 with padding, 44
// characters, as "openssl rand -base64 32" prints it without its line end.
// The URL alphabet, missing padding and white space are errors.
func SealKeyBase64(id, s string) SealKey {
	key, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(s) != base64.StdEncoding.EncodedLen(sealKeyLen) {
		return SealKey{err: errors.New("is not 32 bytes in standard base64 with padding (44 characters)")}
	}
	return SealKeyRaw(id, key)
}

// SealKeyHex names a key written as 64 hexadecimal digits of either case.
// White space and prefixes are errors.
func SealKeyHex(id, s string) SealKey {
	key, err := hex.DecodeString(s)
	if err != nil {
		return SealKey{err: errors.New("is not hexadecimal")}
	}
	return SealKeyRaw(id, key)
}

// errSealKeyID does not quote the id: with swapped arguments it is the key.
var errSealKeyID = fmt.Errorf("has an id that is not 1 to %d of A-Z, a-z, 0-9, _ and -", maxSealKeyID)

func validSealKeyID(id string) bool {
	if id == "" || len(id) > maxSealKeyID {
		return false
	}
	for _, c := range []byte(id) {
		if !isBase64URL(c) {
			return false
		}
	}
	return true
}

func isBase64URL(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// String returns the id and nothing of the key.
func (k SealKey) String() string {
	if k.key == nil {
		return "SealKey(invalid)"
	}
	return "SealKey(" + k.id + ")"
}

// GoString is String.
func (k SealKey) GoString() string { return k.String() }

// Format writes String under every verb.
func (k SealKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue logs String.
func (k SealKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON writes String, so that a dumped configuration holds no key.
func (k SealKey) MarshalJSON() ([]byte, error) { return []byte(`"` + k.String() + `"`), nil }

// agentKey is what one SealKey yields for one agent.
type agentKey struct {
	id    string
	check string // tells a wrong key under a known id from a tampered token
	root  hidden[[sealKeyLen]byte]
	sub   hidden[subkeys]
}

// subkeys hold a key for each job.
type subkeys struct {
	aead             cipher.AEAD
	nonce, mac, bind []byte
}

func newAgentKey(k SealKey, agentID string) (*agentKey, error) {
	root := k.key()
	var failed error
	derive := func(purpose string, n int) []byte {
		// No purpose holds a NUL, so the agent id is the rest.
		b, err := hkdf.Key(sha256.New, root[:], nil, "ma2h seal 1 "+purpose+"\x00"+agentID, n)
		failed = errors.Join(failed, err)
		return b
	}
	check, aeadKey := derive("check", sealCheckLen), derive("aead", sealKeyLen)
	sub := subkeys{
		nonce: derive("nonce", sealKeyLen),
		mac:   derive("mac", sealKeyLen),
		bind:  derive("bind", sealKeyLen),
	}
	if failed != nil {
		return nil, failed
	}
	var err error
	if sub.aead, err = chacha20poly1305.NewX(aeadKey); err != nil {
		return nil, err
	}
	return &agentKey{id: k.id, check: sealBase64.EncodeToString(check), root: k.key, sub: hide(sub)}, nil
}

func sealPRF(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// usesKey reports whether a seal key is also secret, in any spelling in which
// one setting could have been read twice: as it stands, trimmed, base64 of
// either alphabet, or hexadecimal (§9.3 wants them distinct).
func (s *Sealer) usesKey(secret []byte) bool {
	found := 0
	for _, k := range s.keys {
		root := k.root()
		for _, a := range spellings(root[:]) {
			for _, b := range spellings(secret) {
				found |= subtle.ConstantTimeCompare(a, b)
			}
		}
	}
	return found == 1
}

func spellings(secret []byte) [][]byte {
	text := string(bytes.TrimSpace(secret))
	all := [][]byte{secret, []byte(text)}
	unpadded := strings.TrimRight(text, "=")
	for _, decode := range []func(string) ([]byte, error){
		base64.RawStdEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	} {
		if b, err := decode(unpadded); err == nil {
			all = append(all, b)
		}
	}
	if b, err := hex.DecodeString(text); err == nil {
		all = append(all, b)
	}
	some := all[:0]
	for _, b := range all {
		if len(b) > 0 {
			some = append(some, b)
		}
	}
	return some
}
