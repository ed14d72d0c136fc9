// Package sqlstore keeps deliveries, acts and submits in the SQL database that
// an agent has already: PostgreSQL for many replicas, SQLite for one machine
// (package sqlite below this one opens a file in one line).
//
// It imports no driver: open a *sql.DB with the driver of your choice, such as
// pgx, and call Migrate once at the start of each process. Every operation is
// one statement and one round trip; claims and commits that come together share
// one, and what the database does to make it last. All times are the database server's, so
// the clocks of its clients do not matter; keys are stored as SHA-256 digests.
//
// What is promised is what the database promises of a commit. On PostgreSQL
// leave synchronous_commit on, and read from the primary: after a failover to
// an asynchronous replica the last claims may be gone, and what they guarded
// can happen twice.
//
// The outbox table holds whole messages and is to be guarded as such. The
// other tables hold digests, tokens and times.
package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"sync"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

// Dialect is the SQL that a database speaks.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1 // 11 or later
	SQLite                        // 3.42 or later
)

// Config shapes a Store. The zero value of an optional field means the default
// that the field documents.
type Config struct {
	// Dialect is what the database speaks. Required.
	Dialect Dialect
	// Schema is the PostgreSQL schema of the tables, which must exist.
	// Default: the first of the search_path.
	Schema string
	// TablePrefix begins the name of every table: a lower-case letter or an
	// underscore, then those and digits, at most 40. Default: "ma2h_".
	TablePrefix string
	// Retention is how long an act is remembered after its last change, and a
	// submit after it was put. It must be as long as the Hub may deliver the
	// message again. Default: ma2h.DefaultRetention.
	Retention time.Duration
	// Timeout bounds one operation, beside the context's own end. After it the
	// database is ma2h.ErrStoreUnavailable. Default: 5 s.
	Timeout time.Duration
}

// Store is a ma2h.Store and a ma2h.Outbox on a database. It is safe for
// concurrent use by any number of processes. It starts no goroutine but to send
// what has gathered, and does not close the *sql.DB.
type Store struct {
	db                                *sql.DB
	cfg                               Config
	q                                 queries
	orphans                           storekit.Orphans
	claims, finals, reserves, commits gather
	stmts                             sync.Map // query to *sql.Stmt
}

var (
	_ ma2h.Store  = (*Store)(nil)
	_ ma2h.Outbox = (*Store)(nil)

	prefixForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)
)

// New checks cfg. It does no I/O.
func New(db *sql.DB, cfg Config) (*Store, error) {
	if cfg.TablePrefix == "" {
		cfg.TablePrefix = "ma2h_"
	}
	if cfg.Retention == 0 {
		cfg.Retention = ma2h.DefaultRetention
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = storekit.DefaultTimeout
	}
	bad := func(field, section, format string, args ...any) (*Store, error) {
		return nil, &ma2h.FieldError{Field: "sqlstore.Config." + field, Problem: fmt.Sprintf(format, args...), Section: section}
	}
	switch {
	case db == nil:
		return bad("db", "§6", "is required")
	case cfg.Dialect != PostgreSQL && cfg.Dialect != SQLite:
		return bad("Dialect", "§6", "is required: PostgreSQL or SQLite")
	case !prefixForm.MatchString(cfg.TablePrefix):
		return bad("TablePrefix", "§6", "is not lower-case letters, digits and underscores, at most 40")
	case cfg.Schema != "" && cfg.Dialect != PostgreSQL:
		return bad("Schema", "§6", "is of PostgreSQL only")
	case cfg.Schema != "" && !prefixForm.MatchString(cfg.Schema):
		return bad("Schema", "§6", "is not lower-case letters, digits and underscores, at most 40")
	case cfg.Retention < time.Minute:
		return bad("Retention", "§8.2", "is %s, below 1m", cfg.Retention)
	case cfg.Timeout < 0:
		return bad("Timeout", "§6", "is %s", cfg.Timeout)
	}
	s := &Store{db: db, cfg: cfg, q: newQueries(cfg)}
	token := func(e *entry) []any { return []any{&e.token} }
	s.claims = gather{s: s, one: s.q.claim, many: s.q.claims, blobs: 1, row: func(e *entry) []any {
		return []any{&e.token, &e.until}
	}}
	s.finals = gather{s: s, one: s.q.finalize, many: s.q.finals, blobs: 1, row: token, maybe: true}
	s.reserves = gather{s: s, one: s.q.reserve, many: s.q.reserves, blobs: 2, row: func(e *entry) []any {
		return []any{&e.resolution, &e.token, &e.until, &e.now}
	}}
	s.commits = gather{s: s, one: s.q.commit, many: s.q.commits, blobs: 2, row: token, maybe: true}
	return s, nil
}

