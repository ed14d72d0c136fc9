package storekit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
)

// engine is what forgets claims.
type engine struct {
	there map[ma2h.Token]bool
	down  bool
	asked int
}

var errDown = errors.New("down")

func (e *engine) forget(_ context.Context, _ Orphan, token ma2h.Token) (bool, error) {
	e.asked++
	if e.down {
		return false, errDown
	}
	was := e.there[token]
	delete(e.there, token)
	return was, nil
}

func TestAClaimWhoseAnswerWasLostIsGivenBackOnce(t *testing.T) {
	var o Orphans
	e := &engine{there: map[ma2h.Token]bool{}}
	a := o.Take(Orphan{Digest: "x"})
	e.there[a.Token()] = true
	a.Failed(true)
	for range 3 {
		if err := o.GiveBack(t.Context(), e.forget); err != nil {
			t.Fatal(err)
		}
	}
	if e.asked != 1 || len(e.there) != 0 {
		t.Errorf("asked %d times, %d are there", e.asked, len(e.there))
	}
}

func TestAClaimThatIsNoneIsNotGivenBack(t *testing.T) {
	var o Orphans
	e := &engine{}
	o.Take(Orphan{Digest: "x"}).Failed(false)
	NewAttempt().Failed(true)
	if err := o.GiveBack(t.Context(), e.forget); err != nil || e.asked != 0 {
		t.Errorf("asked %d times, %v", e.asked, err)
	}
}

func TestAClaimThatComesLateIsLookedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Orphans
		e := &engine{there: map[ma2h.Token]bool{}}
		a := o.Take(Orphan{Digest: "x"})
		a.Failed(true)
		give := func() {
			if err := o.GiveBack(t.Context(), e.forget); err != nil {
				t.Fatal(err)
			}
		}
		give()
		give()
		if e.asked != 1 {
			t.Errorf("asked %d times at once", e.asked)
		}
		e.there[a.Token()] = true
		time.Sleep(lookAgain)
		give()
		if e.asked != 2 || len(e.there) != 0 {
			t.Errorf("asked %d times, %d are there", e.asked, len(e.there))
		}
		time.Sleep(time.Hour)
		give()
		if e.asked != 2 {
			t.Errorf("asked %d times", e.asked)
		}
	})
}

func TestAClaimThatNeverComesIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Orphans
		e := &engine{}
		o.Take(Orphan{Digest: "x"}).Failed(true)
		for range 300 {
			if err := o.GiveBack(t.Context(), e.forget); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lookAgain)
		}
		if n := o.Len(); n != 0 || e.asked > int(lookFor/lookAgain)+2 {
			t.Errorf("%d are left after %d tries", n, e.asked)
		}
	})
}

func TestWhileTheEngineIsAwayNothingIsForgotten(t *testing.T) {
	var o Orphans
	e := &engine{there: map[ma2h.Token]bool{}, down: true}
	for i := range 2 * giveBackStep {
		a := o.Take(Orphan{Digest: fmt.Sprint(i)})
		e.there[a.Token()] = true
		a.Failed(true)
	}
	if err := o.GiveBack(t.Context(), e.forget); !errors.Is(err, errDown) || e.asked != 1 {
		t.Errorf("asked %d times, %v", e.asked, err)
	}
	e.down = false
	for want := giveBackStep; want >= 0; want -= giveBackStep {
		if err := o.GiveBack(t.Context(), e.forget); err != nil || len(e.there) != want {
			t.Errorf("%d are there, not %d: %v", len(e.there), want, err)
		}
	}
}

func TestTheNextClaimTakesTheTokenAndNobodyElse(t *testing.T) {
	var o Orphans
	x := Orphan{Kind: 1, Digest: "x"}
	a := o.Take(x)
	a.Failed(true)
	if other := o.Take(Orphan{Kind: 2, Digest: "x"}); other.Token() == a.Token() {
		t.Error("a claim of another kind got the token")
	}
	var mu sync.Mutex
	got := map[ma2h.Token]int{}
	var done sync.WaitGroup
	for range 64 {
		done.Go(func() {
			b := o.Take(x)
			mu.Lock()
			defer mu.Unlock()
			got[b.Token()]++
		})
	}
	done.Wait()
	if len(got) != 64 || got[a.Token()] != 1 {
		t.Errorf("%d tokens, that of the orphan %d times", len(got), got[a.Token()])
	}
}

func TestAnOrphanThatCouldNotBeUsedStays(t *testing.T) {
	var o Orphans
	x := Orphan{Digest: "x"}
	a := o.Take(x)
	a.Failed(true)
	for range 3 {
		b := o.Take(x)
		if b.Token() != a.Token() {
			t.Fatal("the token is lost")
		}
		b.Failed(false)
	}
}

func TestOrphansAreBounded(t *testing.T) {
	var o Orphans
	for i := range maxOrphans + 1 {
		o.Take(Orphan{Digest: fmt.Sprint(i)}).Failed(true)
	}
	if n := o.Len(); n != maxOrphans || len(o.held) != maxOrphans {
		t.Errorf("%d orphans, %d counted", len(o.held), n)
	}
}

func TestMicrosecondsAreNeverFewer(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, 999: 1, 1000: 1, 1001: 2, time.Second: 1_000_000} {
		if got := Micros(d); got != want {
			t.Errorf("%d ns are %d µs, not %d", d, got, want)
		}
	}
}
