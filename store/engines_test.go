package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/redisstore"
	"github.com/ma2h/ma2h-go/store/sqlstore"
	"github.com/ma2h/ma2h-go/store/sqlstore/sqlite"
	"github.com/ma2h/ma2h-go/store/storetest"
)

// full reports whether the tests of this package run at their full size.
func full() bool { return os.Getenv("MA2H_TEST_FULL") == "1" }

// everything is what each engine is.
type everything interface {
	ma2h.Store
	ma2h.Outbox
}

// engines make an empty store of each engine. What they return is what
// openStore takes, in any process.
var engines = map[string]func(t testing.TB) (place string){
	"sqlite": func(t testing.TB) string { return filepath.Join(t.TempDir(), "ma2h.db") },
	"postgres": func(t testing.TB) string {
		address := storetest.Server(t, "MA2H_TEST_POSTGRES", "127.0.0.1:5432")
		schema := "ma2h_" + strings.ToLower(rand.Text())
		db, err := sql.Open("pgx", postgresURL(address))
		if err != nil {
			t.Fatal(err)
		}
		exec := func(query string) {
			if _, err := db.Exec(query); err != nil {
				t.Error(err)
			}
		}
		exec("CREATE SCHEMA " + schema)
		t.Cleanup(func() {
			exec("DROP SCHEMA " + schema + " CASCADE")
			_ = db.Close()
		})
		return address + " " + schema
	},
	"redis": func(t testing.TB) string {
		address := storetest.Server(t, "MA2H_TEST_REDIS", "127.0.0.1:6379")
		prefix := "ma2h-test-" + strings.ToLower(rand.Text()) + ":"
		rdb := redis.NewClient(&redis.Options{Addr: address})
		t.Cleanup(func() {
			ctx := context.Background()
			keys := rdb.Scan(ctx, 0, prefix+"*", 1000).Iterator()
			for keys.Next(ctx) {
				if err := rdb.Del(ctx, keys.Val()).Err(); err != nil {
					t.Error(err)
				}
			}
			_ = rdb.Close()
		})
		return address + " " + prefix
	},
}

func postgresURL(address string) string {
	return "postgres://postgres@" + address + "/test?sslmode=disable"
}

// openStore opens a handle on the store of an engine.
func openStore(ctx context.Context, engine, place string) (everything, func() error, error) {
	address, name, _ := strings.Cut(place, " ")
	switch engine {
	case "sqlite":
		s, err := sqlite.Open(ctx, place)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	case "postgres":
		db, err := sql.Open("pgx", postgresURL(address))
		if err != nil {
			return nil, nil, err
		}
		db.SetMaxOpenConns(4)
		db.SetMaxIdleConns(4)
		s, err := sqlstore.New(db, sqlstore.Config{Dialect: sqlstore.PostgreSQL, Schema: name})
		if err == nil {
			err = s.Migrate(ctx)
		}
		return s, db.Close, err
	case "redis":
		rdb := redis.NewClient(&redis.Options{Addr: address})
		s, err := redisstore.New(rdb, redisstore.Config{Prefix: name})
		return s, rdb.Close, err
	}
	return nil, nil, fmt.Errorf("no engine %q", engine)
}

// process is a copy of the test binary in a role. env is names and values.
func process(role string, env ...string) (*exec.Cmd, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	for i := 0; i+1 < len(env); i += 2 {
		cmd.Env = append(cmd.Env, env[i]+"="+env[i+1])
	}
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}
