package ma2h

import (
	"errors"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: STA-06
// report: B114
func TestStateOpensOnlyForWhatItWasSealedFor(t *testing.T) {
	sealedFor := sealBinding.With("sha256:82000", "bc")
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			s := newTestSealer(t, mode)
			state := mustSeal(t, s, sealedPlan, sealedFor)
			mustOpenPlan(t, s, state, sealBinding.With("sha256:82000").With("bc"))
			for row, b := range map[string]Binding{
				"another question":            Bind(sealAgent, "ship-1.5").With("sha256:82000", "bc"),
				"another agent":               Bind("deploybot", "ship-1.4").With("sha256:82000", "bc"),
				"another action":              sealBinding.With("sha256:820000", "bc"),
				"no facts":                    sealBinding,
				"one fact less":               sealBinding.With("sha256:82000"),
				"one fact more":               sealedFor.With(""),
				"facts in another order":      sealBinding.With("bc", "sha256:82000"),
				"facts cut elsewhere":         sealBinding.With("sha256:82000b", "c"),
				"facts joined":                sealBinding.With("sha256:82000bc"),
				"a fact moved into the key":   Bind(sealAgent, "ship-1.4sha256:82000").With("bc"),
				"a fact moved out of a key":   Bind(sealAgent, "ship").With("-1.4", "sha256:82000", "bc"),
				"no question":                 Bind(sealAgent, "").With("sha256:82000", "bc"),
				"nothing":                     {},
				"an expiry in a fact's stead": sealBinding.Until(sealEpoch.Add(time.Hour)),
			} {
				t.Run(row, func(t *testing.T) { mustRefuse(t, s, state, b, ErrSealBinding) })
			}
		})
	}
}

// req: STA-06
func TestTwoQuestionsOfOneAgentCannotSwapState(t *testing.T) {
	s := newTestSealer(t)
	a, b := Bind(sealAgent, "a"), Bind(sealAgent, "b")
	stateA, stateB := mustSeal(t, s, sealedPlan, a), mustSeal(t, s, sealedPlan, b)
	mustOpenPlan(t, s, stateA, a)
	mustOpenPlan(t, s, stateB, b)
	mustRefuse(t, s, stateB, a, ErrSealBinding)
	mustRefuse(t, s, stateA, b, ErrSealBinding)
}

func TestABindingIsAValue(t *testing.T) {
	s := newTestSealer(t)
	base := sealBinding.With("a").With("b").With("c") // room to spare, if appended
	one := base.With("one")
	_ = base.With("two")
	mustOpenPlan(t, s, mustSeal(t, s, sealedPlan, sealBinding.With("a", "b", "c", "one")), one)
}

// report: B106
func TestStateExpiresAtItsVerySecond(t *testing.T) {
	expiry := sealEpoch.Add(time.Hour)
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			at := func(now time.Time) *Sealer {
				return newTestSealer(t, mode, func(c *SealerConfig) { c.Now = func() time.Time { return now } })
			}
			// A fraction is dropped: state never lives longer than was asked.
			for _, until := range []time.Time{expiry, expiry.Add(time.Second - 1)} {
				state := mustSeal(t, at(sealEpoch), sealedPlan, sealBinding.Until(until))
				mustOpenPlan(t, at(expiry.Add(-1)), state, sealBinding)
				mustRefuse(t, at(expiry), state, sealBinding, ErrSealExpired)
				mustRefuse(t, at(expiry), state, sealBinding.Until(expiry.Add(time.Hour)), ErrSealExpired)
				mustRefuse(t, at(expiry), state, sealBinding.With("x"), ErrSealBinding)
			}
			mustOpenPlan(t, at(time.Unix(latestExpiry, 0)), mustSeal(t, at(sealEpoch), sealedPlan, sealBinding), sealBinding)
		})
	}
}

func TestAnExpiryThatIsNotAheadIsRefusedAtSeal(t *testing.T) {
	s := newTestSealer(t)
	for name, until := range map[string]time.Time{
		"zero time": {}, "past": sealEpoch.Add(-time.Hour), "before 1970": time.Unix(-1, 0),
		"now": sealEpoch, "within this second": sealEpoch.Add(time.Second - 1),
	} {
		t.Run(name, func(t *testing.T) {
			if state, err := s.Seal(sealedPlan, sealBinding.Until(until)); state != nil || !errors.Is(err, ErrSealExpired) {
				t.Fatalf("Seal = %s, %v", string(state), err)
			}
		})
	}
	// Second 0 means none on its way, so it is refused by a slow clock too.
	slow := newTestSealer(t, func(c *SealerConfig) { c.Now = func() time.Time { return time.Unix(-100, 0) } })
	if state, err := slow.Seal(sealedPlan, sealBinding.Until(time.Unix(0, 0))); state != nil || !errors.Is(err, ErrSealExpired) {
		t.Fatalf("Seal = %s, %v", string(state), err)
	}
	mustOpenPlan(t, slow, mustSeal(t, slow, sealedPlan, sealBinding.Until(time.Unix(1, 0))), sealBinding)
	mustOpenPlan(t, s, mustSeal(t, s, sealedPlan, sealBinding.Until(sealEpoch.Add(time.Second))), sealBinding)
	mustOpenPlan(t, s, mustSeal(t, s, sealedPlan, sealBinding.Until(time.Unix(latestExpiry, 0))), sealBinding)
	state, err := s.Seal(sealedPlan, sealBinding.Until(time.Unix(latestExpiry+1, 0)))
	if fe, ok := errors.AsType[*types.FieldError](err); state != nil || !ok || fe.Field != "Binding.Until" {
		t.Fatalf("Seal past the year 9999 = %s, %v", string(state), err)
	}
}

func TestABindingThatBindsNothingIsRefusedAtSeal(t *testing.T) {
	s := newTestSealer(t)
	for name, b := range map[string]Binding{
		"zero": {}, "no agent": Bind("", "k"), "no question": Bind(sealAgent, ""), "another agent": Bind("payer", "k"),
	} {
		t.Run(name, func(t *testing.T) {
			if state, err := s.Seal(sealedPlan, b); state != nil || !errors.Is(err, ErrSealBinding) {
				t.Fatalf("Seal = %s, %v", string(state), err)
			}
		})
	}
}
