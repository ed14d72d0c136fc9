// Package redisstore keeps deliveries, acts and submits in Redis 7 or Valkey,
// single, with sentinels or as a cluster.
//
// Every operation is one script on one key, so a claim is atomic and lives in
// one slot. All times are the server's, so the clocks of its clients do not
// matter. Keys of Redis hold a SHA-256 digest of what they stand for, and
// expire by themselves.
//
// # What Redis promises
//
// A claim that Redis loses is an act that can happen twice. It loses writes
// where it is told to:
//
//   - maxmemory-policy must be noeviction. Any other drops claims when memory
//     is short; with noeviction that is ma2h.ErrStoreFull and nothing is acted
//     on.
//   - appendonly yes is needed to outlive a restart. With appendfsync everysec,
//     the default, a crash can take a second or two of claims with it; with
//     always it takes none.
//   - Replicas follow asynchronously. A failover can lose the last claims,
//     whatever appendfsync says, and WAIT makes that rarer and not impossible.
//
// Where an act must not happen twice even then, use PostgreSQL. The outbox
// holds whole messages and is to be guarded as such.
package redisstore

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

// Config shapes a Store. The zero value of an optional field means the default
// that the field documents.
type Config struct {
	// Prefix begins every key: visible ASCII without braces, at most 64.
	// Default: "ma2h:".
	Prefix string
	// Retention is how long an act is remembered after its last change, and a
	// submit after it was put. It must be as long as the Hub may deliver the
	// message again. Default: ma2h.DefaultRetention.
	Retention time.Duration
	// Timeout bounds one operation, the client's own retries included. After
	// it Redis is ma2h.ErrStoreUnavailable. Default: 5 s.
	Timeout time.Duration
}

// Store is a ma2h.Store and a ma2h.Outbox on Redis. It is safe for concurrent
// use by any number of processes. It does not close the client.
type Store struct {
	rdb     redis.UniversalClient
	cfg     Config
	orphans storekit.Orphans
}

var (
	_ ma2h.Store  = (*Store)(nil)
	_ ma2h.Outbox = (*Store)(nil)

	prefixForm = regexp.MustCompile(`^[!-z|~]{1,64}$`)
)

// Kinds of keys.
const (
	deliveries = iota
	acts
	submits
)

// New checks cfg. It does no I/O.
func New(rdb redis.UniversalClient, cfg Config) (*Store, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "ma2h:"
	}
	if cfg.Retention == 0 {
		cfg.Retention = ma2h.DefaultRetention
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = storekit.DefaultTimeout
	}
	bad := func(field, section, format string, args ...any) (*Store, error) {
		return nil, &ma2h.FieldError{Field: "redisstore.Config." + field, Problem: fmt.Sprintf(format, args...), Section: section}
	}
	switch {
	case rdb == nil:
		return bad("rdb", "§6", "is required")
	case !prefixForm.MatchString(cfg.Prefix):
		return bad("Prefix", "§6", "is not visible ASCII without braces, at most 64")
	case cfg.Retention < time.Minute:
		return bad("Retention", "§8.2", "is %s, below 1m", cfg.Retention)
	case cfg.Timeout < 0:
		return bad("Timeout", "§6", "is %s", cfg.Timeout)
	}
	return &Store{rdb: rdb, cfg: cfg}, nil
}

// key is the only key of an operation, so any cluster can run it.
func (s *Store) key(kind int, digest []byte) string {
	return s.cfg.Prefix + [...]string{"delivery:", "act:", "submit:"}[kind] + text(digest)
}

func text(digest []byte) string { return base64.RawURLEncoding.EncodeToString(digest) }

// ClaimJTI implements ma2h.ReplayStore.
func (s *Store) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ma2h.ReplayState, error) {
	if err := storekit.CheckKey(key); err != nil {
		return 0, err
	}
	k := s.key(deliveries, storekit.Digest(key))
	attempt := s.orphans.Take(storekit.Orphan{Kind: deliveries, Digest: k})
	n, err := s.number(ctx, call{
		script: claim, key: k, args: []any{int64(attempt.Token()), storekit.Micros(lease), storekit.Millis(max(lease, keep))}, failed: attempt.Failed,
	})
	if err == nil && ma2h.ReplayState(n) != ma2h.Fresh {
		attempt.Failed(false)
	}
	return ma2h.ReplayState(n), err
}

// SettleJTI implements ma2h.ReplayStore.
func (s *Store) SettleJTI(ctx context.Context, key string, final bool) error {
	if err := storekit.CheckKey(key); err != nil {
		return err
	}
	script := unclaim
	if final {
		script = finalize
	}
	_, err := s.number(ctx, call{script: script, key: s.key(deliveries, storekit.Digest(key))})
	return err
}

