package ma2h

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ma2h/ma2h-go/types"
)

func trustMemory(t testing.TB, cfg MemoryConfig) *MemoryStore {
	t.Helper()
	s, err := NewMemoryStore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claims(t testing.TB, s ReplayStore, key string, keep time.Duration, want ReplayState) {
	t.Helper()
	got, err := s.ClaimJTI(context.Background(), key, time.Second, keep)
	if err != nil || got != want {
		t.Fatalf("claim of %s is %d, %v, want %d", key, got, err, want)
	}
}

func settles(t testing.TB, s ReplayStore, key string, final bool) {
	t.Helper()
	if err := s.SettleJTI(context.Background(), key, final); err != nil {
		t.Fatal(err)
	}
}

// steppedWall moves the wall clock of a time by d and leaves its monotonic
// reading, as a correction of the system's clock does.
func steppedWall(t testing.TB, at time.Time, d time.Duration) time.Time {
	t.Helper()
	out := at.Add(d)
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&out)).ext -= int64(d)
	if out.Sub(at) != 0 || out.UnixNano()-at.UnixNano() != int64(d) {
		t.Skip("time.Time is laid out otherwise in this Go")
	}
	return out
}

// req: RPL-01
// report: B079
func TestAClockThatStepsNeverDropsADeliveryEarly(t *testing.T) {
	base := time.Now()
	var elapsed, step time.Duration
	s := trustMemory(t, MemoryConfig{Now: func() time.Time { return steppedWall(t, base.Add(elapsed), step) }})
	claims(t, s, "a", 121*time.Second, Fresh)
	settles(t, s, "a", true)
	for _, row := range []struct {
		elapsed, step time.Duration
		want          ReplayState
	}{
		{10 * time.Second, 0, Seen},
		{20 * time.Second, 5 * time.Minute, Seen},   // forward: only the wall has moved
		{30 * time.Second, -5 * time.Minute, Seen},  // back
		{130 * time.Second, -5 * time.Minute, Seen}, // the window is open again, so the entry must be there
		{140 * time.Second, 5 * time.Minute, Fresh},
	} {
		elapsed, step = row.elapsed, row.step
		for i := range 200 { // claims around it, which clean
			claims(t, s, fmt.Sprint("x", row.elapsed, i), time.Second, Fresh)
		}
		claims(t, s, "a", 121*time.Second, row.want)
	}
}

// req: RPL-03
func TestAFullStoreRefusesTheNewAndKeepsTheLive(t *testing.T) {
	for _, most := range []int{1, 2, 10, 64, 65, 1000} {
		clock := newStepClock()
		s := trustMemory(t, MemoryConfig{MaxEntries: most, Now: clock.Now})
		for i := range most {
			claims(t, s, fmt.Sprint(i), 100*time.Second, Fresh)
			settles(t, s, fmt.Sprint(i), true)
		}
		for i := range 100 {
			if st, err := s.ClaimJTI(t.Context(), fmt.Sprint("new", i), time.Second, time.Second); !errors.Is(err, ErrStoreFull) || st != 0 {
				t.Fatalf("%d of %d entries: %v, %v", most, most, st, err)
			}
		}
		for i := range most {
			claims(t, s, fmt.Sprint(i), time.Second, Seen)
		}
		if n := s.jtis.live.Load(); n != int64(most) {
			t.Fatalf("%d entries, want %d", n, most)
		}
		// Acts have room of their own, and their bound.
		for i := range most {
			if r, err := s.Reserve(t.Context(), Act{Key: fmt.Sprint(i)}, time.Minute, false); err != nil || r.State != ActClaimed {
				t.Fatal(r, err)
			}
		}
		if r, err := s.Reserve(t.Context(), Act{Key: "new"}, time.Minute, false); !errors.Is(err, ErrStoreFull) || r != (Reservation{}) {
			t.Fatal(r, err)
		}
		if st, err := s.Lookup(t.Context(), Act{Key: "0"}); err != nil || st != ActInFlight {
			t.Fatal(st, err)
		}
		// Expired entries of every shard make room at once.
		clock.Add(102 * time.Second)
		for i := range most {
			claims(t, s, fmt.Sprint("later", i), time.Second, Fresh)
		}
		if _, err := s.ClaimJTI(t.Context(), "one more", time.Second, time.Second); !errors.Is(err, ErrStoreFull) {
			t.Fatal(err)
		}
	}
}

