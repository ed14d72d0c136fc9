package sqlstore_test

import (
	"context"
	"database/sql"
	"log"

	_ "github.com/jackc/pgx/v5/stdlib"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore"
)

// Many replicas of an agent share one PostgreSQL.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://bot@db.example/bot")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := sqlstore.New(db, sqlstore.Config{Dialect: sqlstore.PostgreSQL})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil { // once at the start of each process
		log.Fatal(err)
	}
	var _ ma2h.Store = store  // for VerifierConfig.Replay and CallbackConfig.Ledger
	var _ ma2h.Outbox = store // for Config.Outbox
}