// Lookup implements ma2h.Ledger.
func (s *Store) Lookup(ctx context.Context, act ma2h.Act) (ma2h.ActState, error) {
	if err := act.Validate(); err != nil {
		return 0, err
	}
	n, err := s.number(ctx, call{
		script: lookup, key: s.key(acts, storekit.Digest(act.Key)), args: []any{text(storekit.Digest(act.Resolution))},
	})
	return ma2h.ActState(n), err
}

// Reserve implements ma2h.Ledger.
func (s *Store) Reserve(ctx context.Context, act ma2h.Act, lease time.Duration, takeDoubt bool) (ma2h.Reservation, error) {
	if err := act.Validate(); err != nil {
		return ma2h.Reservation{}, err
	}
	k := s.key(acts, storekit.Digest(act.Key))
	var attempt *storekit.Attempt
	take := 0
	if takeDoubt {
		// A doubt that was taken and given back would be free, and it is in
		// doubt: it is left to lapse.
		attempt, take = storekit.NewAttempt(), 1
	} else {
		attempt = s.orphans.Take(storekit.Orphan{Kind: acts, Digest: k})
	}
	n, err := s.number(ctx, call{
		script: reserve, key: k,
		args:   []any{text(storekit.Digest(act.Resolution)), int64(attempt.Token()), storekit.Micros(lease), storekit.Millis(storekit.Sum(lease, s.cfg.Retention)), take},
		failed: attempt.Failed,
	})
	r := ma2h.Reservation{State: ma2h.ActState(n)}
	switch {
	case err != nil:
	case r.State == ma2h.ActClaimed:
		r.Token = attempt.Token()
	default:
		attempt.Failed(false)
	}
	return r, err
}

// Commit implements ma2h.Ledger.
func (s *Store) Commit(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	return s.settle(ctx, commit, act, token)
}

// Release implements ma2h.Ledger.
func (s *Store) Release(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	return s.settle(ctx, release, act, token)
}

// Doubt implements ma2h.Ledger.
func (s *Store) Doubt(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	return s.settle(ctx, doubt, act, token)
}

func (s *Store) settle(ctx context.Context, script *redis.Script, act ma2h.Act, token ma2h.Token) error {
	if err := act.Validate(); err != nil {
		return err
	}
	n, err := s.number(ctx, call{
		script: script, key: s.key(acts, storekit.Digest(act.Key)),
		args: []any{text(storekit.Digest(act.Resolution)), int64(token), storekit.Millis(s.cfg.Retention)},
	})
	if err == nil && n == 0 {
		return ma2h.ErrLeaseLost
	}
	return err
}

// PutSubmit implements ma2h.Outbox.
func (s *Store) PutSubmit(ctx context.Context, key ma2h.SubmitKey, body []byte) (ma2h.Submit, error) {
	if err := key.Validate(); err != nil {
		return ma2h.Submit{}, err
	}
	token := strconv.FormatInt(int64(storekit.NewToken()), 10)
	return s.submit(ctx, token, call{script: put, key: s.key(submits, storekit.SubmitDigest(key)), args: []any{token, body, storekit.Millis(s.cfg.Retention)}})
}

// GetSubmit implements ma2h.Outbox.
func (s *Store) GetSubmit(ctx context.Context, key ma2h.SubmitKey) (ma2h.Submit, error) {
	if err := key.Validate(); err != nil {
		return ma2h.Submit{}, err
	}
	return s.submit(ctx, "", call{script: get, key: s.key(submits, storekit.SubmitDigest(key))})
}

func (s *Store) submit(ctx context.Context, token string, c call) (ma2h.Submit, error) {
	v, err := s.run(ctx, c)
	if err != nil {
		return ma2h.Submit{}, err
	}
	row, ok := v.([]any)
	if !ok || len(row) != 4 {
		return ma2h.Submit{}, fmt.Errorf("%w: the script answered with another shape", ma2h.ErrStoreUnavailable)
	}
	whose, _ := row[0].(string)
	body, ok := row[1].(string)
	if !ok {
		return ma2h.Submit{}, nil
	}
	out := ma2h.Submit{Body: []byte(body), Created: token != "" && whose == token}
	if ack, ok := row[2].(string); ok {
		out.Ack = []byte(ack)
	}
	age, _ := row[3].(int64)
	out.Age = time.Duration(max(0, age)) * time.Microsecond
	return out, nil
}

// AckSubmit implements ma2h.Outbox.
func (s *Store) AckSubmit(ctx context.Context, key ma2h.SubmitKey, ack []byte) error {
	if err := key.Validate(); err != nil {
		return err
	}
	_, err := s.number(ctx, call{script: ackSubmit, key: s.key(submits, storekit.SubmitDigest(key)), args: []any{ack}})
	return err
}

// DropSubmit implements ma2h.Outbox.
func (s *Store) DropSubmit(ctx context.Context, key ma2h.SubmitKey) error {
	if err := key.Validate(); err != nil {
		return err
	}
	_, err := s.number(ctx, call{script: drop, key: s.key(submits, storekit.SubmitDigest(key))})
	return err
}

// millis is a duration as keys expire by it, never shorter than d.
