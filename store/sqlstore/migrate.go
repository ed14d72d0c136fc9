package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

// schemaVersion is that of queries.create.
const schemaVersion = 1

// ErrLaterSchema: the tables were made by a later release of this package.
var ErrLaterSchema = errors.New("sqlstore: the tables are of a later release")

// Migrate makes the tables, or brings them to what this release needs. Any
// number of replicas may call it at once. Where the tables are as they should
// be it only reads, so a process without the right to create them may call it.
func (s *Store) Migrate(ctx context.Context) error {
	if s.current(ctx, s.db) == nil {
		return nil
	}
	wait := 10 * time.Millisecond
	for {
		err := s.migrate(ctx)
		if err == nil || errors.Is(err, ErrLaterSchema) {
			return err
		}
		if fateOf(err) != busy || ctx.Err() != nil {
			return storekit.Unavailable(ctx, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return storekit.Unavailable(ctx, err)
		}
		wait = min(2*wait, 200*time.Millisecond)
	}
}

type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

var errOutdated = errors.New("sqlstore: the tables are of an earlier release")

// current is nil if the tables are those of this release.
func (s *Store) current(ctx context.Context, db querier) error {
	var v int
	if err := db.QueryRowContext(ctx, s.q.version).Scan(&v); err != nil {
		return err
	}
	switch {
	case v > schemaVersion:
		return fmt.Errorf("%w: version %d, this one knows %d", ErrLaterSchema, v, schemaVersion)
	case v < schemaVersion:
		return errOutdated
	}
	return nil
}

// migrate holds the one lock that keeps the replicas apart. The transaction is
// made by hand because database/sql cannot say IMMEDIATE.
func (s *Store) migrate(ctx context.Context) (err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	begin, lock := "BEGIN IMMEDIATE", ""
	if s.cfg.Dialect == PostgreSQL {
		begin, lock = "BEGIN", s.q.lockSchema
	}
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return err
	}
	defer func() {
		end := "COMMIT"
		if err != nil {
			end = "ROLLBACK"
		}
		// A context that has ended must not leave the transaction open.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
		defer cancel()
		if _, endErr := conn.ExecContext(ctx, end); err == nil {
			err = endErr
		}
	}()
	if lock != "" {
		if _, err := conn.ExecContext(ctx, lock); err != nil {
			return err
		}
	}
	if _, err := conn.ExecContext(ctx, s.q.createVersion); err != nil {
		return err
	}
	switch err := s.current(ctx, conn); {
	case err == nil, errors.Is(err, ErrLaterSchema):
		return err
	case !errors.Is(err, errOutdated):
		return err
	}
	for _, text := range s.q.create {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, s.q.setVersion, schemaVersion)
	return err
}