func TestAStoreThatFillsUpInParallelStopsAtItsBound(t *testing.T) {
	const most = 1000
	s := trustMemory(t, MemoryConfig{MaxEntries: most, Now: newStepClock().Now})
	var fresh, full atomic.Int64
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				switch st, err := s.ClaimJTI(context.Background(), fmt.Sprint(w, "-", i), time.Second, time.Minute); {
				case st == Fresh:
					fresh.Add(1)
				case errors.Is(err, ErrStoreFull):
					full.Add(1)
				}
			}
		})
	}
	wg.Wait()
	// A claim counts itself before it looks, so two at the brink may both give way.
	if f := fresh.Load(); f > most || f < most-8 || f+full.Load() != 4000 || s.jtis.live.Load() != f {
		t.Errorf("%d fresh, %d full, %d entries", f, full.Load(), s.jtis.live.Load())
	}
}

// Every entry is listed once, every list is reached, and a call takes a bounded
// number of steps: no walk through all entries is hidden anywhere.
func TestExpiryTakesAFewStepsACallAndForgetsNothing(t *testing.T) {
	clock := newStepClock()
	s := trustMemory(t, MemoryConfig{Now: clock.Now})
	check := func(when string) {
		t.Helper()
		total := 0
		for i := range s.jtis.shards {
			sh := &s.jtis.shards[i]
			listed := 0
			for slot, i := range sh.slots {
				if i == 0 || slot < sh.next {
					t.Fatalf("%s: slot %d begins with %d, next is %d", when, slot, i, sh.next)
				}
				for prev := uint32(0); i != 0; prev, i = i, sh.entries[i].next {
					e := sh.entries[i]
					if e.prev != prev || sh.slotOf(e.until) != slot || sh.find(e.digest) != i {
						t.Fatalf("%s: an entry is listed where it does not belong", when)
					}
					listed++
				}
			}
			unused := 0
			for i := sh.free; i != 0; i = sh.entries[i].chain {
				unused++
			}
			if listed != sh.used || listed+unused != max(0, len(sh.entries)-1) {
				t.Fatalf("%s: %d listed and %d unused, of %d used and %d in all", when, listed, unused, sh.used, len(sh.entries)-1)
			}
			total += listed
		}
		if int64(total) != s.jtis.live.Load() {
			t.Fatalf("%s: %d entries, counted %d", when, total, s.jtis.live.Load())
		}
	}
	size := func() int64 { return s.jtis.live.Load() }
	n := 0
	next := func() string { n++; return fmt.Sprint("k", n) }
	for i := range 20_000 {
		k := next()
		claims(t, s, k, time.Duration(1+i%240)*time.Second, Fresh)
		settles(t, s, k, i%3 != 0) // every third is released
		if i%1000 == 0 {
			clock.Add(time.Second)
		}
	}
	check("after claims and releases")
	// Released late and out of order: the rest of each list must stay listed.
	first := n
	for range 5000 {
		claims(t, s, next(), 200*time.Second, Fresh)
	}
	for i := range 5000 {
		if i%3 == 0 {
			settles(t, s, fmt.Sprint("k", first+1+i), false)
		}
	}
	check("after releases out of order")
	before := size()
	clock.Add(24 * time.Hour) // an idle day
	for range 10 {
		was := size()
		claims(t, s, next(), time.Second, Fresh)
		if dropped := was + 1 - size(); dropped < 0 || dropped > expireStep {
			t.Fatalf("one claim dropped %d entries", dropped)
		}
	}
	check("after an idle day")
	for range 10_000 {
		claims(t, s, next(), 10*time.Second, Fresh)
	}
	check("after the cleaning")
	if size() > 10_020 {
		t.Errorf("of %d expired entries, some are left among %d", before, size())
	}
	// Cleaning has crossed the empty day at once, and not slot by slot.
	clock.Add(20 * time.Second)
	for range 5000 {
		claims(t, s, next(), 10*time.Second, Fresh)
	}
	if size() > 5020 {
		t.Errorf("%d entries, of which 5000 live", size())
	}
	check("after the day was crossed")
	// The same key, claimed and given back again and again, is one entry or none.
	for range 5000 {
		claims(t, s, "again", time.Minute, Fresh)
		settles(t, s, "again", false)
	}
	check("after one key came and went")
	if size() > 10_020 {
		t.Errorf("%d entries", size())
	}
	clock.Add(time.Hour)
	s.jtis.sweep(s.clock())
	check("after a sweep")
	if size() != 0 {
		t.Errorf("%d entries after all have expired", size())
	}
	for i := range s.jtis.shards {
		if len(s.jtis.shards[i].slots) != 0 {
			t.Fatal("an empty list is left")
		}
	}
}

