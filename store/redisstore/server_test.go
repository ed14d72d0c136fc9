package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/redisstore"
)

// ownServer is a Redis of the test's own, which it may kill.
type ownServer struct {
	address string
	args    []string
	cmd     *exec.Cmd
}

// newOwnServer starts redis-server with args. Without one on the PATH the test
// is skipped, or fails where MA2H_TEST_REQUIRE_SERVERS is 1.
func newOwnServer(t *testing.T, args ...string) *ownServer {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("MA2H_TEST_REQUIRE_SERVERS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	s := &ownServer{
		address: "127.0.0.1:" + port,
		args:    append([]string{binary, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--cluster-port", "0"}, args...),
	}
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

func (s *ownServer) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.address})
	defer rdb.Close()
	for begin := time.Now(); rdb.Ping(t.Context()).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("redis-server did not come up")
		}
	}
}

func (s *ownServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *ownServer) client(t *testing.T) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: s.address})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func newStore(t testing.TB, rdb redis.UniversalClient, cfg redisstore.Config) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(rdb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claimed(t testing.TB, s ma2h.Ledger, act ma2h.Act, lease time.Duration) ma2h.Token {
	t.Helper()
	r, err := s.Reserve(t.Context(), act, lease, false)
	if err != nil || r.State != ma2h.ActClaimed {
		t.Fatalf("Reserve: %v, %v", r.State, err)
	}
	return r.Token
}

func TestAnAppendOnlyServerThatIsKilledKeepsItsClaims(t *testing.T) {
	own := newOwnServer(t, "--appendonly", "yes", "--appendfsync", "always")
	s := newStore(t, own.client(t), redisstore.Config{Timeout: time.Second})
	done, flying := ma2h.Act{Key: "done"}, ma2h.Act{Key: "flying"}
	if err := s.Commit(t.Context(), done, claimed(t, s, done, time.Hour)); err != nil {
		t.Fatal(err)
	}
	token := claimed(t, s, flying, time.Hour)
	if _, err := s.ClaimJTI(t.Context(), "jti", 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	own.kill()
	if _, err := s.Reserve(t.Context(), ma2h.Act{Key: "new"}, time.Hour, false); !errors.Is(err, ma2h.ErrStoreUnavailable) {
		t.Errorf("while it is dead: %v", err)
	}
	own.start(t)
	for act, want := range map[ma2h.Act]ma2h.ActState{done: ma2h.ActDone, flying: ma2h.ActInFlight} {
		if state, err := s.Lookup(t.Context(), act); err != nil || state != want {
			t.Errorf("%v is %v, %v, not %v", act, state, err, want)
		}
	}
	if err := s.Commit(t.Context(), flying, token); err != nil {
		t.Errorf("Commit: %v", err)
	}
	if state, err := s.ClaimJTI(t.Context(), "jti", 0, time.Hour); err != nil || state != ma2h.Seen {
		t.Errorf("the delivery is %d, %v, not seen", state, err)
	}
	claimed(t, s, ma2h.Act{Key: "new"}, time.Hour)
}

func TestAServerWithoutRoomRefusesAndDropsNothing(t *testing.T) {
	own := newOwnServer(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	rdb := own.client(t)
	s := newStore(t, rdb, redisstore.Config{})
	act := ma2h.Act{Key: "first"}
	token := claimed(t, s, act, time.Hour)
	for _, size := range []int{100_000, 1000, 50} {
		for i := 0; rdb.Set(t.Context(), fmt.Sprint("ballast", size, " ", i), strings.Repeat("x", size), 0).Err() == nil; i++ {
		}
	}
	_, err := s.Reserve(t.Context(), ma2h.Act{Key: "second"}, time.Hour, false)
	if !errors.Is(err, ma2h.ErrStoreFull) || errors.Is(err, ma2h.ErrStoreUnavailable) {
		t.Errorf("Reserve: %v", err)
	}
	if _, err := s.ClaimJTI(t.Context(), "jti", 0, time.Hour); !errors.Is(err, ma2h.ErrStoreFull) {
		t.Errorf("ClaimJTI: %v", err)
	}
	if err := rdb.Del(t.Context(), "ballast100000 0", "ballast100000 1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), act, token); err != nil {
		t.Errorf("Commit: %v", err)
	}
	claimed(t, s, ma2h.Act{Key: "second"}, time.Hour)
}

func TestAClusterRunsEveryOperationInOneSlot(t *testing.T) {
	own := newOwnServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
	if err := own.client(t).ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{own.address}})
	t.Cleanup(func() { _ = rdb.Close() })
	s := newStore(t, rdb, redisstore.Config{})
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := s.Lookup(t.Context(), ma2h.Act{Key: "k"}); err == nil {
			break
		} else if time.Since(begin) > 20*time.Second {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	for i := range 20 {
		act, key := ma2h.Act{Key: fmt.Sprint("act", i)}, ma2h.SubmitKey{AgentID: "a", Key: fmt.Sprint("key", i)}
		_, claimErr := s.ClaimJTI(ctx, act.Key, time.Hour, time.Hour)
		token := claimed(t, s, act, time.Hour)
		_, putErr := s.PutSubmit(ctx, key, []byte("body"))
		kept, getErr := s.GetSubmit(ctx, key)
		err := errors.Join(claimErr, putErr, getErr, s.SettleJTI(ctx, act.Key, true), s.Doubt(ctx, act, token), s.AckSubmit(ctx, key, []byte("ack")), s.DropSubmit(ctx, key))
		if err != nil || string(kept.Body) != "body" {
			t.Fatal(err)
		}
		r, err := s.Reserve(ctx, act, time.Hour, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Commit(ctx, act, r.Token), s.Release(ctx, ma2h.Act{Key: "none" + act.Key}, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServerThatHangsIsUnavailableAndNotWaitedFor(t *testing.T) {
	srv := newServer(t)
	address := srv.prefix(t)
	host, prefix, _ := strings.Cut(address, " ")
	rdb := redis.NewClient(&redis.Options{Addr: host})
	t.Cleanup(func() { _ = rdb.Close() })
	s := newStore(t, rdb, redisstore.Config{Prefix: prefix, Timeout: 200 * time.Millisecond})
	act := ma2h.Act{Key: "k"}
	srv.proxies[address].Hang()
	if _, err := s.Reserve(t.Context(), act, time.Hour, false); !errors.Is(err, ma2h.ErrStoreUnavailable) {
		t.Errorf("by its Timeout: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Reserve(ctx, act, time.Hour, false); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ma2h.ErrStoreUnavailable) {
		t.Errorf("by its context: %v", err)
	}
	srv.proxies[address].Restore()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if r, err := s.Reserve(t.Context(), act, time.Hour, false); err == nil && r.State == ma2h.ActClaimed {
			return
		} else if time.Since(begin) > 20*time.Second {
			t.Fatalf("it did not come back: %v, %v", r.State, err)
		}
	}
}

func TestAnEntryExpiresByItself(t *testing.T) {
	srv := newServer(t)
	address := srv.prefix(t)
	_, prefix, _ := strings.Cut(address, " ")
	s := newStore(t, srv.admin, redisstore.Config{Prefix: prefix, Retention: 2 * time.Hour})
	ttl := func(what string, want time.Duration) {
		t.Helper()
		for _, key := range srv.keys(t, address) {
			got, err := srv.admin.PTTL(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			// It was set before it was read.
			if got > want || got < want-time.Minute {
				t.Errorf("%s: %s expires in %s, not %s", what, key[len(prefix):], got, want)
			}
		}
	}
	act, key := ma2h.Act{Key: "k"}, ma2h.SubmitKey{AgentID: "a", Key: "k"}
	token := claimed(t, s, act, time.Hour)
	ttl("in flight", 3*time.Hour)
	if err := s.Doubt(t.Context(), act, token); err != nil {
		t.Fatal(err)
	}
	ttl("in doubt", 2*time.Hour)
	r, err := s.Reserve(t.Context(), act, time.Hour, true)
	if err != nil {
		t.Fatal(err)
	}
	ttl("taken", 3*time.Hour)
	if err := s.Commit(t.Context(), act, r.Token); err != nil {
		t.Fatal(err)
	}
	ttl("done", 2*time.Hour)
	if _, err := s.PutSubmit(t.Context(), key, []byte("body")); err != nil {
		t.Fatal(err)
	}
	if err := s.AckSubmit(t.Context(), key, []byte("ack")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ClaimJTI(t.Context(), "jti", time.Second, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	ttl("all", 2*time.Hour)
	if n := len(srv.keys(t, address)); n != 3 {
		t.Errorf("%d keys, not one each", n)
	}
	for _, key := range srv.keys(t, address) {
		for _, field := range []string{"l", "p"} {
			if at, err := srv.admin.HGet(t.Context(), key, field).Result(); err == nil && strings.Trim(at, "0123456789") != "" {
				t.Errorf("a time is %q, which is not exact", at)
			}
		}
	}
}

func TestAClaimThatArrivesTwiceLateTakesNothingThatIsDone(t *testing.T) {
	srv := newServer(t)
	address := srv.prefix(t)
	_, prefix, _ := strings.Cut(address, " ")
	s := newStore(t, srv.admin, redisstore.Config{Prefix: prefix})
	act := ma2h.Act{Key: "k", Resolution: "r"}
	token := claimed(t, s, act, time.Hour)
	late := func(want ma2h.ActState) {
		t.Helper()
		if err := s.Late(t.Context(), act, token); err != nil {
			t.Fatal(err)
		}
		if state, err := s.Lookup(t.Context(), act); err != nil || state != want {
			t.Fatalf("the act is %v, %v, not %v", state, err, want)
		}
	}
	late(ma2h.ActInFlight)
	if err := s.Commit(t.Context(), act, token); err != nil {
		t.Fatal(err)
	}
	late(ma2h.ActDone)
}

// commands counts what goes to the server.
type commands struct{ n atomic.Int64 }

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}
func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// mute lets commands through and loses the answers.
type mute struct {
	commands
	on atomic.Bool
}

func (m *mute) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if m.on.Load() {
			err = io.ErrUnexpectedEOF
			cmd.SetErr(err)
		}
		return err
	}
}

func TestAClaimWhoseAnswerWasLostIsGivenBackByTheNextCall(t *testing.T) {
	srv := newServer(t)
	_, prefix, _ := strings.Cut(srv.prefix(t), " ")
	rdb := redis.NewClient(&redis.Options{Addr: srv.address})
	t.Cleanup(func() { _ = rdb.Close() })
	m := new(mute)
	rdb.AddHook(m)
	s, other := newStore(t, rdb, redisstore.Config{Prefix: prefix}), newStore(t, srv.admin, redisstore.Config{Prefix: prefix})
	ctx, act := t.Context(), ma2h.Act{Key: "k"}
	claimed(t, s, ma2h.Act{Key: "the script is known now"}, time.Hour)
	if _, err := s.ClaimJTI(ctx, "the script is known now", 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	lost := func(what string, f func() error) {
		t.Helper()
		m.on.Store(true)
		if err := f(); !errors.Is(err, ma2h.ErrStoreUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		m.on.Store(false)
	}
	next := func() {
		t.Helper()
		if _, err := s.Lookup(ctx, ma2h.Act{Key: "anything"}); err != nil {
			t.Fatal(err)
		}
	}
	lost("Reserve", func() error { _, err := s.Reserve(ctx, act, time.Hour, false); return err })
	if state, err := other.Lookup(ctx, act); err != nil || state != ma2h.ActInFlight {
		t.Fatalf("the act is %v, %v; the test shows nothing", state, err)
	}
	next()
	claimed(t, other, act, time.Hour)

	lost("ClaimJTI", func() error { _, err := s.ClaimJTI(ctx, "jti", 0, time.Hour); return err })
	if state, err := other.ClaimJTI(ctx, "jti", 0, time.Hour); err != nil || state != ma2h.Seen {
		t.Fatalf("the delivery is %d, %v; the test shows nothing", state, err)
	}
	next()
	if state, err := other.ClaimJTI(ctx, "jti", 0, time.Hour); err != nil || state != ma2h.Fresh {
		t.Errorf("the delivery is %d, %v, not fresh", state, err)
	}
}

func TestADoubtThatWasTakenWithoutAnAnswerStaysOne(t *testing.T) {
	srv := newServer(t)
	_, prefix, _ := strings.Cut(srv.prefix(t), " ")
	rdb := redis.NewClient(&redis.Options{Addr: srv.address})
	t.Cleanup(func() { _ = rdb.Close() })
	m := new(mute)
	rdb.AddHook(m)
	s, other := newStore(t, rdb, redisstore.Config{Prefix: prefix}), newStore(t, srv.admin, redisstore.Config{Prefix: prefix})
	ctx, act := t.Context(), ma2h.Act{Key: "k"}
	if err := s.Doubt(ctx, act, claimed(t, s, act, time.Hour)); err != nil {
		t.Fatal(err)
	}
	m.on.Store(true)
	if _, err := s.Reserve(ctx, act, 100*time.Millisecond, true); !errors.Is(err, ma2h.ErrStoreUnavailable) {
		t.Errorf("Reserve: %v", err)
	}
	m.on.Store(false)
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := s.Lookup(ctx, ma2h.Act{Key: "anything"}); err != nil {
			t.Fatal(err)
		}
		state, err := other.Lookup(ctx, act)
		if err != nil || state != ma2h.ActInFlight && state != ma2h.ActInDoubt || time.Since(begin) > 20*time.Second {
			t.Fatalf("the act is %v, %v", state, err)
		}
		if state == ma2h.ActInDoubt {
			return
		}
	}
}

func TestEveryOperationIsOneCommand(t *testing.T) {
	srv := newServer(t)
	_, prefix, _ := strings.Cut(srv.prefix(t), " ")
	rdb := redis.NewClient(&redis.Options{Addr: srv.address})
	t.Cleanup(func() { _ = rdb.Close() })
	count := new(commands)
	rdb.AddHook(count)
	s := newStore(t, rdb, redisstore.Config{Prefix: prefix})
	ctx, key := t.Context(), ma2h.SubmitKey{AgentID: "a", Key: "k"}
	var token ma2h.Token
	for _, round := range []string{"warm", "counted"} {
		act := ma2h.Act{Key: round}
		for _, op := range []struct {
			what string
			do   func() error
		}{
			{"Reserve", func() error { token = claimed(t, s, act, time.Hour); return nil }},
			{"Lookup", func() error { _, err := s.Lookup(ctx, act); return err }},
			{"Commit", func() error { return s.Commit(ctx, act, token) }},
			{"ClaimJTI", func() error { _, err := s.ClaimJTI(ctx, round, time.Hour, time.Hour); return err }},
			{"SettleJTI", func() error { return s.SettleJTI(ctx, round, true) }},
			{"PutSubmit", func() error { _, err := s.PutSubmit(ctx, key, []byte("body")); return err }},
			{"GetSubmit", func() error { _, err := s.GetSubmit(ctx, key); return err }},
		} {
			before := count.n.Load()
			if err := op.do(); err != nil {
				t.Errorf("%s: %v", op.what, err)
			}
			// The first time the server may have to be told the script.
			if n := count.n.Load() - before; round == "counted" && n != 1 {
				t.Errorf("%s took %d commands", op.what, n)
			}
		}
	}
}

func TestAServerThatForgetsItsScriptsIsToldThemAgain(t *testing.T) {
	own := newOwnServer(t)
	rdb := own.client(t)
	s := newStore(t, rdb, redisstore.Config{})
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			for k := range 20 {
				if _, err := s.Reserve(t.Context(), ma2h.Act{Key: fmt.Sprint(i, " ", k)}, time.Hour, false); err != nil {
					t.Error(err)
				}
				if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
}

func TestConfigHasBounds(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	good := redisstore.Config{Prefix: strings.Repeat("p", 64), Retention: time.Minute, Timeout: 1}
	newStore(t, rdb, good)
	if _, err := redisstore.New(nil, good); err == nil {
		t.Error("no client is taken")
	}
	for field, edit := range map[string]func(*redisstore.Config){
		"Prefix":    func(c *redisstore.Config) { c.Prefix += "p" },
		"Prefix ":   func(c *redisstore.Config) { c.Prefix = "{p}" },
		"Prefix  ":  func(c *redisstore.Config) { c.Prefix = "p p" },
		"Retention": func(c *redisstore.Config) { c.Retention-- },
		"Timeout":   func(c *redisstore.Config) { c.Timeout = -1 },
	} {
		cfg := good
		edit(&cfg)
		_, err := redisstore.New(rdb, cfg)
		fe, ok := errors.AsType[*ma2h.FieldError](err)
		if !ok || fe.Field != "redisstore.Config."+strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
