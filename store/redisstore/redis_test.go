package redisstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/redisstore"
	"github.com/ma2h/ma2h-go/store/storetest"
)

// server is the Redis of the tests, with one prefix and one relay a store.
type server struct {
	address string
	admin   *redis.Client

	mu      sync.Mutex
	proxies map[string]*storetest.Proxy
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{address: storetest.Server(t, "MA2H_TEST_REDIS", "127.0.0.1:6379"), proxies: make(map[string]*storetest.Proxy)}
	s.admin = redis.NewClient(&redis.Options{Addr: s.address})
	t.Cleanup(func() { _ = s.admin.Close() })
	return s
}

// prefix returns "relay prefix" and takes what is under it away in the end.
func (s *server) prefix(t testing.TB) string {
	t.Helper()
	proxy := storetest.NewProxy(t, s.address)
	address := proxy.Address() + " ma2h-test-" + strings.ToLower(rand.Text()) + ":"
	t.Cleanup(func() {
		for _, key := range s.keys(t, address) {
			if err := s.admin.Del(context.Background(), key).Err(); err != nil {
				t.Error(err)
			}
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies[address] = proxy
	return address
}

func (s *server) keys(t testing.TB, address string) (keys []string) {
	t.Helper()
	_, prefix, _ := strings.Cut(address, " ")
	it := s.admin.Scan(context.Background(), 0, prefix+"*", 1000).Iterator()
	for it.Next(context.Background()) {
		keys = append(keys, it.Val())
	}
	if err := it.Err(); err != nil {
		t.Error(err)
	}
	return keys
}

func (s *server) open(t testing.TB, address string) ma2h.Store {
	t.Helper()
	host, prefix, _ := strings.Cut(address, " ")
	rdb := redis.NewClient(&redis.Options{Addr: host})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := redisstore.New(rdb, redisstore.Config{Prefix: prefix, Timeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func (s *server) outage(_ testing.TB, address string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	proxy := s.proxies[address]
	proxy.Cut()
	return proxy.Restore
}

func (s *server) dump(t testing.TB, address string) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, key := range s.keys(t, address) {
		fields, err := s.admin.HGetAll(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(key)
		for k, v := range fields {
			all.WriteString("\n" + k + "=" + v)
		}
	}
	return all.Bytes()
}

// req: HND-07 RPL-01 RPL-03 RPL-04 RPL-05
// report: B022 B075 B076 B078 B079
func TestRedisKeepsTheContract(t *testing.T) {
	s := newServer(t)
	storetest.Run(t, storetest.Backend{
		New:     s.prefix,
		Open:    s.open,
		Outage:  s.outage,
		Entries: func(t testing.TB, address string) int { return len(s.keys(t, address)) },
		Dump:    s.dump,
	})
}
