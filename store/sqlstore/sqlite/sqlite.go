// Package sqlite opens a store in a file: no server, any number of processes
// on one machine, and what is committed outlives crashes and power cuts.
//
//	store, err := sqlite.Open(ctx, "/var/lib/bot/ma2h.db")
//
// The file must be on a local disk: SQLite's locks and its write-ahead log do
// not work over a network.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver, in Go alone

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore"
)

// Config says which file. The zero value of an optional field means the
// default that the field documents.
type Config struct {
	// Path is the file. It is made if it is not there, for its owner alone.
	// Required.
	Path string
	// Retention is that of sqlstore.Config.
	Retention time.Duration
	// Timeout bounds one operation, the wait for other processes included.
	// Default: 5 s.
	Timeout time.Duration
}

// Store is a sqlstore.Store on a file of its own.
type Store struct {
	*sqlstore.Store
	db *sql.DB
}

// Close closes the file. What is committed stays.
func (s *Store) Close() error { return s.db.Close() }

// Open is OpenConfig with the defaults.
func Open(ctx context.Context, path string) (*Store, error) {
	return OpenConfig(ctx, Config{Path: path})
}

// OpenConfig opens the file and brings its tables to what this release needs.
// Errors are a *ma2h.FieldError, sqlstore.ErrLaterSchema, the context's, or
// ma2h.ErrStoreUnavailable.
func OpenConfig(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Path == "" || strings.HasPrefix(cfg.Path, ":") || strings.HasPrefix(cfg.Path, "file:") {
		return nil, &ma2h.FieldError{Field: "sqlite.Config.Path", Problem: "is not the path of a file", Section: "§6"}
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ma2h.ErrStoreUnavailable, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ma2h.ErrStoreUnavailable, err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ma2h.ErrStoreUnavailable, err)
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ma2h.ErrStoreUnavailable, err)
	}
	// One writer at a time is what a file allows: callers of one process queue
	// here, in order, instead of polling the lock against each other.
	db.SetMaxOpenConns(1)
	s, err := sqlstore.New(db, sqlstore.Config{Dialect: sqlstore.SQLite, Retention: cfg.Retention, Timeout: cfg.Timeout})
	if err == nil {
		err = useWAL(ctx, db)
	}
	if err == nil {
		err = s.Migrate(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Store{Store: s, db: db}, nil
}

// dsn makes every commit reach the disk before it is one: a claim that a power
// cut takes back is an act that happens twice.
func dsn(path string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	return u.String() + "?" + url.Values{
		"_pragma": {"busy_timeout(200)", "synchronous(FULL)"},
	}.Encode()
}

// useWAL lets readers and a writer work side by side. It is remembered in the
// file, and needs it alone for a moment.
func useWAL(ctx context.Context, db *sql.DB) error {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("%w: no write-ahead log on this file system", ma2h.ErrStoreUnavailable)
		case ctx.Err() != nil:
			return fmt.Errorf("ma2h: store: %w", ctx.Err())
		}
		if busy, ok := errors.AsType[interface {
			error
			Code() int
		}](err); !ok || busy.Code()&0xff != 5 {
			return fmt.Errorf("%w: %w", ma2h.ErrStoreUnavailable, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}
