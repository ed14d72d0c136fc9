package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/sqlstore"
)

// held runs f in a transaction that keeps all others from writing, so that what
// f starts gathers behind the first of it, and then the query last.
func (d database) held(t *testing.T, last string, f func(exec func(string))) {
	t.Helper()
	conn, err := d.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	begin := []string{"BEGIN IMMEDIATE"}
	if d.cfg.Dialect == sqlstore.PostgreSQL {
		begin = []string{"BEGIN", "LOCK TABLE " + d.prefix + "act, " + d.prefix + "delivery IN EXCLUSIVE MODE"}
	}
	exec := func(query string) {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	for _, query := range begin {
		exec(query)
	}
	f(exec)
	exec(last)
}

// becomes waits until n is what f returns.
func becomes(t *testing.T, n int, f func() int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); f() != n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("it is %d, not %d", f(), n)
		}
	}
}

func TestClaimsThatGatherShareAStatementAndEachGetsItsOwn(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		done := ma2h.Act{Key: "done", Resolution: "r"}
		if err := s.Commit(t.Context(), done, claimed(t, s, done, time.Hour)); err != nil {
			t.Fatal(err)
		}
		taken := ma2h.Act{Key: "taken", Resolution: "r"}
		claimed(t, s, taken, time.Hour)
		doubt := ma2h.Act{Key: "doubt", Resolution: "r"}
		if err := s.Doubt(t.Context(), doubt, claimed(t, s, doubt, time.Hour)); err != nil {
			t.Fatal(err)
		}
		for key, final := range map[string]bool{"seen": true, "pending": false} {
			if state, err := s.ClaimJTI(t.Context(), key, time.Hour, time.Hour); state != ma2h.Fresh || err != nil {
				t.Fatal(state, err)
			}
			if final {
				if err := s.SettleJTI(t.Context(), key, true); err != nil {
					t.Fatal(err)
				}
			}
		}

		var wg sync.WaitGroup
		var mu sync.Mutex
		states := map[string][]ma2h.ActState{}
		tokens := map[ma2h.Act]ma2h.Token{}
		reserve := func(act ma2h.Act) {
			wg.Go(func() {
				r, err := s.Reserve(t.Context(), act, time.Hour, false)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("%s: %v", act.Key, err)
				}
				states[act.Key] = append(states[act.Key], r.State)
				if r.State == ma2h.ActClaimed {
					tokens[act] = r.Token
				}
			})
		}
		jtis := map[string][]ma2h.ReplayState{}
		present := func(key string) {
			wg.Go(func() {
				state, err := s.ClaimJTI(t.Context(), key, time.Hour, time.Hour)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("%s: %v", key, err)
				}
				jtis[key] = append(jtis[key], state)
			})
		}
		const fresh = 60
		d.held(t, "ROLLBACK", func(func(string)) {
			reserve(ma2h.Act{Key: "first"})
			present("first")
			becomes(t, 2, s.Busy)
			for i := range fresh {
				reserve(ma2h.Act{Key: fmt.Sprint("fresh ", i), Resolution: "r"})
				present(fmt.Sprint("fresh ", i))
			}
			for range 3 {
				reserve(ma2h.Act{Key: "twice", Resolution: "r"})
				present("twice")
			}
			for _, act := range []ma2h.Act{done, taken, doubt, {Key: "done", Resolution: "another"}} {
				reserve(act)
			}
			present("seen")
			present("pending")
			becomes(t, 2*(fresh+3)+4+2, s.Gathered)
		})
		wg.Wait()

		for i := range fresh {
			key := fmt.Sprint("fresh ", i)
			if len(states[key]) != 1 || states[key][0] != ma2h.ActClaimed || len(jtis[key]) != 1 || jtis[key][0] != ma2h.Fresh {
				t.Errorf("%s: %v, %v", key, states[key], jtis[key])
			}
			act := ma2h.Act{Key: key, Resolution: "r"}
			if i%2 == 0 {
				continue
			}
			if err := s.Commit(t.Context(), act, tokens[act]); err != nil {
				t.Errorf("the token of %s: %v", key, err)
			}
		}
		for key, want := range map[string]map[ma2h.ActState]int{
			"twice": {ma2h.ActClaimed: 1, ma2h.ActInFlight: 2},
			"taken": {ma2h.ActInFlight: 1},
			"doubt": {ma2h.ActInDoubt: 1},
			"done":  {ma2h.ActDone: 1, ma2h.ActConflict: 1},
		} {
			got := map[ma2h.ActState]int{}
			for _, state := range states[key] {
				got[state]++
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", key, got, want)
			}
		}
		for key, want := range map[string]map[ma2h.ReplayState]int{
			"twice":   {ma2h.Fresh: 1, ma2h.Pending: 2},
			"seen":    {ma2h.Seen: 1},
			"pending": {ma2h.Pending: 1},
		} {
			got := map[ma2h.ReplayState]int{}
			for _, state := range jtis[key] {
				got[state]++
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", key, got, want)
			}
		}
		// A statement has one time, and three that ask for the same thing take three.
		for _, table := range []string{"act", "delivery"} {
			if n := d.number(t, "SELECT count(DISTINCT changed_at) FROM {p}"+table+" WHERE lease_until <> 0"); n > 5 {
				t.Errorf("%d statements took the rows of %s", n, table)
			}
		}
	})
}

