// Package storekit is what the stores on engines have in common.
package storekit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// maxKey bounds a replay key, in bytes.
const maxKey = 1024

// DefaultTimeout bounds one operation of a store.
const DefaultTimeout = 5 * time.Second

// CheckKey refuses a replay key out of its bounds.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey {
		return &ma2h.FieldError{Field: "key", Problem: fmt.Sprintf("is %d bytes, not 1 to %d", len(key), maxKey), Section: "§9.2"}
	}
	return nil
}

// Digest is what a store keeps of a key: of fixed size, any bytes, and nothing
// to read.
func Digest(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// SubmitDigest is Digest of a SubmitKey.
func SubmitDigest(k ma2h.SubmitKey) []byte {
	return Digest(strconv.Itoa(len(k.Hub)) + ":" + k.Hub + strconv.Itoa(len(k.AgentID)) + ":" + k.AgentID + k.Key)
}

// NewToken returns a positive random token. The client makes it, so that a
// claim whose answer was lost can be sent again and recognised.
func NewToken() ma2h.Token {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return ma2h.Token(binary.BigEndian.Uint64(b[:])>>1 | 1)
}

// Micros is a duration as engines count it, never shorter than d.
func Micros(d time.Duration) int64 {
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// Unavailable wraps an engine's error. The caller's own context comes first:
// a call that it ended says nothing about the engine.
func Unavailable(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("ma2h: store: %w", cause)
	}
	if errors.Is(err, ma2h.ErrStoreFull) || errors.Is(err, ma2h.ErrStoreUnavailable) || errors.Is(err, ma2h.ErrLeaseLost) {
		return err
	}
	return fmt.Errorf("%w: %w", ma2h.ErrStoreUnavailable, err)
}

// Full says that the engine has no room.
func Full(err error) error { return fmt.Errorf("%w: %w", ma2h.ErrStoreFull, err) }
