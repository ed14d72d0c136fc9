package ma2htest

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	mathrand "math/rand/v2"
)

// idSource mints ids of 128 random bits: nobody may guess a resolution_id (§6).
type idSource struct{ read func([]byte) }

var idText = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

func (s *idSource) init(seed uint64) {
	s.read = func(b []byte) { _, _ = rand.Read(b) }
	if seed != 0 {
		var key [32]byte
		binary.LittleEndian.PutUint64(key[:], seed)
		chacha := mathrand.NewChaCha8(key)
		s.read = func(b []byte) { _, _ = chacha.Read(b) }
	}
}

func (s *idSource) next(prefix string) string {
	var b [16]byte
	s.read(b[:])
	return prefix + idText.EncodeToString(b[:])
}
