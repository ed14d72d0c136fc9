package ma2h

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

// Reasons for which a state is not opened. Which of them it is helps the
// operator; all of them mean: do not act (§9.3).
var (
	// ErrSealMalformed: not a sealed state that this release reads, or none.
	ErrSealMalformed = errors.New("ma2h: not a sealed state")
	// ErrSealKeyUnknown: sealed under a key id that is not in SealerConfig.Keys.
	ErrSealKeyUnknown = errors.New("ma2h: sealed under an unknown key id")
	// ErrSealKey: the key id is known, but names another key here, or the
	// state is of another agent id.
	ErrSealKey = errors.New("ma2h: sealed with another key or for another agent")
	// ErrSealTampered: the right key, but not what it sealed.
	ErrSealTampered = errors.New("ma2h: sealed state was changed")
	// ErrSealBinding: intact, but sealed for another question or other facts.
	ErrSealBinding = errors.New("ma2h: sealed state is not bound to this")
	// ErrSealExpired: intact and bound to this, but past its expiry.
	ErrSealExpired = errors.New("ma2h: sealed state has expired")
	// ErrSealType: intact and current, but it does not decode into the given
	// Go type: another release of the agent sealed it.
	ErrSealType = errors.New("ma2h: sealed state does not fit the Go type")
)

// maxStatePlain bounds the JSON text of a state before it is sealed.
const maxStatePlain = 64 << 10

// SealerConfig configures a Sealer. It is copied.
type SealerConfig struct {
	// Keys is the key ring: the first seals, all open. Ids must differ. To
	// rotate, put the new key first and keep the old one until the last
	// question sealed under it is done.
	Keys []SealKey
	// AgentID is the agent's own agent.id. Each agent id has subkeys of its
	// own, so one agent cannot open the state of another (§9.3).
	AgentID string
	// Readable leaves the state legible to the Hub and only authenticates it
	// (HMAC-SHA256, §9.3). For state that is no secret. Numbers must then be
	// ones that a double carries exactly, since a Hub may parse and rewrite
	// them. It is always deterministic.
	Readable bool
	// Deterministic makes equal state with an equal Binding give equal bytes,
	// so that a retry after a crash is the same submit (§8.1). The price: the
	// Hub sees when two states of one question are equal.
	Deterministic bool
	// AllowUnboundState also opens MA2HSEALv1 tokens of other MA2H agents, with
	// the raw keys of the ring in order. They carry no key id, no expiry and no
	// binding: the Hub may return the state of any other question, and Open
	// cannot tell.
	AllowUnboundState bool
	// Now is the clock for expiries. Nil means time.Now.
	Now func() time.Time
	// Rand is the source of randomness, safe for concurrent use. Nil means
	// crypto/rand.
	Rand io.Reader
}

// Sealer seals the resume state of one agent and opens it in a later process,
// after it has travelled through a Hub that is trusted with neither secrecy
// nor integrity (§9.3). State sealed by any release opens in all later ones.
//
// A Sealer is immutable and safe for concurrent use.
type Sealer struct {
	agentID       string
	keys          []*agentKey
	readable      bool
	deterministic bool
	unbound       bool
	now           func() time.Time
	rand          io.Reader
}

