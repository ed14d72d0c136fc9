package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/redisstore"
	"github.com/ma2h/ma2h-go/store/sqlstore"
	"github.com/ma2h/ma2h-go/store/sqlstore/sqlite"
)

// live is how many deliveries are remembered while more come, and keep for how
// many seconds.
const (
	live = 1_000_000
	keep = 241
)

// jtiKey is what a delivery is called in a replay store.
func jtiKey(i int64) string {
	return "jti\x00Keys\x00" + agentID + "\x00jti_" + strconv.FormatInt(1e12+i, 10)
}

// replay claims on all cores among a million live entries, of which as many
// end as come.
func replay(ctx context.Context, m *meter) ([]row, error) {
	var seconds atomic.Int64
	start := time.Now()
	before := heapInUse()
	store, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{
		MaxEntries: 2 * live,
		Now:        func() time.Time { return start.Add(time.Duration(seconds.Load()) * time.Second) },
	})
	if err != nil {
		return nil, err
	}
	var claimed int64 // in the runs before this one
	claims := abreast(runtime.GOMAXPROCS(0), func(_, i int) error {
		if i%(live/keep) == 0 {
			seconds.Add(1)
		}
		state, err := store.ClaimJTI(ctx, jtiKey(claimed+int64(i)), 0, keep*time.Second)
		if err == nil && state != ma2h.Fresh {
			err = errors.New("a new delivery is not fresh")
		}
		return err
	})
	ours := func(n int) (time.Duration, error) {
		d, err := claims(n)
		claimed += int64(n)
		return d, err
	}
	if _, err := ours(live); err != nil {
		return nil, err
	}
	perEntry := float64(heapInUse()-before) / live
	plain := newPlainMap()
	plainEntry := float64(heapInUse()-before)/live - perEntry
	ns, err := m.least(
		subject{run: ours},
		subject{run: abreast(runtime.GOMAXPROCS(0), func(int, int) error { return plain.claim() })},
	)
	if err != nil {
		return nil, err
	}
	runtime.KeepAlive(store)
	first := beside(fmt.Sprintf("replay claim among %d live, on all cores", live), ns[0], "a plain map under a mutex, as many keys", ns[1])
	first.reach = atMost(ns[0], 400, " ns")
	return []row{first, {
		what: "  memory", ours: fmt.Sprintf("%.0f bytes an entry", perEntry),
		theirs: fmt.Sprintf("%.0f bytes", plainEntry), ratio: perEntry / plainEntry, reach: atMost(perEntry, 150, " bytes"),
	}}, nil
}

// plainMap remembers the last million keys, and forgets by their number, which
// no real one could.
type plainMap struct {
	mu   sync.Mutex
	keys map[string]int64
	n    int64
}

func newPlainMap() *plainMap {
	p := &plainMap{keys: make(map[string]int64)}
	for range live {
		p.n++
		p.keys[jtiKey(p.n)] = p.n
	}
	return p
}

func (p *plainMap) claim() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	key := jtiKey(p.n)
	if _, ok := p.keys[key]; ok {
		return errors.New("a new key is there")
	}
	p.keys[key] = p.n
	delete(p.keys, jtiKey(p.n-live))
	return nil
}

// engine is an empty store of a database, and what the same database takes for
// nothing and for the least that it writes.
type engine struct {
	name         string
	store        ma2h.Store
	trip, write  string
	tripping     func(context.Context) error
	writing      func(context.Context) error
	close        func()
	notAvailable string // why there is none
}

// connections of the store and, apart, of its yardsticks, where a server takes
// several.
const connections = 16

func sqliteEngine(ctx context.Context) (e engine, err error) {
	e.name, e.trip, e.write = "SQLite", "an empty transaction", "a durable row"
	dir, err := os.MkdirTemp("", "ma2h-bench-")
	if err != nil {
		return e, err
	}
	var closers []func() error
	e.close = func() {
		for _, c := range closers {
			_ = c()
		}
		_ = os.RemoveAll(dir)
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "store.db"))
	if err != nil {
		return e, err
	}
	e.store, closers = s, append(closers, s.Close)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "yardstick.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return e, err
	}
	closers = append(closers, db.Close)
	db.SetMaxOpenConns(1) // as the store: there is one writer
	// The log of a database that has been in use is as long as it gets, and a
	// row is written into it rather than after it.
	for _, q := range []string{"CREATE TABLE fill AS SELECT zeroblob(8000000)", "DROP TABLE fill", "PRAGMA wal_checkpoint(RESTART)", "CREATE TABLE t (n INTEGER)"} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return e, err
		}
	}
	insert, err := db.PrepareContext(ctx, "INSERT INTO t VALUES (1)")
	e.writing = func(ctx context.Context) error { _, err := insert.ExecContext(ctx); return err }
	e.tripping = func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	return e, err
}

