package redisstore_test

import (
	"log"

	"github.com/redis/go-redis/v9"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/redisstore"
)

// Many replicas of an agent share one Redis, with maxmemory-policy noeviction
// and appendonly yes.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "redis.example:6379"})
	defer rdb.Close()
	store, err := redisstore.New(rdb, redisstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	var _ ma2h.Store = store // for VerifierConfig.Replay and CallbackConfig.Ledger
}