// NewSealer checks cfg and returns a *FieldError for the first thing wrong
// with it. It does no I/O.
func NewSealer(cfg SealerConfig) (*Sealer, error) {
	fail := func(field, problem string) (*Sealer, error) {
		return nil, &types.FieldError{Field: "SealerConfig." + field, Problem: problem, Section: "§9.3"}
	}
	switch {
	case cfg.AgentID == "":
		return fail("AgentID", "is required")
	case len(cfg.AgentID) > limits.MaxIDLen:
		return fail("AgentID", fmt.Sprintf("is %d bytes, over %d", len(cfg.AgentID), limits.MaxIDLen))
	case len(cfg.Keys) == 0:
		return fail("Keys", "is required")
	}
	s := &Sealer{
		agentID:       cfg.AgentID,
		readable:      cfg.Readable,
		deterministic: cfg.Deterministic,
		unbound:       cfg.AllowUnboundState,
		now:           cfg.Now,
		rand:          cfg.Rand,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.rand == nil {
		s.rand = rand.Reader
	}
	for i, k := range cfg.Keys {
		field := fmt.Sprintf("Keys[%d]", i)
		switch {
		case k.err != nil:
			return fail(field, k.err.Error())
		case k.key == nil:
			return fail(field, "is empty")
		case s.key(k.id) != nil:
			return fail(field, "repeats the id of an earlier key")
		}
		ak, err := newAgentKey(k, cfg.AgentID)
		if err != nil {
			return nil, within("SealerConfig."+field, err)
		}
		s.keys = append(s.keys, ak)
	}
	return s, nil
}

func (s *Sealer) key(id string) *agentKey {
	for _, k := range s.keys {
		if k.id == id {
			return k
		}
	}
	return nil
}

// Seal returns v, sealed, as the JSON object for the envelope's state (§4). v
// must marshal to a JSON object of at most 64 KiB.
//
// It returns a *FieldError where v does not, ErrSealBinding for a Binding of
// another agent or without an idempotency key, ErrSealExpired where
// Binding.Until is not ahead, and the error of the random source.
func (s *Sealer) Seal(v any, b Binding) (types.Raw, error) {
	if s == nil || len(s.keys) == 0 {
		return nil, fmt.Errorf("%w: Sealer", ErrZeroValue)
	}
	if err := b.valid(s.agentID); err != nil {
		return nil, err
	}
	expiry, err := b.seconds(s.now())
	if err != nil {
		return nil, err
	}
	plain, err := marshalState(v)
	if err != nil {
		return nil, err
	}
	if s.readable {
		if plain, err = legible(plain); err != nil {
			return nil, err
		}
	}
	if len(plain) > maxStatePlain {
		return nil, stateError(fmt.Sprintf("is %d bytes of JSON, over %d", len(plain), maxStatePlain))
	}

	k, sub := s.keys[0], s.keys[0].sub()
	head := append(binary.BigEndian.AppendUint64(nil, uint64(expiry)), sub.bindTag(b)...)
	if s.readable {
		prefix := tokenPrefix(k, sealReadable)
		token := sealBase64.AppendEncode(prefix, append(head, sub.readableMAC(prefix, head, plain)...))
		return fmt.Appendf(nil, `{"plain":%s,"sealed":"%s"}`, plain, token), nil
	}

	var seed []byte
	if !s.deterministic {
		seed = make([]byte, seedLen)
		if _, err := io.ReadFull(s.rand, seed); err != nil {
			return nil, fmt.Errorf("ma2h: no randomness to seal state: %w", err)
		}
	}
	prefix := tokenPrefix(k, sealEncrypted)
	// The nonce depends on the text besides the seed. A random source that
	// repeats itself, as after the restore of a snapshot, then cannot put two
	// texts under one nonce; and without a seed it is the synthetic one.
	nonce := sealPRF(sub.nonce, prefix, []byte{byte(len(seed))}, seed, head, plain)[:sub.aead.NonceSize()]
	box := sub.aead.Seal(nonce, nonce, append(head, plain...), prefix)
	return fmt.Appendf(nil, `{"sealed":"%s"}`, sealBase64.AppendEncode(prefix, box)), nil
}

// Open authenticates state and decodes it into v, a non-nil pointer. Member
// names match exactly, and members that v has no place for are dropped. *v is
// replaced as a whole, and left as it was on any error.
//
// Open comes after the signature of the Response held and before anything is
// acted on (§2.1). A state that does not open is one of the ErrSeal errors.
func (s *Sealer) Open(state types.Raw, v any, b Binding) error {
	if s == nil || len(s.keys) == 0 {
		return fmt.Errorf("%w: Sealer", ErrZeroValue)
	}
	dst := reflect.ValueOf(v)
	if dst.Kind() != reflect.Pointer || dst.IsNil() {
		return errors.New("ma2h: Open needs a non-nil pointer")
	}
	if err := b.valid(s.agentID); err != nil {
		return err
	}
	sealed, plain := splitState(state)
	if strings.HasPrefix(sealed, sealForeign+".") {
		text, err := s.openForeign(sealed, plain)
		if err != nil {
			return err
		}
		return decodeState(text, dst)
	}
	t, err := parseSealToken(sealed)
	if err != nil {
		return err
	}
	k := s.key(t.keyID)
	if k == nil {
		return fmt.Errorf("%w %s", ErrSealKeyUnknown, types.Quote(t.keyID))
	}
	if t.check != k.check {
		return ErrSealKey
	}
	sub := k.sub()
	head, text, err := sub.authenticate(t, plain)
	if err != nil {
		return err
	}
	if !hmac.Equal(head[expiryLen:], sub.bindTag(b)) {
		return ErrSealBinding
	}
	expiry := int64(binary.BigEndian.Uint64(head))
	if expiry != 0 && !s.now().Before(time.Unix(expiry, 0)) {
		return ErrSealExpired
	}
	return decodeState(text, dst)
}