func TestAnActThatComesAndGoesLeavesNothingBehind(t *testing.T) {
	clock := newStepClock()
	s := trustMemory(t, MemoryConfig{Now: clock.Now})
	act := Act{Key: "failing"}
	for range 2000 {
		r, err := s.Reserve(t.Context(), act, time.Minute, false)
		if err != nil || r.State != ActClaimed {
			t.Fatal(r, err)
		}
		if err := s.Release(t.Context(), act, r.Token); err != nil {
			t.Fatal(err)
		}
		clock.Add(time.Minute)
	}
	sh := s.acts.shard(keyDigest(act.Key))
	if s.acts.live.Load() != 0 || sh.used != 0 || len(sh.slots) != 0 || len(sh.entries) > 2 {
		t.Errorf("%d entries, %d lists, %d places", sh.used, len(sh.slots), len(sh.entries)-1)
	}
}

func TestAClaimThatLapsedIsAnyonesAndAFinalOneNobodys(t *testing.T) {
	clock := newStepClock()
	s := trustMemory(t, MemoryConfig{Now: clock.Now})
	claims(t, s, "a", time.Minute, Fresh)
	claims(t, s, "a", time.Minute, Pending)
	clock.Add(time.Second - 1)
	claims(t, s, "a", time.Minute, Pending)
	clock.Add(1)
	claims(t, s, "a", time.Minute, Fresh)
	settles(t, s, "a", true)
	settles(t, s, "a", false) // a late release of the first holder
	clock.Add(time.Minute - 1)
	claims(t, s, "a", time.Minute, Seen)
	clock.Add(1)
	claims(t, s, "a", time.Minute, Fresh)
	settles(t, s, "nobody's", true)
	claims(t, s, "nobody's", time.Minute, Fresh)
	// A lease that is longer than keep is remembered for as long.
	if st, err := s.ClaimJTI(t.Context(), "b", time.Hour, time.Second); st != Fresh || err != nil {
		t.Fatal(st, err)
	}
	clock.Add(time.Hour - 1)
	claims(t, s, "b", time.Second, Pending)
}

