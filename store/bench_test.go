package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	ma2h "github.com/ma2h/ma2h-go"
)

// yardsticks are what an engine takes for nothing, and for the least that it
// writes durably, on a connection of its own.
type yardsticks struct {
	empty string
	trip  func(context.Context) error
	write func(context.Context) error
}

func yardsticksOf(b *testing.B, engine, place string) yardsticks {
	b.Helper()
	address, _, _ := strings.Cut(place, " ")
	switch engine {
	case "redis":
		rdb := redis.NewClient(&redis.Options{Addr: address})
		b.Cleanup(func() { _ = rdb.Close() })
		key := "ma2h-test-" + rand.Text()
		return yardsticks{
			"PING",
			func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
			func(ctx context.Context) error { return rdb.Set(ctx, key, "1", time.Minute).Err() },
		}
	case "postgres":
		db := openBench(b, "pgx", postgresURL(address))
		db.SetMaxOpenConns(4) // as the store has
		db.SetMaxIdleConns(4)
		table := "ma2h_bench_" + strings.ToLower(rand.Text())
		mustExec(b, db, "CREATE TABLE "+table+" (n BIGINT)")
		b.Cleanup(func() { mustExec(b, db, "DROP TABLE "+table) })
		return yardsticks{
			"SELECT-1",
			func(ctx context.Context) error { var n int; return db.QueryRowContext(ctx, "SELECT 1").Scan(&n) },
			func(ctx context.Context) error {
				_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
				return err
			},
		}
	}
	path := filepath.Join(b.TempDir(), "yardstick.db")
	db := openBench(b, "sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	mustExec(b, db, "CREATE TABLE t (n INTEGER)")
	insert, err := db.Prepare("INSERT INTO t VALUES (1)")
	if err != nil {
		b.Fatal(err)
	}
	return yardsticks{
		"empty-transaction",
		func(ctx context.Context) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			return tx.Commit()
		},
		func(ctx context.Context) error { _, err := insert.ExecContext(ctx); return err },
	}
}

func openBench(b *testing.B, driver, dsn string) *sql.DB {
	b.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

func mustExec(b *testing.B, db *sql.DB, query string) {
	b.Helper()
	if _, err := db.Exec(query); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClaim times a claim beside the yardsticks of its engine, one after
// another, so that all have the same machine. The ratios are what counts.
func BenchmarkClaim(b *testing.B) {
	for _, engine := range []string{"redis", "postgres", "sqlite"} {
		place := engines[engine](b)
		s, closeStore, err := openStore(b.Context(), engine, place)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = closeStore() })
		y := yardsticksOf(b, engine, place)
		n := 0
		for name, op := range map[string]func(context.Context) error{
			"act": func(ctx context.Context) error {
				n++
				_, err := s.Reserve(ctx, ma2h.Act{Key: strconv.Itoa(n), Resolution: "r"}, time.Minute, false)
				return err
			},
			"delivery": func(ctx context.Context) error {
				n++
				_, err := s.ClaimJTI(ctx, strconv.Itoa(n), time.Minute, 4*time.Minute)
				return err
			},
			"lookup": func(ctx context.Context) error {
				_, err := s.Lookup(ctx, ma2h.Act{Key: "1", Resolution: "r"})
				return err
			},
		} {
			b.Run(engine+"/"+name, func(b *testing.B) {
				var trip, write, claim time.Duration
				lap := func(d *time.Duration, f func(context.Context) error) {
					begin := time.Now()
					if err := f(b.Context()); err != nil {
						b.Fatal(err)
					}
					*d += time.Since(begin)
				}
				for b.Loop() {
					lap(&trip, y.trip)
					lap(&claim, op)
					lap(&write, y.write)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(claim.Nanoseconds())/float64(b.N), "ns/claim")
				b.ReportMetric(float64(b.N)/claim.Seconds(), "claims/s")
				b.ReportMetric(float64(claim)/float64(trip), "x-"+y.empty)
				b.ReportMetric(float64(claim)/float64(write), "x-durable-row")
			})
		}
	}
}

// BenchmarkParallelClaims is what an engine gives to 64 callers of one process,
// beside the yardsticks of as many on as many connections.
func BenchmarkParallelClaims(b *testing.B) {
	for _, engine := range []string{"redis", "postgres", "sqlite"} {
		place := engines[engine](b)
		s, closeStore, err := openStore(b.Context(), engine, place)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = closeStore() })
		y := yardsticksOf(b, engine, place)
		for _, op := range []struct {
			name string
			do   func(context.Context) error
		}{
			{y.empty, y.trip},
			{"claim", func(ctx context.Context) error {
				_, err := s.Reserve(ctx, ma2h.Act{Key: rand.Text()}, time.Minute, false)
				return err
			}},
			{"durable-row", y.write},
		} {
			b.Run(engine+"/"+op.name, func(b *testing.B) {
				b.SetParallelism(64 / runtime.GOMAXPROCS(0))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := op.do(b.Context()); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
			})
		}
	}
}
