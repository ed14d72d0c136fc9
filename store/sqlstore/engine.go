package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

const (
	// sweepOdds is how many writes there are to a cleaning on the way, and
	// sweepRows how many rows that takes away: more, so that it keeps up.
	sweepOdds = 64
	sweepRows = 256
	// connectTries is how often a statement is sent whose connection broke: a
	// pool may hold several that broke together.
	connectTries = 8
)

// fate says what an engine's error means.
type fate int

const (
	fatal fate = iota // sending it again changes nothing
	busy              // another transaction was in the way
	lost              // no answer: it may have been carried out
	full              // no room
)

// fateOf reads the error of any driver by the methods that drivers share.
func fateOf(err error) fate {
	if pg, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		switch state := pg.SQLState(); {
		case state == "40001" || state == "40P01" || state == "55P03":
			return busy
		case state == "53100" || state == "53200":
			return full
		case strings.HasPrefix(state, "57P") || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "53"):
			return lost
		}
		return fatal
	}
	if lite, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		switch lite.Code() & 0xff {
		case 5, 6: // SQLITE_BUSY, SQLITE_LOCKED
			return busy
		case 13: // SQLITE_FULL
			return full
		}
		return fatal
	}
	return lost
}

// explain says what to do about tables that are not there.
func explain(err error) error {
	pg, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	if ok && pg.SQLState() == "42P01" || !ok && strings.Contains(err.Error(), "no such table") {
		return fmt.Errorf("sqlstore: the tables are not there, Migrate makes them: %w", err)
	}
	return err
}

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// tick is how far apart two readings of SQLite's clock can be, in microseconds.
const tick = 1000

// micros is d as the statements add it to the clock. SQLite's stands still for
// a millisecond, so one more keeps what is due from being over too soon.
func (s *Store) micros(d time.Duration) int64 {
	if s.cfg.Dialect == SQLite && d > 0 {
		return storekit.Micros(d) + tick
	}
	return storekit.Micros(d)
}

// do runs one statement, again where its connection broke or another
// transaction was in the way: every statement of this package finds its own
// work done if it comes twice. unsure goes with an error after which it may
// have been carried out.
func (s *Store) do(ctx context.Context, statement func(context.Context) error) (unsure bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	timed, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.orphans.GiveBack(timed, s.forget); err != nil {
		return false, storekit.Unavailable(ctx, err)
	}
	wait := 5 * time.Millisecond
	for try := 1; ; try++ {
		err := statement(timed)
		if err == nil || isNoRows(err) {
			return false, err
		}
		f := fateOf(err)
		unsure = unsure || f == lost
		switch {
		case f == full:
			return unsure, storekit.Full(err)
		case f == fatal:
			return unsure, storekit.Unavailable(ctx, explain(err))
		case f == lost && try >= connectTries, timed.Err() != nil:
			return unsure, storekit.Unavailable(ctx, err)
		}
		select {
		case <-time.After(wait):
		case <-timed.Done():
			return unsure, storekit.Unavailable(ctx, err)
		}
		wait = min(2*wait, 100*time.Millisecond)
	}
}

func (s *Store) exec(ctx context.Context, query string, args ...any) (int64, error) {
	var n int64
	_, err := s.do(ctx, func(ctx context.Context) error {
		var err error
		n, err = s.execOnce(ctx, query, args...)
		return err
	})
	return n, err
}

func (s *Store) execOnce(ctx context.Context, query string, args ...any) (int64, error) {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return 0, err
	}
	var res sql.Result
	if stmt != nil {
		res, err = stmt.ExecContext(ctx, args...)
	} else {
		res, err = s.db.ExecContext(ctx, query, args...)
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (s *Store) scan(ctx context.Context, query string, args []any, dest ...any) error {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return err
	}
	if stmt != nil {
		return stmt.QueryRowContext(ctx, args...).Scan(dest...)
	}
	return s.db.QueryRowContext(ctx, query, args...).Scan(dest...)
}

// each hands the rows of a query to f, one by one.
func (s *Store) each(ctx context.Context, query string, args []any, f func(scan func(...any) error) error) error {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return err
	}
	var rows *sql.Rows
	if stmt != nil {
		rows, err = stmt.QueryContext(ctx, args...)
	} else {
		rows, err = s.db.QueryContext(ctx, query, args...)
	}
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// prepare keeps SQLite from parsing the same statements for ever. PostgreSQL
// is left to its driver, which knows whether there is a pooler in between.
func (s *Store) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s.cfg.Dialect != SQLite {
		return nil, nil
	}
	if stmt, ok := s.stmts.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := s.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	kept, loaded := s.stmts.LoadOrStore(query, stmt)
	if loaded {
		_ = stmt.Close()
	}
	return kept.(*sql.Stmt), nil
}

// forget takes back a claim whose caller was told that there is none.
func (s *Store) forget(ctx context.Context, o storekit.Orphan, token ma2h.Token) (bool, error) {
	query := s.q.forgetDelivery
	if o.Kind == acts {
		query = s.q.forgetAct
	}
	n, err := s.execOnce(ctx, query, []byte(o.Digest), token)
	return n > 0, err
}

// sweep cleans on the way of some writes. The token is random, so that many
// short processes clean as one long one does.
func (s *Store) sweep(ctx context.Context, token ma2h.Token, kind int) {
	if token>>1%sweepOdds == 0 {
		_, _ = s.exec(ctx, s.q.clean[kind], sweepRows) // the next one will
	}
}

// Clean forgets everything whose time has passed and returns how much that
// was. It works in small transactions. Claims clean a little on their way, so
// it is only for those who want it done at a time of their choice.
func (s *Store) Clean(ctx context.Context) (int64, error) {
	var total int64
	for kind := range kinds {
		for {
			n, err := s.exec(ctx, s.q.clean[kind], sweepRows)
			total += n
			if err != nil {
				return total, err
			}
			if n < sweepRows {
				break
			}
		}
	}
	return total, nil
}
