package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore"
)

// database is an empty one of a dialect. prefix is what tables begin with.
type database struct {
	db     *sql.DB
	cfg    sqlstore.Config
	prefix string
	now    string
}

// dialects runs f on an empty database of each.
func dialects(t *testing.T, f func(t *testing.T, d database)) {
	t.Run("SQLite", func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "ma2h.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		f(t, database{db, sqlstore.Config{Dialect: sqlstore.SQLite, TablePrefix: "x_"}, "x_", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		p := newPostgres(t)
		address := p.schema(t)
		db, cfg := p.db(t, address)
		_, schema, _ := strings.Cut(address, "/")
		f(t, database{db, cfg, schema + ".ma2h_", "(extract(epoch from clock_timestamp()) * 1000000)::bigint"})
	})
}

func (d database) open(t testing.TB) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(d.db, d.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (d database) exec(t testing.TB, query string) {
	t.Helper()
	query = strings.NewReplacer("{p}", d.prefix, "{now}", d.now).Replace(query)
	if _, err := d.db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func (d database) number(t testing.TB, query string) (n int64) {
	t.Helper()
	query = strings.NewReplacer("{p}", d.prefix, "{now}", d.now).Replace(query)
	if err := d.db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// kept wants the one row of a table to be kept for that long, and on SQLite for
// the tick of its clock longer.
func (d database) kept(t testing.TB, table string, want time.Duration) {
	t.Helper()
	got := time.Duration(d.number(t, "SELECT keep_until - changed_at FROM {p}"+table)) * time.Microsecond
	if d.cfg.Dialect == sqlstore.SQLite {
		want += time.Millisecond
	}
	if got != want {
		t.Errorf("it is kept for %s, not %s", got, want)
	}
}

func claimed(t testing.TB, s ma2h.Ledger, act ma2h.Act, lease time.Duration) ma2h.Token {
	t.Helper()
	r, err := s.Reserve(t.Context(), act, lease, false)
	if err != nil || r.State != ma2h.ActClaimed {
		t.Fatalf("Reserve: %v, %v", r.State, err)
	}
	return r.Token
}

func TestManyReplicasMigrateAtOnce(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		var done sync.WaitGroup
		for range 16 {
			done.Go(func() {
				s, err := sqlstore.New(d.db, d.cfg)
				if err == nil {
					err = s.Migrate(t.Context())
				}
				if err == nil {
					_, err = s.Lookup(t.Context(), ma2h.Act{Key: "k"})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		if n := d.number(t, "SELECT count(*) FROM {p}schema"); n != 1 {
			t.Errorf("%d versions are on record", n)
		}
	})
}

func TestTablesOfALaterReleaseAreLeftAlone(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		d.exec(t, "INSERT INTO {p}schema (version) VALUES (2)")
		if err := s.Migrate(t.Context()); !errors.Is(err, sqlstore.ErrLaterSchema) {
			t.Errorf("Migrate: %v", err)
		}
		if n := d.number(t, "SELECT count(*) FROM {p}schema"); n != 2 {
			t.Errorf("%d versions are on record", n)
		}
	})
}

func TestWithoutTablesTheStoreIsUnavailableAndRecoversOnceTheyAreThere(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s, err := sqlstore.New(d.db, d.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Reserve(t.Context(), ma2h.Act{Key: "k"}, time.Hour, false); !errors.Is(err, ma2h.ErrStoreUnavailable) || !strings.Contains(err.Error(), "Migrate makes them") {
			t.Errorf("Reserve: %v", err)
		}
		if _, err := s.PutSubmit(t.Context(), ma2h.SubmitKey{Hub: "h", AgentID: "a", Key: "k"}, []byte("{}")); !errors.Is(err, ma2h.ErrStoreUnavailable) || !strings.Contains(err.Error(), "Migrate makes them") {
			t.Errorf("PutSubmit: %v", err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		claimed(t, s, ma2h.Act{Key: "k"}, time.Hour)
	})
}

func TestOtherTroubleOfTheTablesIsNotTakenForTheirAbsence(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		d.exec(t, "ALTER TABLE {p}act RENAME COLUMN token TO other")
		if _, err := s.Lookup(t.Context(), ma2h.Act{Key: "k"}); !errors.Is(err, ma2h.ErrStoreUnavailable) || strings.Contains(err.Error(), "Migrate") {
			t.Errorf("Lookup: %v", err)
		}
	})
}

func TestAnActIsKeptForTheRetentionFromItsLastChange(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		d.cfg.Retention = 2 * time.Hour
		s := d.open(t)
		act := ma2h.Act{Key: "k", Resolution: "r"}
		keep := func(want time.Duration) {
			t.Helper()
			d.kept(t, "act", want)
		}
		token := claimed(t, s, act, time.Hour)
		keep(3 * time.Hour)
		if err := s.Doubt(t.Context(), act, token); err != nil {
			t.Fatal(err)
		}
		keep(2 * time.Hour)
		r, err := s.Reserve(t.Context(), act, time.Hour, true)
		if err != nil {
			t.Fatal(err)
		}
		keep(3 * time.Hour)
		if err := s.Commit(t.Context(), act, r.Token); err != nil {
			t.Fatal(err)
		}
		keep(2 * time.Hour)

		d.exec(t, "UPDATE {p}act SET keep_until = {now} + 60000000")
		if state, err := s.Lookup(t.Context(), act); err != nil || state != ma2h.ActDone {
			t.Errorf("before its end: %v, %v", state, err)
		}
		d.exec(t, "UPDATE {p}act SET keep_until = {now}")
		if state, err := s.Lookup(t.Context(), act); err != nil || state != 0 {
			t.Errorf("after its end: %v, %v", state, err)
		}
		claimed(t, s, ma2h.Act{Key: "k", Resolution: "another"}, time.Hour)
	})
}

