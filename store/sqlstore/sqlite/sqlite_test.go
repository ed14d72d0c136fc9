package sqlite_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore/sqlite"
	"github.com/ma2h/ma2h-go/store/storetest"
)

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.OpenConfig(t.Context(), sqlite.Config{Path: path, Timeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// req: HND-07 RPL-01 RPL-03 RPL-04 RPL-05
// report: B022 B075 B076 B078 B079
func TestSQLiteKeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Backend{
		New:  func(t testing.TB) string { return filepath.Join(t.TempDir(), "ma2h.db") },
		Open: func(t testing.TB, path string) ma2h.Store { return open(t, path) },
		Outage: func(t testing.TB, path string) func() {
			// A process that holds the file and does not let go.
			db := raw(t, path)
			if _, err := db.Exec("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			return func() { _ = db.Close() }
		},
		Entries: func(t testing.TB, path string) (n int) {
			row := raw(t, path).QueryRow("SELECT (SELECT count(*) FROM ma2h_delivery) + (SELECT count(*) FROM ma2h_act)")
			if err := row.Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		Dump: func(t testing.TB, path string) []byte {
			var all bytes.Buffer
			for _, name := range []string{path, path + "-wal"} {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(b)
			}
			return all.Bytes()
		},
	})
}