// req: HND-07 RES-10
func TestTheLedgerInMemoryFencesItsClaims(t *testing.T) {
	clock := newStepClock()
	s := trustMemory(t, MemoryConfig{Now: clock.Now, Retention: time.Hour})
	act, other := Act{Key: "m", Resolution: "r1"}, Act{Key: "m", Resolution: "r2"}
	ctx := t.Context()
	is := func(a Act, want ActState) {
		t.Helper()
		if st, err := s.Lookup(ctx, a); err != nil || st != want {
			t.Fatalf("Lookup is %v, %v, want %v", st, err, want)
		}
		if want == 0 {
			return
		}
		if r, err := s.Reserve(ctx, a, time.Minute, false); err != nil || r != (Reservation{State: want}) {
			t.Fatalf("Reserve is %v, %v, want %v", r, err, want)
		}
	}
	// lost: no settling takes hold but, where it says what is so already, one.
	lost := func(a Act, token Token, already ...string) {
		t.Helper()
		for name, f := range map[string]func(context.Context, Act, Token) error{"Commit": s.Commit, "Release": s.Release, "Doubt": s.Doubt} {
			err := f(ctx, a, token)
			if slices.Contains(already, name) {
				if err != nil {
					t.Fatalf("%s again is %v", name, err)
				}
			} else if !errors.Is(err, ErrLeaseLost) {
				t.Fatalf("%s is %v", name, err)
			}
		}
	}
	reserve := func(takeDoubt bool) Token {
		t.Helper()
		r, err := s.Reserve(ctx, act, time.Minute, takeDoubt)
		if err != nil || r.State != ActClaimed || r.Token == 0 {
			t.Fatal(r, err)
		}
		return r.Token
	}
	is(act, 0)
	// There is nothing to commit and nothing to forget.
	if err := errors.Join(s.Commit(ctx, act, 1), s.Doubt(ctx, act, 1)); !errors.Is(err, ErrLeaseLost) {
		t.Fatal(err)
	}
	if err := s.Release(ctx, act, 1); err != nil {
		t.Fatal(err)
	}
	first := reserve(false)
	is(act, ActInFlight)
	is(other, ActConflict)
	lost(act, first+1)
	lost(act, 0)
	lost(other, first)
	if r, err := s.Reserve(ctx, act, time.Minute, true); err != nil || r.State != ActInFlight {
		t.Fatal("takeDoubt took what is in flight", r, err)
	}
	clock.Add(time.Minute - 1)
	is(act, ActInFlight)
	clock.Add(1)
	is(act, ActInDoubt)
	lost(act, first, "Doubt")
	is(act, ActInDoubt)
	is(other, ActConflict)
	if r, err := s.Reserve(ctx, other, time.Minute, true); err != nil || r.State != ActConflict {
		t.Fatal("takeDoubt took another decision", r, err)
	}
	second := reserve(true)
	if second == first {
		t.Fatal("two claims share a token")
	}
	lost(act, first)
	if err := s.Doubt(ctx, act, second); err != nil {
		t.Fatal(err)
	}
	is(act, ActInDoubt)
	lost(act, second, "Doubt")
	third := reserve(true)
	if err := s.Release(ctx, act, third); err != nil {
		t.Fatal(err)
	}
	is(act, 0)
	fourth := reserve(false)
	if err := s.Commit(ctx, act, fourth); err != nil {
		t.Fatal(err)
	}
	is(act, ActDone)
	is(other, ActConflict)
	lost(act, fourth, "Commit")
	is(act, ActDone)
	lost(act, 0)
	if r, err := s.Reserve(ctx, act, time.Minute, true); err != nil || r.State != ActDone {
		t.Fatal("takeDoubt took what is done", r, err)
	}
	clock.Add(time.Hour - 1)
	is(act, ActDone)
	clock.Add(1)
	is(act, 0)

	for _, bad := range []Act{{}, {Key: string(make([]byte, maxStoreKey+1))}, {Key: "k", Resolution: string(make([]byte, maxStoreKey+1))}} {
		if _, err := s.Reserve(ctx, bad, time.Minute, false); err == nil {
			t.Error("a bad act was reserved")
		} else if _, ok := errors.AsType[*types.FieldError](err); !ok {
			t.Error(err)
		}
		if _, err := s.Lookup(ctx, bad); err == nil {
			t.Error("a bad act was looked up")
		}
		if err := s.Commit(ctx, bad, 1); err == nil || errors.Is(err, ErrLeaseLost) {
			t.Error(err)
		}
	}
	widest := Act{Key: string(make([]byte, maxStoreKey)), Resolution: string(make([]byte, maxStoreKey))}
	if r, err := s.Reserve(ctx, widest, time.Minute, false); err != nil || r.State != ActClaimed {
		t.Error(r, err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Reserve(gone, Act{Key: "x"}, time.Minute, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := s.ClaimJTI(gone, "x", time.Minute, time.Minute); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	is(Act{Key: "x"}, 0)
	claims(t, s, "x", time.Minute, Fresh)
}

// What is kept for less than no time is over at once.
func TestAClaimThatIsOverAlreadyHoldsNothing(t *testing.T) {
	clock := newStepClock()
	s := trustMemory(t, MemoryConfig{Now: clock.Now})
	for range 3 {
		if st, err := s.ClaimJTI(t.Context(), "j", -time.Second, -time.Second); st != Fresh || err != nil {
			t.Error(st, err)
		}
	}
}

func TestTheOutboxOfAClientTakesWhatItHasRoomForAndRefusesNothing(t *testing.T) {
	box, err := newClientOutbox(Config{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	key := func(k any) SubmitKey { return SubmitKey{Hub: "h", AgentID: "a", Key: fmt.Sprint(k)} }
	put := func(k any, body []byte, created, kept bool) {
		t.Helper()
		got, err := box.PutSubmit(t.Context(), key(k), body)
		if err != nil || got.Created != created || !created && bytes.Equal(got.Body, body) || created && !bytes.Equal(got.Body, body) {
			t.Errorf("put %v: %d bytes, created %t, %v", k, len(got.Body), got.Created, err)
		}
		if got, err = box.GetSubmit(t.Context(), key(k)); err != nil || (got.Body != nil) != kept {
			t.Errorf("get %v: %d bytes, %v", k, len(got.Body), err)
		}
	}
	put("large", make([]byte, clientOutboxBody), true, true)
	put("too large", make([]byte, clientOutboxBody+1), true, false)
	put("large", []byte("another"), false, true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := box.PutSubmit(gone, key("gone"), []byte("x")); !errors.Is(err, context.Canceled) || got.Body != nil || got.Created {
		t.Error(got, err)
	}
	for i := range clientOutboxSize - 1 {
		put(i, []byte("x"), true, true)
	}
	put("one more", []byte("x"), true, false)
}

func TestAnOutboxInMemoryKeepsWhatWasPutFirstForItsTime(t *testing.T) {
	clock := newStepClock()
	s := trustMemory(t, MemoryConfig{Now: clock.Now, Retention: time.Hour, MaxEntries: 1})
	key := SubmitKey{Hub: "h", AgentID: "a", Key: "k"}
	same := func(what string, got Submit, err error, want Submit) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v of age %s, %v", what, got, got.Age, err)
		}
	}
	got, err := s.GetSubmit(t.Context(), key)
	same("nothing", got, err, Submit{})
	got, err = s.PutSubmit(t.Context(), key, []byte("body"))
	same("the first", got, err, Submit{Body: []byte("body"), Created: true})
	clock.Add(-time.Minute) // a clock that steps back makes nothing younger than new
	got, err = s.GetSubmit(t.Context(), key)
	same("stepped back", got, err, Submit{Body: []byte("body")})
	clock.Add(time.Minute + 59*time.Minute)
	got, err = s.PutSubmit(t.Context(), key, []byte("another"))
	same("again", got, err, Submit{Body: []byte("body"), Age: 59 * time.Minute})
	other := key
	other.Key = "k2"
	if got, err := s.PutSubmit(t.Context(), other, []byte("x")); !errors.Is(err, ErrStoreFull) || !reflect.DeepEqual(got, Submit{}) {
		t.Errorf("a full outbox: %+v, %v", got, err)
	}
	// It was put an hour ago, however often it was asked for since.
	clock.Add(3 * time.Minute)
	got, err = s.GetSubmit(t.Context(), key)
	same("after its time", got, err, Submit{})
}

func TestASubmitKeyHasBounds(t *testing.T) {
	good := SubmitKey{Hub: strings.Repeat("h", 2048), AgentID: strings.Repeat("a", 512), Key: strings.Repeat("k", 512)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for field, k := range map[string]SubmitKey{
		"SubmitKey.Hub":     {Hub: good.Hub + "h", AgentID: "a", Key: "k"},
		"SubmitKey.AgentID": {AgentID: good.AgentID + "a", Key: "k"},
		"SubmitKey.Key":     {AgentID: "a", Key: good.Key + "k"},
	} {
		fe, ok := errors.AsType[*types.FieldError](k.Validate())
		if !ok || fe.Field != field {
			t.Errorf("%s: %v", field, k.Validate())
		}
	}
	for _, k := range []SubmitKey{{AgentID: "a"}, {Key: "k"}} {
		if k.Validate() == nil {
			t.Errorf("%+v is taken", k)
		}
	}
}

func TestARetentionWithoutEndForgetsNothing(t *testing.T) {
	clock := newStepClock()
	s := trustMemory(t, MemoryConfig{Now: clock.Now, Retention: math.MaxInt64})
	act := Act{Key: "m"}
	r, err := s.Reserve(t.Context(), act, time.Minute, false)
	if err != nil || s.Commit(t.Context(), act, r.Token) != nil {
		t.Fatal(r, err)
	}
	clock.Add(50 * 365 * 24 * time.Hour)
	if st, err := s.Lookup(t.Context(), act); st != ActDone || err != nil {
		t.Error(st, err)
	}
	claims(t, s, "j", math.MaxInt64, Fresh)
	settles(t, s, "j", true)
	claims(t, s, "j", time.Second, Seen)
}

func TestAMemoryStoreRefusesABadConfiguration(t *testing.T) {
	for _, cfg := range []MemoryConfig{{MaxEntries: -1}, {Retention: time.Minute - 1}, {Retention: -time.Hour}} {
		s, err := NewMemoryStore(cfg)
		if _, ok := errors.AsType[*types.FieldError](err); !ok || s != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	trustMemory(t, MemoryConfig{Retention: time.Minute})
	s := trustMemory(t, MemoryConfig{})
	if s.jtis.most != 1_000_000 || s.retention != 31*24*time.Hour || s.now == nil {
		t.Error("the defaults are others than documented")
	}
}

// stepClock moves when it is told to.
type stepClock struct {
	mu  sync.Mutex
	now time.Time
}

func newStepClock() *stepClock { return &stepClock{now: time.Unix(1_750_000_000, 0)} }

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stepClock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
