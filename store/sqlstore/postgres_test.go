package sqlstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore"
	"github.com/ma2h/ma2h-go/store/storetest"
)

// postgres is the server of the tests, with one schema and one relay a store.
type postgres struct {
	address string
	admin   *sql.DB

	mu      sync.Mutex
	proxies map[string]*storetest.Proxy
}

func newPostgres(t testing.TB) *postgres {
	t.Helper()
	p := &postgres{address: storetest.Server(t, "MA2H_TEST_POSTGRES", "127.0.0.1:5432"), proxies: make(map[string]*storetest.Proxy)}
	p.admin = p.connect(t, p.address, "ma2h_test_admin")
	return p
}

func (p *postgres) connect(t testing.TB, address, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", "postgres://postgres@"+address+"/test?sslmode=disable&application_name="+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (p *postgres) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := p.admin.Exec(query, args...); err != nil {
		t.Error(err)
	}
}

// schema makes an empty schema and returns "relay/schema".
func (p *postgres) schema(t testing.TB) string {
	t.Helper()
	name := "ma2h_" + strings.ToLower(rand.Text())
	p.exec(t, "CREATE SCHEMA "+name)
	t.Cleanup(func() { p.exec(t, "DROP SCHEMA "+name+" CASCADE") })
	proxy := storetest.NewProxy(t, p.address)
	p.mu.Lock()
	defer p.mu.Unlock()
	address := proxy.Address() + "/" + name
	p.proxies[address] = proxy
	return address
}

func (p *postgres) db(t testing.TB, address string) (*sql.DB, sqlstore.Config) {
	t.Helper()
	host, schema, _ := strings.Cut(address, "/")
	db := p.connect(t, host, schema)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db, sqlstore.Config{Dialect: sqlstore.PostgreSQL, Schema: schema, Timeout: 3 * time.Second}
}