// ClaimJTI implements ma2h.ReplayStore.
func (s *Store) ClaimJTI(ctx context.Context, key string, lease, keep time.Duration) (ma2h.ReplayState, error) {
	if err := storekit.CheckKey(key); err != nil {
		return 0, err
	}
	id := storekit.Digest(key)
	attempt := s.orphans.Take(storekit.Orphan{Kind: deliveries, Digest: string(id)})
	mine := attempt.Token()
	e, unsure, err := s.claims.do(ctx, []any{id, mine, s.micros(lease), s.micros(max(lease, keep))})
	if err == nil && e.token == mine {
		s.sweep(ctx, mine, deliveries)
		return ma2h.Fresh, nil
	}
	attempt.Failed(unsure)
	switch {
	case err != nil:
		return 0, err
	case e.until == 0:
		return ma2h.Seen, nil
	}
	return ma2h.Pending, nil
}

// SettleJTI implements ma2h.ReplayStore.
func (s *Store) SettleJTI(ctx context.Context, key string, final bool) error {
	if err := storekit.CheckKey(key); err != nil {
		return err
	}
	id := storekit.Digest(key)
	if final {
		_, _, err := s.finals.do(ctx, []any{id})
		return err
	}
	_, err := s.exec(ctx, s.q.unclaim, id)
	return err
}

// Lookup implements ma2h.Ledger.
func (s *Store) Lookup(ctx context.Context, act ma2h.Act) (ma2h.ActState, error) {
	if err := act.Validate(); err != nil {
		return 0, err
	}
	var e entry
	_, err := s.do(ctx, func(ctx context.Context) error {
		return s.scan(ctx, s.q.lookup, []any{storekit.Digest(act.Key)}, &e.resolution, &e.token, &e.until, &e.now)
	})
	switch {
	case isNoRows(err):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return e.state(storekit.Digest(act.Resolution)), nil
}

// Reserve implements ma2h.Ledger.
func (s *Store) Reserve(ctx context.Context, act ma2h.Act, lease time.Duration, takeDoubt bool) (ma2h.Reservation, error) {
	if err := act.Validate(); err != nil {
		return ma2h.Reservation{}, err
	}
	id, resolution := storekit.Digest(act.Key), storekit.Digest(act.Resolution)
	claim, take := s.reserves.do, 0
	var attempt *storekit.Attempt
	if takeDoubt {
		// A doubt that was taken and given back would be free, and it is in
		// doubt: it is left to lapse.
		claim, take, attempt = s.reserves.alone, 1, storekit.NewAttempt()
	} else {
		attempt = s.orphans.Take(storekit.Orphan{Kind: acts, Digest: string(id)})
	}
	mine := attempt.Token()
	e, unsure, err := claim(ctx, []any{id, resolution, mine, s.micros(lease), s.micros(storekit.Sum(lease, s.cfg.Retention)), take})
	// The token may be one of an earlier attempt that did take hold, for another
	// resolution than this.
	if state := e.state(resolution); err == nil && e.token == mine && state != ma2h.ActConflict && state != ma2h.ActDone {
		s.sweep(ctx, mine, acts)
		return ma2h.Reservation{State: ma2h.ActClaimed, Token: mine}, nil
	}
	attempt.Failed(unsure)
	if err != nil {
		return ma2h.Reservation{}, err
	}
	return ma2h.Reservation{State: e.state(resolution)}, nil
}

// Commit implements ma2h.Ledger.
func (s *Store) Commit(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	if err := act.Validate(); err != nil {
		return err
	}
	e, _, err := s.commits.do(ctx, s.settling(act, token))
	if err == nil && !e.found {
		return ma2h.ErrLeaseLost
	}
	return err
}

// Doubt implements ma2h.Ledger.
func (s *Store) Doubt(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	if err := act.Validate(); err != nil {
		return err
	}
	n, err := s.exec(ctx, s.q.doubt, s.settling(act, token)...)
	if err == nil && n == 0 {
		return ma2h.ErrLeaseLost
	}
	return err
}

func (s *Store) settling(act ma2h.Act, token ma2h.Token) []any {
	return []any{storekit.Digest(act.Key), storekit.Digest(act.Resolution), token, s.micros(s.cfg.Retention)}
}

// Release implements ma2h.Ledger.
func (s *Store) Release(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	if err := act.Validate(); err != nil {
		return err
	}
	n, err := s.exec(ctx, s.q.release, storekit.Digest(act.Key), storekit.Digest(act.Resolution), token)
	if err != nil || n > 0 {
		return err
	}
	switch state, err := s.Lookup(ctx, act); {
	case err != nil:
		return err
	case state != 0:
		return ma2h.ErrLeaseLost
	}
	return nil
}

// entry is a row of the acts, and the time at which it was read.
type entry struct {
	resolution []byte
	token      ma2h.Token
	until      int64
	now        int64
	found      bool
}

func (e *entry) state(resolution []byte) ma2h.ActState {
	switch {
	case string(e.resolution) != string(resolution):
		return ma2h.ActConflict
	case e.until == 0:
		return ma2h.ActDone
	case e.now < e.until:
		return ma2h.ActInFlight
	}
	return ma2h.ActInDoubt
}
