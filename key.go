package ma2h

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"io"
	"strings"
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewKey returns a random idempotency key. Make one for each question, never
// for each attempt, and keep it with whatever survives a crash (§8.1).
func NewKey() string { return "key_" + strings.ToLower(rand.Text()) }

// KeyOf returns an idempotency key made from what is decided, such as a
// repository, a commit and an environment: the same facts give the same key on
// every machine. Different lists of parts give different keys.
func KeyOf(parts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		io.WriteString(h, p)
	}
	return "key_" + base32Lower.EncodeToString(h.Sum(nil)[:20])
}

func randomID(r io.Reader, prefix string) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return "", err
	}
	return prefix + strings.ToLower(base32Lower.EncodeToString(b[:])), nil
}
