package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore/sqlite"
)

// What is recorded is still there when the file is opened again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ma2h")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ma2h.db")

	store, err := sqlite.Open(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	act := ma2h.Act{Key: "msg_1", Resolution: "res_1"} // a CallbackHandler or Resumer does this
	claim, err := store.Reserve(ctx, act, time.Minute, false)
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Commit(ctx, act, claim.Token); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	store, err = sqlite.Open(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	state, err := store.Lookup(ctx, act)
	fmt.Println(state, err)
	// Output: done <nil>
}
