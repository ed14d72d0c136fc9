package ma2h

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

var sealErrors = []error{
	ErrSealMalformed, ErrSealKeyUnknown, ErrSealKey, ErrSealTampered, ErrSealBinding, ErrSealExpired, ErrSealType,
}

const sealAgent = "deploybot/dev-team"

var (
	sealBinding = Bind(sealAgent, "ship-1.4")
	sealEpoch   = time.Unix(1_800_000_000, 0)
	sealModes   = map[string]func(*SealerConfig){
		"encrypted":     func(*SealerConfig) {},
		"deterministic": func(c *SealerConfig) { c.Deterministic = true },
		"readable":      func(c *SealerConfig) { c.Readable = true },
	}
)

type sealPlan struct {
	Step  int    `json:"step"`
	Image string `json:"image"`
}

var (
	sealedPlan = sealPlan{Step: 3, Image: "app:1.4"}
	priorPlan  = sealPlan{Step: -1, Image: "prior"}
)

func sealKeyBytes(fill byte) []byte { return bytes.Repeat([]byte{fill}, 32) }

func newTestSealer(t testing.TB, options ...func(*SealerConfig)) *Sealer {
	t.Helper()
	cfg := SealerConfig{
		Keys:    []SealKey{SealKeyRaw("k1", sealKeyBytes(1))},
		AgentID: sealAgent,
		Now:     func() time.Time { return sealEpoch },
	}
	for _, o := range options {
		o(&cfg)
	}
	s, err := NewSealer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func withSealKeys(keys ...SealKey) func(*SealerConfig) {
	return func(c *SealerConfig) { c.Keys = keys }
}

func mustSeal(t testing.TB, s *Sealer, v any, b Binding) types.Raw {
	t.Helper()
	state, err := s.Seal(v, b)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func mustOpenPlan(t testing.TB, s *Sealer, state types.Raw, b Binding) {
	t.Helper()
	got := priorPlan
	if err := s.Open(state, &got, b); err != nil {
		t.Fatal(err)
	}
	if got != sealedPlan {
		t.Fatalf("opened %+v, sealed %+v", got, sealedPlan)
	}
}

// mustRefuse asserts that Open gives want and no other sentinel, and that the
// caller's value is as it was.
func mustRefuse(t testing.TB, s *Sealer, state types.Raw, b Binding, want error) {
	t.Helper()
	got := priorPlan
	err := s.Open(state, &got, b)
	for _, e := range sealErrors {
		if errors.Is(err, e) != (e == want) {
			t.Fatalf("Open: %v, want %v", err, want)
		}
	}
	if got != priorPlan {
		t.Fatalf("refused with %v, yet the value became %+v", err, got)
	}
}

// sealedText returns the token inside a state object.
func sealedText(t testing.TB, state types.Raw) string {
	t.Helper()
	sealed, _ := splitState(state)
	if sealed == "" {
		t.Fatalf("no token in %s", string(state))
	}
	return sealed
}

// withToken puts another token into a state object.
func withToken(t testing.TB, state types.Raw, token string) types.Raw {
	t.Helper()
	return types.Raw(strings.Replace(string(state), sealedText(t, state), token, 1))
}

// req: STA-01 STA-02
func TestStateSealedInOneProcessOpensInAnother(t *testing.T) {
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			state := mustSeal(t, newTestSealer(t, mode), sealedPlan, sealBinding)
			if !state.IsObject() {
				t.Fatalf("state is not an object: %s", string(state))
			}
			if legible := bytes.Contains(state, []byte("app:1.4")); legible != (name == "readable") {
				t.Errorf("the Hub can read the state: %v", legible)
			}
			for reader, other := range sealModes {
				t.Run("by a Sealer in mode "+reader, func(t *testing.T) {
					mustOpenPlan(t, newTestSealer(t, other), state, sealBinding)
				})
			}
		})
	}
}

func mustEncodeJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := types.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// req: STA-03
func TestOneKeyDoesNotOpenTheStateOfAnotherAgent(t *testing.T) {
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			other := newTestSealer(t, mode, func(c *SealerConfig) { c.AgentID = "payer" })
			state := mustSeal(t, newTestSealer(t, mode), sealedPlan, sealBinding)
			mustRefuse(t, other, state, Bind("payer", "ship-1.4"), ErrSealKey)
			mustRefuse(t, other, state, sealBinding, ErrSealBinding)

			// Nor does it when the key check is made to fit.
			p := strings.Split(sealedText(t, state), ".")
			p[2] = other.keys[0].check
			mustRefuse(t, other, withToken(t, state, strings.Join(p, ".")), Bind("payer", "ship-1.4"), ErrSealTampered)
		})
	}
}

