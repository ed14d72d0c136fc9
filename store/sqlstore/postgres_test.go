package sqlstore_test

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

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
