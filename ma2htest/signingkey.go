package ma2htest

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"github.com/ma2h/ma2h-go/types"
)

// SigningKey is a key that a Hub signs with: an hmac-sha256 secret or an
// ed25519 private key. It prints as its algorithm.
type SigningKey struct {
	secret  string
	private ed25519.PrivateKey
}

// Alg is types.AlgHMACSHA256 or types.AlgEd25519.
func (k SigningKey) Alg() string {
	if k.private != nil {
		return types.AlgEd25519
	}
	return types.AlgHMACSHA256
}

// Secret is the secret of an hmac-sha256 key, whose bytes are the key as they
// are. It is empty for ed25519.
func (k SigningKey) Secret() string { return k.secret }

// Public is the public half of an ed25519 key, or nil.
func (k SigningKey) Public() ed25519.PublicKey {
	if k.private == nil {
		return nil
	}
	return slices.Clone(k.private.Public().(ed25519.PublicKey))
}

// Format prints the algorithm under every verb.
func (k SigningKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "SigningKey("+k.Alg()+")") }

func (k SigningKey) sign(text []byte) []byte {
	if k.private != nil {
		return ed25519.Sign(k.private, text)
	}
	mac := hmac.New(sha256.New, []byte(k.secret))
	mac.Write(text)
	return mac.Sum(nil)
}

// keyRing holds the keys of a Hub, newest first. The Hub's mutex guards it.
type keyRing struct {
	source idSource // its own, so that keys do not shift the sequence of ids
	keys   []SigningKey
}

func (r *keyRing) init(seed uint64) {
	r.source.init(seed)
	r.rotate()
}

// rotate puts a new key of each algorithm before the others.
func (r *keyRing) rotate() {
	r.keys = append([]SigningKey{r.mint(types.AlgHMACSHA256), r.mint(types.AlgEd25519)}, r.keys...)
}

func (r *keyRing) mint(alg string) SigningKey {
	if alg == types.AlgHMACSHA256 {
		return SigningKey{secret: r.source.next("sec_") + r.source.next("")}
	}
	seed := make([]byte, ed25519.SeedSize)
	r.source.read(seed)
	return SigningKey{private: ed25519.NewKeyFromSeed(seed)}
}

func (r *keyRing) of(alg string) []SigningKey {
	var out []SigningKey
	for _, k := range r.keys {
		if k.Alg() == alg {
			out = append(out, k)
		}
	}
	return out
}

// choose returns the keys to sign with out of keys, which are newest first.
func (r *keyRing) choose(keys []SigningKey, c keyChoice, all bool) []SigningKey {
	switch {
	case c == unknownKey || c == olderKey && len(keys) < 2:
		return []SigningKey{r.mint(keys[0].Alg())}
	case c == olderKey:
		return keys[1:2]
	case all:
		return keys
	}
	return keys[:1]
}

// Keys returns what the Hub signs with, both algorithms, newest first. During
// a rotation a receiver holds the new ones and the old (§9.2).
func (h *Hub) Keys() []SigningKey {
	h.lock()
	defer h.unlock()
	return slices.Clone(h.ring.keys)
}

// SigningSecret is the newest hmac-sha256 secret, which signs unless
// Options.SigningAlg says otherwise.
func (h *Hub) SigningSecret() string { return h.newest(types.AlgHMACSHA256).Secret() }

// SigningPublicKey is the public half of the newest ed25519 key.
func (h *Hub) SigningPublicKey() ed25519.PublicKey { return h.newest(types.AlgEd25519).Public() }

func (h *Hub) newest(alg string) SigningKey {
	h.lock()
	defer h.unlock()
	return h.ring.of(alg)[0]
}

// RotateKeys makes a new key of each algorithm. What is signed from now on is
// signed with it; Keys still lists the older ones.
func (h *Hub) RotateKeys() {
	h.lock()
	defer h.unlock()
	h.ring.rotate()
}
