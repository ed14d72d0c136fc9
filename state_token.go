package ma2h

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/ma2h/ma2h-go/internal/canon"
)

const (
	sealVersion   = "ma2h1"
	sealEncrypted = "x"
	sealReadable  = "r"
	sealForeign   = "MA2HSEALv1"

	// The head stands before the text, under the seal.
	expiryLen  = 8
	bindTagLen = 16
	headLen    = expiryLen + bindTagLen

	macLen  = 32
	seedLen = 32
)

var sealBase64 = base64.RawURLEncoding.Strict()

// sealToken is the text of a seal, ma2h1.<key id>.<key check>.<mode>.<payload>, all
// of it authenticated. The payload is base64url: nonce and XChaCha20-Poly1305
// box of head and text in mode x, head and HMAC in mode r, whose text stands
// beside the token. The head is the expiry in Unix seconds and the bind tag.
type sealToken struct {
	prefix  []byte // all up to the payload, the last dot included
	keyID   string
	check   string
	mode    string
	payload []byte
}

func tokenPrefix(k *agentKey, mode string) []byte {
	return []byte(sealVersion + "." + k.id + "." + k.check + "." + mode + ".")
}

func parseSealToken(s string) (sealToken, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 5 || parts[0] != sealVersion || !validSealKeyID(parts[1]) {
		return sealToken{}, ErrSealMalformed
	}
	payload, err := decodeSealBase64(parts[4])
	if err != nil {
		return sealToken{}, err
	}
	return sealToken{
		prefix:  []byte(s[:len(s)-len(parts[4])]),
		keyID:   parts[1],
		check:   parts[2],
		mode:    parts[3],
		payload: payload,
	}, nil
}

// decodeSealBase64 refuses the line ends that the decoder would skip: a token has
// one spelling.
func decodeSealBase64(s string) ([]byte, error) {
	b, err := sealBase64.DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return nil, ErrSealMalformed
	}
	return b, nil
}

// bindTag is keyed, so that a Hub which sees it in a readable state cannot
// guess the facts behind it.
func (k subkeys) bindTag(b Binding) []byte { return sealPRF(k.bind, b.encode())[:bindTagLen] }

// readableMAC needs no lengths: the prefix ends at its fourth dot and the head
// has one size.
func (k subkeys) readableMAC(prefix, head, plain []byte) []byte {
	return sealPRF(k.mac, prefix, head, plain)
}

// authenticate returns the head and the JSON text that k sealed.
func (k subkeys) authenticate(t sealToken, plain []byte) (head, text []byte, err error) {
	switch t.mode {
	case sealEncrypted:
		n := k.aead.NonceSize()
		if plain != nil || len(t.payload) < n+headLen+k.aead.Overhead() {
			return nil, nil, ErrSealMalformed
		}
		box, err := k.aead.Open(nil, t.payload[:n], t.payload[n:], t.prefix)
		if err != nil {
			return nil, nil, ErrSealTampered
		}
		return box[:headLen], box[headLen:], nil
	case sealReadable:
		if len(t.payload) != headLen+macLen {
			return nil, nil, ErrSealMalformed
		}
		if text, err = canon.Canonicalize(plain); err != nil {
			return nil, nil, ErrSealMalformed
		}
		head = t.payload[:headLen]
		if !hmac.Equal(t.payload[headLen:], k.readableMAC(t.prefix, head, text)) {
			return nil, nil, ErrSealTampered
		}
		return head, text, nil
	}
	return nil, nil, ErrSealMalformed
}

// openForeign opens MA2HSEALv1.<iv>.<ciphertext>.<tag>: AES-256-GCM under the
// raw key, no additional data.
func (s *Sealer) openForeign(sealed string, plain []byte) ([]byte, error) {
	if !s.unbound {
		return nil, fmt.Errorf("%w: a %s token is bound to nothing and AllowUnboundState is not set", ErrSealBinding, sealForeign)
	}
	parts := strings.Split(sealed, ".")
	if len(parts) != 4 || plain != nil {
		return nil, ErrSealMalformed
	}
	var field [3][]byte
	for i, p := range parts[1:] {
		b, err := decodeSealBase64(p)
		if err != nil {
			return nil, err
		}
		field[i] = b
	}
	iv, box, tag := field[0], field[1], field[2]
	for _, k := range s.keys {
		root := k.root()
		block, err := aes.NewCipher(root[:])
		if err != nil {
			return nil, err
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		if len(iv) != gcm.NonceSize() || len(tag) != gcm.Overhead() {
			return nil, ErrSealMalformed
		}
		if text, err := gcm.Open(nil, iv, bytes.Join([][]byte{box, tag}, nil), nil); err == nil {
			return text, nil
		}
	}
	return nil, fmt.Errorf("%w, or sealed with none of the keys", ErrSealTampered)
}