func TestASubmitIsKeptForTheRetention(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		key := ma2h.SubmitKey{AgentID: "a", Key: "k"}
		put := func(body string, created bool) {
			t.Helper()
			kept, err := s.PutSubmit(t.Context(), key, []byte(body))
			if err != nil || kept.Created != created {
				t.Fatalf("created %t, %v", kept.Created, err)
			}
		}
		put("first", true)
		if err := s.AckSubmit(t.Context(), key, []byte("ack")); err != nil {
			t.Fatal(err)
		}
		d.kept(t, "submit", ma2h.DefaultRetention)
		d.exec(t, "UPDATE {p}submit SET keep_until = {now}")
		if kept, err := s.GetSubmit(t.Context(), key); err != nil || kept.Body != nil {
			t.Errorf("after its end: %v, %v", kept, err)
		}
		put("second", true)
		put("third", false)
		if kept, err := s.GetSubmit(t.Context(), key); err != nil || string(kept.Body) != "second" || kept.Ack != nil {
			t.Errorf("the next one: %v, ack %q, %v", kept, kept.Ack, err)
		}
	})
}

func TestCleanTakesWhatIsOverAndNothingElse(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		for i := range 600 {
			if _, err := s.ClaimJTI(t.Context(), fmt.Sprint(i), 0, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		claimed(t, s, ma2h.Act{Key: "live"}, time.Hour)
		claimed(t, s, ma2h.Act{Key: "over"}, time.Hour)
		if _, err := s.PutSubmit(t.Context(), ma2h.SubmitKey{AgentID: "a", Key: "k"}, []byte("body")); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Clean(t.Context()); err != nil || n != 0 {
			t.Errorf("while all live it took %d, %v", n, err)
		}
		d.exec(t, "UPDATE {p}delivery SET keep_until = {now} - changed_at % 1000")
		d.exec(t, "UPDATE {p}submit SET keep_until = {now} - 1")
		d.exec(t, "UPDATE {p}act SET keep_until = {now} WHERE id = (SELECT id FROM {p}act ORDER BY id LIMIT 1)")
		if n, err := s.Clean(t.Context()); err != nil || n != 602 {
			t.Errorf("it took %d, %v", n, err)
		}
		if n := d.number(t, "SELECT count(*) FROM {p}act"); n != 1 {
			t.Errorf("%d acts are left", n)
		}
	})
}

