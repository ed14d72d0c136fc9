package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

func TestAnyPathIsThatFileAndItsOwnersAlone(t *testing.T) {
	for _, name := range []string{"a b", "a?b=c", "a#b", "a%20b", "a&b;c", "é", "a'b"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path)
		if _, err := s.Reserve(t.Context(), ma2h.Act{Key: "k"}, time.Hour, false); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("%q has %d bytes and mode %v", name, info.Size(), info.Mode())
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), name) {
				t.Errorf("%q made %q", name, e.Name())
			}
		}
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	for _, path := range []string{"", ":memory:", "file:x.db"} {
		_, err := sqlite.Open(t.Context(), path)
		if _, ok := errors.AsType[*ma2h.FieldError](err); !ok {
			t.Errorf("%q: %v", path, err)
		}
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, filepath.Join(t.TempDir(), "missing", "ma2h.db"), t.TempDir()} {
		if _, err := sqlite.Open(t.Context(), path); !errors.Is(err, ma2h.ErrStoreUnavailable) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestACommitReachesTheDiskBeforeItIsOne(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ma2h.db"))
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		if got := sqlite.Pragma(t, s, pragma); got != want {
			t.Errorf("%s is %s, not %s", pragma, got, want)
		}
	}
}

func TestManyHandlesOpenOneNewFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ma2h.db")
	var claims atomic.Int64
	var done sync.WaitGroup
	for range 16 {
		done.Go(func() {
			s, err := sqlite.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			r, err := s.Reserve(t.Context(), ma2h.Act{Key: "k"}, time.Hour, false)
			if err != nil {
				t.Error(err)
			}
			if r.State == ma2h.ActClaimed {
				claims.Add(1)
			}
		})
	}
	done.Wait()
	if n := claims.Load(); n != 1 {
		t.Errorf("%d claims", n)
	}
}

func TestAnOpenEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ma2h.db")
	holder := raw(t, path)
	if _, err := holder.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := sqlite.Open(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open: %v", err)
	}
}