// req: STA-05
func TestDuringRotationBothKeysOpenAndTheFirstSeals(t *testing.T) {
	older, newer := SealKeyRaw("2026-10", sealKeyBytes(1)), SealKeyRaw("2026-11", sealKeyBytes(2))
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			before := newTestSealer(t, mode, withSealKeys(older))
			during := newTestSealer(t, mode, withSealKeys(newer, older))
			after := newTestSealer(t, mode, withSealKeys(newer))
			first, second := mustSeal(t, before, sealedPlan, sealBinding), mustSeal(t, during, sealedPlan, sealBinding)
			mustOpenPlan(t, during, first, sealBinding)
			mustOpenPlan(t, during, second, sealBinding)
			mustOpenPlan(t, after, second, sealBinding)
			mustRefuse(t, after, first, sealBinding, ErrSealKeyUnknown)
			mustRefuse(t, before, second, sealBinding, ErrSealKeyUnknown)
		})
	}
}

// report: B105
func TestAWrongKeyUnderAKnownIdIsToldFromTampering(t *testing.T) {
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			wrong := newTestSealer(t, mode, withSealKeys(SealKeyRaw("k1", sealKeyBytes(5))))
			mustRefuse(t, wrong, mustSeal(t, newTestSealer(t, mode), sealedPlan, sealBinding), sealBinding, ErrSealKey)
		})
	}
}

func TestSealErrorsAreDistinct(t *testing.T) {
	for i, a := range sealErrors {
		for j, b := range sealErrors {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("%v is %v", a, b)
			}
		}
	}
}

// req: STA-07 SUB-12
func TestARetryAfterACrashSealsTheSameBytes(t *testing.T) {
	until := sealBinding.Until(sealEpoch.Add(time.Hour))
	for _, name := range []string{"deterministic", "readable"} {
		t.Run(name, func(t *testing.T) {
			mode := sealModes[name]
			noRand := func(c *SealerConfig) { c.Rand = strings.NewReader("") }
			seal := func(v any, b Binding) string {
				return string(mustSeal(t, newTestSealer(t, mode, noRand), v, b))
			}
			first := seal(map[string]any{"b": 1, "a": []any{"x", nil}}, until)
			if again := seal(map[string]any{"a": []any{"x", nil}, "b": 1}, until); again != first {
				t.Errorf("same state, same binding:\n%s\n%s", first, again)
			}
			all := map[string]bool{first: true}
			all[seal(map[string]any{"b": 2, "a": []any{"x", nil}}, until)] = true
			all[seal(map[string]any{"b": 1, "a": []any{"x", nil}}, sealBinding)] = true
			all[seal(map[string]any{"b": 1, "a": []any{"x", nil}}, sealBinding.Until(sealEpoch.Add(time.Minute)))] = true
			all[seal(map[string]any{"b": 1, "a": []any{"x", nil}}, until.With("f"))] = true
			all[seal(map[string]any{"b": 1, "a": []any{"x", nil}}, Bind(sealAgent, "ship-1.5").Until(sealEpoch.Add(time.Hour)))] = true
			if len(all) != 6 {
				t.Errorf("6 different states gave %d tokens", len(all))
			}
		})
	}
	s := newTestSealer(t)
	if a, b := mustSeal(t, s, sealedPlan, sealBinding), mustSeal(t, s, sealedPlan, sealBinding); bytes.Equal(a, b) {
		t.Error("without Deterministic, two seals are equal")
	}
}

func TestASealerServesManyGoroutines(t *testing.T) {
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			s := newTestSealer(t, mode, func(c *SealerConfig) { c.AllowUnboundState = true })
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 50 {
						in, out := sealPlan{Step: g*1000 + i}, sealPlan{}
						b := sealBinding.With(in.Image).Until(sealEpoch.Add(time.Hour))
						state, err := s.Seal(in, b)
						if err != nil || s.Open(state, &out, b) != nil || in != out {
							t.Errorf("sealed %+v, opened %+v, %v", in, out, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkSealOpen(b *testing.B) {
	for name, mode := range sealModes {
		b.Run(name, func(b *testing.B) {
			s := newTestSealer(b, mode)
			b.ReportAllocs()
			for b.Loop() {
				var out sealPlan
				if err := s.Open(mustSeal(b, s, sealedPlan, sealBinding), &out, sealBinding); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