func TestCleaningReadsTheIndexAndNotTheTable(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		explain := "EXPLAIN QUERY PLAN "
		if d.cfg.Dialect == sqlstore.PostgreSQL {
			explain = "EXPLAIN "
			d.exec(t, "INSERT INTO {p}delivery SELECT sha256(i::text::bytea), 1, 0, {now} + i::bigint * 1000000, 0 FROM generate_series(1, 20000) i")
			d.exec(t, "INSERT INTO {p}act SELECT sha256(i::text::bytea), 'r', 1, 0, {now} + i::bigint * 1000000, 0 FROM generate_series(1, 20000) i")
			d.exec(t, "INSERT INTO {p}submit SELECT sha256(i::text::bytea), 1, 'b', NULL, {now} + i::bigint * 1000000, 0 FROM generate_series(1, 20000) i")
			d.exec(t, "ANALYZE {p}delivery, {p}act, {p}submit")
		}
		for i, query := range s.CleanQueries() {
			table := []string{"delivery", "act", "submit"}[i]
			query = strings.NewReplacer("$1", "256", "?1", "256").Replace(query)
			rows, err := d.db.QueryContext(t.Context(), explain+query)
			if err != nil {
				t.Fatal(err)
			}
			var plan strings.Builder
			columns, _ := rows.Columns()
			row := make([]any, len(columns))
			for i := range row {
				row[i] = new(sql.NullString)
			}
			for rows.Next() {
				if err := rows.Scan(row...); err != nil {
					t.Fatal(err)
				}
				plan.WriteString(row[len(row)-1].(*sql.NullString).String + "\n")
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(plan.String(), table+"_keep") || strings.Contains(plan.String(), "Seq Scan") || strings.Contains(plan.String(), "SCAN ") && !strings.Contains(plan.String(), "USING") {
				t.Errorf("%s is cleaned by\n%s", table, plan.String())
			}
		}
	})
}

func TestAClaimThatArrivesTwiceLateTakesNothingThatIsDone(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		act := ma2h.Act{Key: "k", Resolution: "r"}
		token := claimed(t, s, act, time.Hour)
		late := func(want ma2h.ActState) {
			t.Helper()
			if err := s.Late(t.Context(), act, token); err != nil {
				t.Fatal(err)
			}
			if state, err := s.Lookup(t.Context(), act); err != nil || state != want {
				t.Fatalf("the act is %v, %v, not %v", state, err, want)
			}
		}
		late(ma2h.ActInFlight)
		if n := d.number(t, "SELECT count(*) FROM {p}act WHERE lease_until > {now}"); n != 1 {
			t.Errorf("%d leases run", n)
		}
		// One whose answer was lost and that is sent again after its lease is
		// whole again: nobody acted under it.
		d.exec(t, "UPDATE {p}act SET lease_until = {now}")
		late(ma2h.ActInFlight)
		if err := s.Commit(t.Context(), act, token); err != nil {
			t.Fatal(err)
		}
		late(ma2h.ActDone)
	})
}

func TestACallThatWasNotSentLeavesNothingToGiveBack(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, reserveErr := s.Reserve(ctx, ma2h.Act{Key: "k"}, time.Hour, false)
		_, claimErr := s.ClaimJTI(ctx, "k", time.Hour, time.Hour)
		if !errors.Is(reserveErr, context.Canceled) || !errors.Is(claimErr, context.Canceled) || s.Orphans() != 0 {
			t.Errorf("%v, %v, %d to give back", reserveErr, claimErr, s.Orphans())
		}
	})
}

func TestConfigHasBounds(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	good := sqlstore.Config{Dialect: sqlstore.PostgreSQL, Schema: "s", TablePrefix: "p" + strings.Repeat("_", 39), Retention: time.Minute, Timeout: 1}
	if _, err := sqlstore.New(db, good); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.New(nil, good); err == nil {
		t.Error("no database is taken")
	}
	for field, edit := range map[string]func(*sqlstore.Config){
		"Dialect":     func(c *sqlstore.Config) { c.Dialect = 0 },
		"Schema":      func(c *sqlstore.Config) { c.Schema = `s"; --` },
		"Schema ":     func(c *sqlstore.Config) { c.Dialect = sqlstore.SQLite },
		"TablePrefix": func(c *sqlstore.Config) { c.TablePrefix += "_" },
		"Retention":   func(c *sqlstore.Config) { c.Retention-- },
		"Timeout":     func(c *sqlstore.Config) { c.Timeout = -1 },
	} {
		cfg := good
		edit(&cfg)
		_, err := sqlstore.New(db, cfg)
		fe, ok := errors.AsType[*ma2h.FieldError](err)
		if !ok || fe.Field != "sqlstore.Config."+strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// stalled wants a call that hangs to end by the store's Timeout, or at once by
// its context.
func stalled(t *testing.T, s ma2h.Ledger) {
	t.Helper()
	if _, err := s.Reserve(t.Context(), ma2h.Act{Key: "stalled"}, time.Hour, false); !errors.Is(err, ma2h.ErrStoreUnavailable) || errors.Is(err, ma2h.ErrLeaseLost) {
		t.Errorf("by its Timeout: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Reserve(ctx, ma2h.Act{Key: "stalled"}, time.Hour, false); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ma2h.ErrStoreUnavailable) {
		t.Errorf("by its context: %v", err)
	}
}