func postgresEngine(ctx context.Context) (e engine, err error) {
	e.name, e.trip, e.write = "PostgreSQL", "SELECT 1", "a durable row"
	address := server("MA2H_TEST_POSTGRES", "127.0.0.1:5432", &e.notAvailable)
	e.close = func() {}
	if e.notAvailable != "" {
		return e, nil
	}
	db, err := sql.Open("pgx", "postgres://postgres@"+address+"/test?sslmode=disable")
	if err != nil {
		return e, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	schema := "ma2h_bench_" + strings.ToLower(rand.Text())
	e.close = func() {
		_, _ = db.Exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE")
		_ = db.Close()
	}
	for _, q := range []string{"CREATE SCHEMA " + schema, "CREATE TABLE " + schema + ".yardstick (n BIGINT)"} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return e, err
		}
	}
	s, err := sqlstore.New(db, sqlstore.Config{Dialect: sqlstore.PostgreSQL, Schema: schema})
	if err != nil {
		return e, err
	}
	if err := s.Migrate(ctx); err != nil {
		return e, err
	}
	e.store = s
	e.tripping = func(ctx context.Context) error { var n int; return db.QueryRowContext(ctx, "SELECT 1").Scan(&n) }
	e.writing = func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "INSERT INTO "+schema+".yardstick VALUES (1)")
		return err
	}
	return e, nil
}

func redisEngine(ctx context.Context) (e engine, err error) {
	e.name, e.trip, e.write = "Redis", "PING", "SET with an expiry"
	address := server("MA2H_TEST_REDIS", "127.0.0.1:6379", &e.notAvailable)
	e.close = func() {}
	if e.notAvailable != "" {
		return e, nil
	}
	rdb := redis.NewClient(&redis.Options{Addr: address, PoolSize: connections})
	prefix := "ma2h-bench-" + strings.ToLower(rand.Text()) + ":"
	e.close = func() {
		keys := rdb.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			rdb.Del(ctx, keys.Val())
		}
		_ = rdb.Close()
	}
	e.store, err = redisstore.New(rdb, redisstore.Config{Prefix: prefix})
	e.tripping = func(ctx context.Context) error { return rdb.Ping(ctx).Err() }
	e.writing = func(ctx context.Context) error { return rdb.Set(ctx, prefix+"yardstick", "1", time.Minute).Err() }
	return e, err
}

// server is the address of one that the tests talk to as well.
func server(env, standard string, missing *string) string {
	address := os.Getenv(env)
	if address == "" {
		address = standard
	}
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		*missing = "no server at " + env + "=" + address
		return ""
	}
	_ = conn.Close()
	return address
}

// many is how many callers of one process claim at a time.
const many = 64

// claimsOn claims on an engine, one after another and many at a time, beside
// what the engine takes for nothing and for the least that it writes.
func claimsOn(open func(context.Context) (engine, error)) func(context.Context, *meter) ([]row, error) {
	return func(ctx context.Context, m *meter) ([]row, error) {
		e, err := open(ctx)
		if e.close != nil {
			defer e.close()
		}
		if err != nil {
			return nil, err
		}
		if e.notAvailable != "" {
			return []row{notMeasured("claim on "+e.name, e.trip+", "+e.write, e.notAvailable)}, nil
		}
		var n atomic.Int64
		key := func() string { return strconv.FormatInt(n.Add(1), 10) }
		act := func(ctx context.Context) error {
			r, err := e.store.Reserve(ctx, ma2h.Act{Key: key(), Resolution: "r"}, time.Minute, false)
			if err == nil && r.State != ma2h.ActClaimed {
				err = errors.New("a new act is not claimed")
			}
			return err
		}
		delivery := func(ctx context.Context) error {
			s, err := e.store.ClaimJTI(ctx, key(), time.Minute, 4*time.Minute)
			if err == nil && s != ma2h.Fresh {
				err = errors.New("a new delivery is not fresh")
			}
			return err
		}
		lookup := func(ctx context.Context) error {
			_, err := e.store.Lookup(ctx, ma2h.Act{Key: "1", Resolution: "r"})
			return err
		}
		alone := func(f func(context.Context) error) subject {
			return subject{run: each(func(int) error { return f(ctx) })}
		}
		crowd := func(f func(context.Context) error) subject {
			return subject{run: abreast(many, func(int, int) error { return f(ctx) })}
		}
		ns, err := m.least(alone(e.tripping), alone(e.writing), alone(act), alone(delivery), alone(lookup),
			crowd(e.tripping), crowd(e.writing), crowd(act))
		if err != nil {
			return nil, err
		}
		rows := []row{
			beside(e.name+": claim an act", ns[2], e.trip, ns[0]),
			beside("", ns[2], e.write, ns[1]),
			beside(e.name+": claim a delivery", ns[3], e.trip, ns[0]),
			beside("", ns[3], e.write, ns[1]),
			beside(e.name+": look an act up", ns[4], e.trip, ns[0]),
			beside(fmt.Sprintf("%s: claim an act, %d callers", e.name, many), ns[7], e.trip, ns[5]),
			beside("", ns[7], e.write, ns[6]),
		}
		for i := range rows[5:] {
			rows[5+i].ours, rows[5+i].theirs = rate(ns[7]), rate(ns[5+i])
		}
		return rows, nil
	}
}
