package ma2h

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// MemoryConfig bounds a MemoryStore. Zero fields mean the defaults.
type MemoryConfig struct {
	// MaxEntries bounds the live entries of each kind: deliveries, acts and
	// submits. Default: 1,000,000. A full store is ErrStoreFull.
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

// MemoryStore is a Store and an Outbox in memory. It forgets on restart and is
// blind to the replica beside it: it is for one process, for tests, and for
// acts that do no harm twice. It starts no goroutine.
type MemoryStore struct {
	now       func() time.Time
	retention time.Duration
	start     time.Time
	jtis      table[jtiEntry]
	acts      table[actEntry]
	submits   table[submitEntry]
}

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
	s.jtis.init(cfg.MaxEntries, time.Second)
	slot := max(time.Second, cfg.Retention/1024)
	s.acts.init(cfg.MaxEntries, slot)
	s.submits.init(cfg.MaxEntries, slot)
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

// after is d past now, and the end of time where there is none.
func after(now int64, d time.Duration) int64 {
	if d > 0 && now > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return now + int64(d)
}

func keyDigest(key string) digest {
	var buf [256]byte // spares an allocation
	sum := sha256.Sum256(append(buf[:0], key...))
	return digest(sum[:16])
}

// ClaimJTI implements ReplayStore.
func (s *MemoryStore) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ReplayState, error) {
	if err := errors.Join(ctx.Err(), checkStoreKey("key", "§9.2", key)); err != nil {
		return 0, err
	}
	d, now := keyDigest(key), s.clock()
	state := Fresh
	err := s.jtis.claim(d, now, func(e jtiEntry, ok bool) (jtiEntry, int64, bool) {
		switch {
		case !ok:
		case e.lease == 0:
			state = Seen
		case now < e.lease:
			state = Pending
		}
		taken := jtiEntry{lease: after(now, lease)}
		if lease == 0 {
			taken.lease = 0 // final at once
		}
		return taken, after(now, max(lease, keep)), state == Fresh
	})
	if err != nil {
		return 0, err
	}
	return state, nil
}

// SettleJTI implements ReplayStore.
func (s *MemoryStore) SettleJTI(ctx context.Context, key string, final bool) error {
	if err := errors.Join(ctx.Err(), checkStoreKey("key", "§9.2", key)); err != nil {
		return err
	}
	d := keyDigest(key)
	sh := s.jtis.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i := sh.find(d)
	switch {
	case i == 0:
	case final:
		sh.put(i, jtiEntry{}, sh.entries[i].until)
	case sh.entries[i].value.lease != 0:
		sh.drop(i)
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
	if err := errors.Join(ctx.Err(), act.Validate()); err != nil {
		return 0, err
	}
	d, now := keyDigest(act.Key), s.clock()
	sh := s.acts.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, _, ok := sh.get(d, now)
	if !ok {
		return 0, nil
	}
	return e.state(keyDigest(act.Resolution), now), nil
}

// Reserve implements Ledger.
func (s *MemoryStore) Reserve(ctx context.Context, act Act, lease time.Duration, takeDoubt bool) (Reservation, error) {
	if err := errors.Join(ctx.Err(), act.Validate()); err != nil {
		return Reservation{}, err
	}
	d, v, now := keyDigest(act.Key), keyDigest(act.Resolution), s.clock()
	res := Reservation{State: ActClaimed, Token: newToken()}
	err := s.acts.claim(d, now, func(e actEntry, ok bool) (actEntry, int64, bool) {
		if ok {
			if state := e.state(v, now); state != ActInDoubt || !takeDoubt {
				res = Reservation{State: state}
			}
		}
		end := after(now, lease)
		return actEntry{variant: v, token: res.Token, lease: end}, after(end, s.retention), res.State == ActClaimed
	})
	if err != nil {
		return Reservation{}, err
	}
	return res, nil
}

// Commit implements Ledger.
func (s *MemoryStore) Commit(ctx context.Context, act Act, token Token) error {
	return s.settle(ctx, act, token, func(sh *shard[actEntry], i uint32, e actEntry, now int64) error {
		if e.lease != 0 && now >= e.lease {
			return ErrLeaseLost
		}
		e.lease = 0
		sh.put(i, e, after(now, s.retention))
		return nil
	})
}

// Release implements Ledger.
func (s *MemoryStore) Release(ctx context.Context, act Act, token Token) error {
	err := s.settle(ctx, act, token, func(sh *shard[actEntry], i uint32, e actEntry, now int64) error {
		if now >= e.lease {
			return ErrLeaseLost
		}
		sh.drop(i)
		return nil
	})
	if errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

// Doubt implements Ledger.
func (s *MemoryStore) Doubt(ctx context.Context, act Act, token Token) error {
	return s.settle(ctx, act, token, func(sh *shard[actEntry], i uint32, e actEntry, now int64) error {
		if e.lease == 0 {
			return ErrLeaseLost
		}
		e.lease = now
		sh.put(i, e, after(now, s.retention))
		return nil
	})
}

// errAbsent is the ErrLeaseLost of a claim of which nothing is known.
var errAbsent = fmt.Errorf("%w: there is no claim", ErrLeaseLost)

func (s *MemoryStore) settle(ctx context.Context, act Act, token Token, change func(*shard[actEntry], uint32, actEntry, int64) error) error {
	if err := errors.Join(ctx.Err(), act.Validate()); err != nil {
		return err
	}
	d, now := keyDigest(act.Key), s.clock()
	sh := s.acts.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, i, ok := sh.get(d, now)
	switch {
	case !ok:
		return errAbsent
	case e.variant != keyDigest(act.Resolution) || e.token != token:
		return ErrLeaseLost
	}
	return change(sh, i, e, now)
}

func newToken() Token {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return Token(binary.BigEndian.Uint64(b[:])>>1 | 1)
}
