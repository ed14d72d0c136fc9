package ma2h

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// MemoryConfig bounds a MemoryStore. Zero fields mean the defaults.
type MemoryConfig struct {
	// MaxEntries bounds the live entries of each kind: deliveries, acts and
	// submits.
	// Default: 1,000,000. A full store is ErrStoreFull.
	MaxEntries int
	// Retention is how long an act is remembered after its last change, and a
	// submit after it was put. It must be as long as the Hub may deliver the
	// message again. Default: 31 days, past the 30 that Hubs are advised to
	// keep messages (§8.2).
	Retention time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// DefaultRetention is how long stores remember acts and submits unless told
// otherwise.
const DefaultRetention = 31 * 24 * time.Hour

// MemoryStore is a Store and an Outbox in memory. It forgets on restart and is blind to the
// replica beside it: it is for one process, for tests, and for acts that do no
// harm twice. It starts no goroutine.
type MemoryStore struct {
	now       func() time.Time
	retention time.Duration
	start     time.Time
	perShard  int
	jtis      [shards]shard[jtiEntry]
	acts      [shards]shard[actEntry]
	submits   [shards]shard[submitEntry]
}

const shards = 64

type digest [16]byte

type jtiEntry struct {
	lease int64 // end of a provisional claim, 0 once final
}

type actEntry struct {
	variant digest
	token   Token
	lease   int64 // end of the claim, 0 once done
}

// NewMemoryStore returns an empty store.
func NewMemoryStore(cfg MemoryConfig) (*MemoryStore, error) {
	if cfg.MaxEntries == 0 {
		cfg.MaxEntries = 1_000_000
	}
	if cfg.Retention == 0 {
		cfg.Retention = DefaultRetention
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxEntries < 0 {
		return nil, invalid("MemoryConfig.MaxEntries", "§9.2", "is %d, below 1", cfg.MaxEntries)
	}
	if cfg.Retention < time.Minute {
		return nil, invalid("MemoryConfig.Retention", "§8.2", "is %s, below 1m", cfg.Retention)
	}
	s := &MemoryStore{now: cfg.Now, retention: cfg.Retention, start: cfg.Now()}
	s.perShard = max(1, (cfg.MaxEntries+shards-1)/shards)
	for i := range shards {
		s.jtis[i].slot = int64(time.Second)
		s.acts[i].slot = int64(max(time.Second, cfg.Retention/1024))
		s.submits[i].slot = s.acts[i].slot
	}
	return s, nil
}

// clock is the store's time in nanoseconds: the earlier of the wall clock and
// the monotonic one, so that a clock that steps, either way, keeps an entry
// longer and never drops one early.
func (s *MemoryStore) clock() int64 {
	now := s.now()
	wall := now.UnixNano()
	return min(wall, s.start.UnixNano()+int64(now.Sub(s.start)))
}

func keyDigest(key string) digest {
	sum := sha256.Sum256([]byte(key))
	return digest(sum[:16])
}

// ClaimJTI implements ReplayStore.
func (s *MemoryStore) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ReplayState, error) {
	if err := errors.Join(ctx.Err(), checkStoreKey("key", "§9.2", key)); err != nil {
		return 0, err
	}
	d, now := keyDigest(key), s.clock()
	sh := &s.jtis[d[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	full := sh.full(now, s.perShard)
	if e, ok := sh.get(d, now); ok {
		if e.lease == 0 {
			return Seen, nil
		}
		if now < e.lease {
			return Pending, nil
		}
	} else if full {
		return 0, ErrStoreFull
	}
	e := jtiEntry{lease: now + int64(lease)}
	if lease == 0 {
		e.lease = 0
	}
	sh.put(d, e, now+int64(max(lease, keep)))
	return Fresh, nil
}

// SettleJTI implements ReplayStore.
func (s *MemoryStore) SettleJTI(ctx context.Context, key string, final bool) error {
	if err := errors.Join(ctx.Err(), checkStoreKey("key", "§9.2", key)); err != nil {
		return err
	}
	d, now := keyDigest(key), s.clock()
	sh := &s.jtis[d[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.live[d]
	switch {
	case !ok:
	case !final && e.value.lease != 0:
		delete(sh.live, d)
	case final:
		sh.put(d, jtiEntry{}, max(e.until, now))
	}
	return nil
}

// state reads an entry as the ledger's contract has it.
func (e actEntry) state(variant digest, now int64) ActState {
	switch {
	case e.variant != variant:
		return ActConflict
	case e.lease == 0:
		return ActDone
	case now < e.lease:
		return ActInFlight
	}
	return ActInDoubt
}

// Lookup implements Ledger.
func (s *MemoryStore) Lookup(ctx context.Context, act Act) (ActState, error) {
	if err := errorsOf(ctx, act); err != nil {
		return 0, err
	}
	d, now := keyDigest(act.Key), s.clock()
	sh := &s.acts[d[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.get(d, now)
	if !ok {
		return 0, nil
	}
	return e.state(keyDigest(act.Resolution), now), nil
}

// Reserve implements Ledger.
func (s *MemoryStore) Reserve(ctx context.Context, act Act, lease time.Duration, takeDoubt bool) (Reservation, error) {
	if err := errorsOf(ctx, act); err != nil {
		return Reservation{}, err
	}
	d, v, now := keyDigest(act.Key), keyDigest(act.Resolution), s.clock()
	token := newToken()
	sh := &s.acts[d[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	full := sh.full(now, s.perShard)
	if e, ok := sh.get(d, now); ok {
		if state := e.state(v, now); state != ActInDoubt || !takeDoubt {
			return Reservation{State: state}, nil
		}
	} else if full {
		return Reservation{}, ErrStoreFull
	}
	sh.put(d, actEntry{variant: v, token: token, lease: now + int64(lease)}, now+int64(lease+s.retention))
	return Reservation{State: ActClaimed, Token: token}, nil
}

// Commit implements Ledger.
func (s *MemoryStore) Commit(ctx context.Context, act Act, token Token) error {
	return s.settle(ctx, act, token, func(sh *shard[actEntry], d digest, e actEntry, now int64) error {
		if e.lease != 0 && now >= e.lease {
			return ErrLeaseLost
		}
		e.lease = 0
		sh.put(d, e, now+int64(s.retention))
		return nil
	})
}

// Release implements Ledger.
func (s *MemoryStore) Release(ctx context.Context, act Act, token Token) error {
	err := s.settle(ctx, act, token, func(sh *shard[actEntry], d digest, e actEntry, now int64) error {
		if now >= e.lease {
			return ErrLeaseLost
		}
		delete(sh.live, d)
		return nil
	})
	if errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

// Doubt implements Ledger.
func (s *MemoryStore) Doubt(ctx context.Context, act Act, token Token) error {
	return s.settle(ctx, act, token, func(sh *shard[actEntry], d digest, e actEntry, now int64) error {
		if e.lease == 0 {
			return ErrLeaseLost
		}
		e.lease = min(e.lease, now)
		sh.put(d, e, now+int64(s.retention))
		return nil
	})
}

// errAbsent is the ErrLeaseLost of a claim of which nothing is known.
var errAbsent = fmt.Errorf("%w: there is no claim", ErrLeaseLost)

func (s *MemoryStore) settle(ctx context.Context, act Act, token Token, change func(*shard[actEntry], digest, actEntry, int64) error) error {
	if err := errorsOf(ctx, act); err != nil {
		return err
	}
	d, now := keyDigest(act.Key), s.clock()
	sh := &s.acts[d[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.get(d, now)
	switch {
	case !ok:
		return errAbsent
	case e.variant != keyDigest(act.Resolution) || e.token != token:
		return ErrLeaseLost
	}
	return change(sh, d, e, now)
}

func errorsOf(ctx context.Context, act Act) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return act.Validate()
}

func newToken() Token {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return Token(binary.BigEndian.Uint64(b[:])>>1 | 1)
}

// shard is a map whose entries expire: each is listed under the time slot in
// which it ends, and a slot that has passed is emptied a few entries at a
// time, so no call ever scans the map.
type shard[V any] struct {
	mu    sync.Mutex
	live  map[digest]timed[V]
	slot  int64 // length of a slot in nanoseconds
	slots map[int64][]digest
	next  int64 // the earliest slot that may hold entries
}

type timed[V any] struct {
	value V
	until int64
}

// expireStep bounds the steps of one cleaning. It is above one, so that
// cleaning outruns filling.
const expireStep = 16

func (s *shard[V]) get(d digest, now int64) (V, bool) {
	e, ok := s.live[d]
	if !ok || now >= e.until {
		var none V
		return none, false
	}
	return e.value, true
}

// put stores an entry and lists it under the slot of its end. An entry that
// had a later end keeps its place there; expire looks at the entry itself.
func (s *shard[V]) put(d digest, v V, until int64) {
	if s.live == nil {
		s.live = make(map[digest]timed[V])
		s.slots = make(map[int64][]digest)
	}
	old, had := s.live[d]
	s.live[d] = timed[V]{v, until}
	slot := until/s.slot + 1
	if had && old.until/s.slot+1 == slot {
		return
	}
	s.slots[slot] = append(s.slots[slot], d)
	if len(s.slots) == 1 || slot < s.next {
		s.next = slot
	}
}

// expire drops entries whose time has passed, a few at a time, and reports
// whether it has come to the end of them.
func (s *shard[V]) expire(now int64) bool {
	last := now / s.slot
	for range expireStep {
		if s.next > last || len(s.slots) == 0 {
			return true
		}
		list := s.slots[s.next]
		if len(list) == 0 {
			delete(s.slots, s.next)
			s.next++
			continue
		}
		d := list[len(list)-1]
		s.slots[s.next] = list[:len(list)-1]
		if e, ok := s.live[d]; ok && now >= e.until {
			delete(s.live, d)
		}
	}
	return false
}

// full cleans as a claim does, and further if there seems to be no room.
func (s *shard[V]) full(now int64, most int) bool {
	done := s.expire(now)
	for len(s.live) >= most && !done {
		done = s.expire(now)
	}
	return len(s.live) >= most
}