func (p *postgres) open(t testing.TB, address string) *sqlstore.Store {
	t.Helper()
	db, cfg := p.db(t, address)
	s, err := sqlstore.New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// outage breaks the connections from both ends and lets none in.
func (p *postgres) outage(t testing.TB, address string) func() {
	t.Helper()
	p.mu.Lock()
	proxy := p.proxies[address]
	p.mu.Unlock()
	_, schema, _ := strings.Cut(address, "/")
	p.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", schema)
	proxy.Cut()
	return proxy.Restore
}

func (p *postgres) entries(t testing.TB, address string) (n int) {
	t.Helper()
	_, schema, _ := strings.Cut(address, "/")
	query := fmt.Sprintf("SELECT (SELECT count(*) FROM %[1]s.ma2h_delivery) + (SELECT count(*) FROM %[1]s.ma2h_act)", schema)
	if err := p.admin.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// dump is every row as text, bytes as they are.
func (p *postgres) dump(t testing.TB, address string) []byte {
	t.Helper()
	_, schema, _ := strings.Cut(address, "/")
	var all bytes.Buffer
	for _, table := range []string{"delivery", "act", "submit"} {
		rows, err := p.admin.Query(fmt.Sprintf("SELECT * FROM %s.ma2h_%s", schema, table))
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		values := make([]sql.RawBytes, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				all.Write(append(v, '\n'))
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all.Bytes()
}

// req: HND-07 RPL-01 RPL-03 RPL-04 RPL-05
// report: B022 B075 B076 B078 B079
func TestPostgresKeepsTheContract(t *testing.T) {
	p := newPostgres(t)
	storetest.Run(t, storetest.Backend{
		New:     p.schema,
		Open:    func(t testing.TB, address string) ma2h.Store { return p.open(t, address) },
		Outage:  p.outage,
		Entries: p.entries,
		Dump:    p.dump,
	})
}

func TestAServerThatHangsIsUnavailableAndNotWaitedFor(t *testing.T) {
	p := newPostgres(t)
	address := p.schema(t)
	db, cfg := p.db(t, address)
	cfg.Timeout = 300 * time.Millisecond
	s, err := sqlstore.New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.proxies[address].Hang()
	stalled(t, s)
	p.proxies[address].Restore()
	claimed(t, s, ma2h.Act{Key: "stalled"}, time.Hour)
}

func TestAProcessWithoutTheRightToMakeTablesUsesThem(t *testing.T) {
	p := newPostgres(t)
	address := p.schema(t)
	_, schema, _ := strings.Cut(address, "/")
	role := "ma2h_" + strings.ToLower(rand.Text())
	p.exec(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		p.exec(t, "DROP OWNED BY "+role)
		p.exec(t, "DROP ROLE "+role)
	})
	p.exec(t, "GRANT USAGE ON SCHEMA "+schema+" TO "+role)
	db, err := sql.Open("pgx", "postgres://"+role+"@"+p.address+"/test?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(db, sqlstore.Config{Dialect: sqlstore.PostgreSQL, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); !errors.Is(err, ma2h.ErrStoreUnavailable) {
		t.Errorf("without tables: %v", err)
	}
	p.open(t, address)
	p.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO "+role)
	if err := s.Migrate(t.Context()); err != nil {
		t.Errorf("with tables: %v", err)
	}
	claimed(t, s, ma2h.Act{Key: "k"}, time.Hour)
}

// queries counts what goes to the server.
type queries struct{ n atomic.Int64 }

func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.n.Add(1)
	return ctx
}

func (*queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestEveryOperationIsOneStatement(t *testing.T) {
	p := newPostgres(t)
	address := p.schema(t)
	p.open(t, address)
	host, schema, _ := strings.Cut(address, "/")
	cfg, err := pgx.ParseConfig("postgres://postgres@" + host + "/test?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	count := new(queries)
	cfg.Tracer = count
	db := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(db, sqlstore.Config{Dialect: sqlstore.PostgreSQL, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	one := func(what string, f func() error) {
		t.Helper()
		before := count.n.Load()
		if err := f(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if n := count.n.Load() - before; n != 1 {
			t.Errorf("%s took %d statements", what, n)
		}
	}
	// A claim in 64 cleans on its way, by its token.
	ctx, act, key := t.Context(), ma2h.Act{Key: "k"}, ma2h.SubmitKey{AgentID: "a", Key: "k"}
	var r ma2h.Reservation
	for tries := 0; r.Token == 0 || r.Token>>1%64 == 0; tries++ {
		if r.Token != 0 {
			act.Key += "k"
		}
		if r, err = s.Reserve(ctx, act, time.Hour, false); err != nil || tries > 50 {
			t.Fatal(err)
		}
	}
	one("a refused Reserve", func() error { _, err := s.Reserve(ctx, act, time.Hour, false); return err })
	one("Lookup", func() error { _, err := s.Lookup(ctx, act); return err })
	one("Commit", func() error { return s.Commit(ctx, act, r.Token) })
	if _, err := s.ClaimJTI(ctx, "jti", time.Hour, time.Hour); err != nil {
		t.Fatal(err)
	}
	one("a refused ClaimJTI", func() error { _, err := s.ClaimJTI(ctx, "jti", time.Hour, time.Hour); return err })
	one("SettleJTI", func() error { return s.SettleJTI(ctx, "jti", true) })
	if _, err := s.PutSubmit(ctx, key, []byte("body")); err != nil {
		t.Fatal(err)
	}
	one("a second PutSubmit", func() error { _, err := s.PutSubmit(ctx, key, []byte("body")); return err })
	one("GetSubmit", func() error { _, err := s.GetSubmit(ctx, key); return err })
	one("AckSubmit", func() error { return s.AckSubmit(ctx, key, []byte("ack")) })
	n := 0
	for range 20 {
		before := count.n.Load()
		claimed(t, s, ma2h.Act{Key: rand.Text()}, time.Hour)
		if count.n.Load()-before == 1 {
			n++
		}
	}
	if n < 15 {
		t.Errorf("of 20 claims %d took one statement", n)
	}
}

func TestASerializableDatabaseGivesOneClaimToo(t *testing.T) {
	p := newPostgres(t)
	address := p.schema(t)
	p.open(t, address)
	host, schema, _ := strings.Cut(address, "/")
	db, err := sql.Open("pgx", "postgres://postgres@"+host+"/test?sslmode=disable&default_transaction_isolation=serializable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(8)
	s, err := sqlstore.New(db, sqlstore.Config{Dialect: sqlstore.PostgreSQL, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		var won atomic.Int64
		var done sync.WaitGroup
		for range 16 {
			done.Go(func() {
				r, err := s.Reserve(t.Context(), ma2h.Act{Key: fmt.Sprint(i)}, time.Hour, false)
				switch {
				case err != nil:
					t.Error(err)
				case r.State == ma2h.ActClaimed:
					won.Add(1)
				}
			})
		}
		done.Wait()
		if n := won.Load(); n != 1 {
			t.Errorf("act %d has %d claims", i, n)
		}
	}
}