func TestWhoGivesUpWhileClaimsGatherHoldsNothing(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		var first, left sync.WaitGroup
		d.held(t, "ROLLBACK", func(func(string)) {
			first.Go(func() { claimed(t, s, ma2h.Act{Key: "first"}, time.Hour) })
			becomes(t, 1, s.Busy)
			ctx, cancel := context.WithCancel(t.Context())
			left.Go(func() {
				r, err := s.Reserve(ctx, ma2h.Act{Key: "left"}, time.Hour, false)
				if !errors.Is(err, context.Canceled) || r != (ma2h.Reservation{}) {
					t.Errorf("%v, %v", r, err)
				}
			})
			becomes(t, 1, s.Gathered)
			cancel()
			left.Wait()
			becomes(t, 0, s.Gathered)
		})
		first.Wait()
		if state, err := s.Lookup(t.Context(), ma2h.Act{Key: "left"}); state != 0 || err != nil {
			t.Errorf("%v, %v", state, err)
		}
		if n := s.Orphans(); n != 0 {
			t.Errorf("%d claims to give back", n)
		}
	})
}

// A claim that was sent with others when its caller left is one that nobody
// acts under: it is given back.
func TestWhoGivesUpAfterClaimsWereSentTogetherHasThemGivenBack(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		var first, left sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		d.held(t, "ROLLBACK", func(func(string)) {
			given, give := context.WithCancel(t.Context())
			first.Go(func() { _, _ = s.Reserve(given, ma2h.Act{Key: "first"}, time.Hour, false) })
			becomes(t, 1, s.Busy)
			for i := range 3 {
				left.Go(func() {
					if _, err := s.Reserve(ctx, ma2h.Act{Key: fmt.Sprint(i)}, time.Hour, false); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
			becomes(t, 3, s.Gathered)
			give() // the three are sent together, and wait for the lock as the first did
			becomes(t, 0, s.Gathered)
			cancel()
			left.Wait()
		})
		first.Wait()
		becomes(t, 0, s.Busy)
		if n := s.Orphans(); n == 0 {
			t.Error("no claim is to be given back")
		}
		for i := range 3 {
			claimed(t, s, ma2h.Act{Key: fmt.Sprint(i)}, time.Hour)
		}
	})
}

func TestClaimsThatGatheredAllHearThatTheDatabaseFailed(t *testing.T) {
	dialects(t, func(t *testing.T, d database) {
		s := d.open(t)
		gone := d.prefix[strings.IndexByte(d.prefix, '.')+1:]
		var wg sync.WaitGroup
		reserve := func(key string) {
			wg.Go(func() {
				r, err := s.Reserve(t.Context(), ma2h.Act{Key: key}, time.Hour, false)
				if !errors.Is(err, ma2h.ErrStoreUnavailable) || r != (ma2h.Reservation{}) {
					t.Errorf("%s: %v, %v", key, r, err)
				}
			})
		}
		d.held(t, "COMMIT", func(exec func(string)) {
			reserve("first")
			becomes(t, 1, s.Busy)
			for i := range 10 {
				reserve(fmt.Sprint(i))
			}
			becomes(t, 10, s.Gathered)
			exec("ALTER TABLE " + d.prefix + "act RENAME TO " + gone + "away")
		})
		wg.Wait()
		d.exec(t, "ALTER TABLE {p}away RENAME TO "+gone+"act")
		claimed(t, s, ma2h.Act{Key: "first"}, time.Hour)
		for i := range 10 {
			claimed(t, s, ma2h.Act{Key: fmt.Sprint(i)}, time.Hour)
		}
	})
}
