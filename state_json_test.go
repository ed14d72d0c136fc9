package ma2h

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

func TestWhatIsSealedIsWhatIsOpened(t *testing.T) {
	type inner struct{ P *int }
	type all struct {
		I64   int64
		U64   uint64
		F     float64
		S     string
		Nil   *inner
		List  []inner
		Map   map[string]any
		Bytes []byte
		When  time.Time
		Raw   types.Raw
	}
	in := all{
		I64: math.MinInt64, U64: math.MaxUint64, F: math.SmallestNonzeroFloat64, S: "Zoë <&>\u2028\x00",
		List: []inner{{}, {new(7)}}, Map: map[string]any{"z": nil, "a": 1e21}, Bytes: []byte{0, 255},
		When: sealEpoch.UTC(), Raw: types.Raw(`{"a":[1,"x"]}`),
	}
	var out all
	s := newTestSealer(t)
	if err := s.Open(mustSeal(t, s, in, sealBinding), &out, sealBinding); err != nil {
		t.Fatal(err)
	}
	if a, b := mustEncodeJSON(t, in), mustEncodeJSON(t, out); !bytes.Equal(a, b) {
		t.Errorf("sealed %s\nopened %s", a, b)
	}

	// The twin: doubles do not hold these integers, and a Hub may turn a
	// legible number into a double.
	if state, err := newTestSealer(t, sealModes["readable"]).Seal(in, sealBinding); err == nil || state != nil {
		t.Errorf("readable state took numbers that a Hub would round: %v", err)
	}
}

// report: B039
func TestWhatCannotBeSealedIsRefusedAndNothingReturned(t *testing.T) {
	fat := func(n int) any { return map[string]string{"s": strings.Repeat("x", n-len(`{"s":""}`))} }
	deep := func(n int) any { return types.Raw(strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1)) }
	for _, row := range []struct {
		name     string
		value    any
		encrypts bool // Sealed when encrypted.
		legible  bool // Sealed when readable.
	}{
		{"NaN", map[string]any{"x": math.NaN()}, false, false},
		{"+Inf", struct{ X float64 }{math.Inf(1)}, false, false},
		{"-Inf", []any{math.Inf(-1)}, false, false},
		{"1e400", types.Raw(`{"x":1e400}`), false, false},
		{"a channel", map[string]any{"x": make(chan int)}, false, false},
		{"a string that is not UTF-8", map[string]any{"x": "\xff"}, false, false},
		{"a duplicate name", types.Raw(`{"a":1,"a":2}`), false, false},
		{"nil", nil, false, false},
		{"a nil pointer", (*sealPlan)(nil), false, false},
		{"nil Raw", types.Raw(nil), false, false},
		{"a string", "x", false, false},
		{"bytes", []byte("x"), false, false},
		{"an array", []int{1}, false, false},
		{"64 KiB", fat(64 << 10), true, true},
		{"64 KiB and a byte", fat(64<<10 + 1), false, false},
		{"56 levels", deep(56), true, true},
		{"57 levels", deep(57), true, false},
		{"64 levels", deep(64), true, false},
		{"65 levels", deep(65), false, false},
		{"2^53", map[string]int64{"x": 1 << 53}, true, true},
		{"2^53+1", map[string]int64{"x": 1<<53 + 1}, true, false},
		{"a decimal of many digits", types.Raw(`{"x":[0.12345678901234567890]}`), true, false},
		{"a decimal that underflows far", types.Raw(`{"x":1e-1000000000}`), true, false},
		{"a decimal that underflows", types.Raw(`{"x":1e-99999}`), true, false},
		{"numbers in another spelling", types.Raw(`{"x":[1.50, 10e1, -0, 1E+2]}`), true, true},
	} {
		for mode, want := range map[string]bool{"encrypted": row.encrypts, "readable": row.legible} {
			t.Run(row.name+" "+mode, func(t *testing.T) {
				s := newTestSealer(t, sealModes[mode])
				state, err := s.Seal(row.value, sealBinding)
				if want {
					if err != nil {
						t.Fatal(err)
					}
					var out map[string]any
					if err := s.Open(state, &out, sealBinding); err != nil {
						t.Fatal(err)
					}
					return
				}
				if fe, ok := errors.AsType[*types.FieldError](err); state != nil || !ok || fe.Field != "state" {
					t.Fatalf("Seal = %s, %v", string(state), err)
				}
			})
		}
	}
}

// req: STA-01
func TestWhatIsNoSealedStateIsMalformed(t *testing.T) {
	s := newTestSealer(t)
	state := mustSeal(t, s, sealedPlan, sealBinding)
	mustOpenPlan(t, s, state, sealBinding)
	for name, text := range map[string]string{
		"absent":               "",
		"null":                 "null",
		"empty object":         "{}",
		"unsealed":             `{"step":3,"image":"app:1.4"}`,
		"null token":           `{"sealed":null}`,
		"empty token":          `{"sealed":""}`,
		"number":               `{"sealed":1}`,
		"array":                `["` + sealedText(t, state) + `"]`,
		"bare token":           `"` + sealedText(t, state) + `"`,
		"another member":       strings.Replace(string(state), "{", `{"x":1,`, 1),
		"null text":            strings.Replace(string(state), "{", `{"plain":null,`, 1),
		"name in capitals":     strings.Replace(string(state), "sealed", "Sealed", 1),
		"second token":         strings.Replace(string(state), "{", `{"sealed":"",`, 1),
		"something after it":   string(state) + "{}",
		"65 levels":            strings.Repeat("[", 65) + strings.Repeat("]", 65),
		"vector's placeholder": `{"sealed":"v1.demo.MOCK-SEALED-STATE-BLOB"}`,
	} {
		t.Run(name, func(t *testing.T) { mustRefuse(t, s, types.Raw(text), sealBinding, ErrSealMalformed) })
	}
}

func TestWhatCannotBeSealedSaysWhereItsTypeIs(t *testing.T) {
	_, err := newTestSealer(t).Seal(map[string]any{"x": make(chan int)}, sealBinding)
	if err == nil || !strings.Contains(err.Error(), "see Go type chan int") {
		t.Error(err)
	}
}

func TestAReadableTokenWithoutItsTextIsMalformed(t *testing.T) {
	s := newTestSealer(t, sealModes["readable"])
	token := sealedText(t, mustSeal(t, s, sealedPlan, sealBinding))
	mustRefuse(t, s, types.Raw(`{"sealed":"`+token+`"}`), sealBinding, ErrSealMalformed)
}

func TestOpenLooksAtOneMebibyteAtMost(t *testing.T) {
	s := newTestSealer(t)
	state := mustSeal(t, s, sealedPlan, sealBinding)
	padded := append(bytes.Clone(state), bytes.Repeat([]byte(" "), maxStateSealed-len(state))...)
	mustOpenPlan(t, s, padded, sealBinding)
	mustRefuse(t, s, append(padded, ' '), sealBinding, ErrSealMalformed)
}

func TestStateSurvivesAHubThatRewritesItsJSON(t *testing.T) {
	value := map[string]any{"step": 3, "image": "app:1.4", "url": "a/b", "who": "Zoë 🚀", "n": []any{1e21, 0.1, -5, 100000}}
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			s := newTestSealer(t, mode)
			state := mustSeal(t, s, value, sealBinding)
			rewrites := map[string]string{
				"spaced":            strings.ReplaceAll(strings.ReplaceAll(string(state), `":`, "\" :\n\t"), `,"`, ` , "`),
				"slashes escaped":   strings.ReplaceAll(string(state), "/", `\/`),
				"letters escaped":   strings.ReplaceAll(strings.ReplaceAll(string(state), "app", `\u0061pp`), "ma2h1", `\u006da2h1`),
				"non-ASCII escaped": strings.NewReplacer("ë", `\u00eb`, "🚀", `\ud83d\ude80`).Replace(string(state)),
				"numbers respelled": strings.NewReplacer(`[1e+21,0.1,-5,100000]`, `[1000000000000000000000,1.0E-1,-5.0,1e5]`).Replace(string(state)),
			}
			if i := strings.Index(string(state), `,"sealed":`); i >= 0 {
				rewrites["reordered"] = "{" + string(state)[i+1:len(state)-1] + "," + string(state)[1:i] + "}"
				rewrites["members reordered"] = strings.Replace(strings.Replace(string(state), `"image":"app:1.4",`, "", 1), `"who"`, `"image":"app:1.4","who"`, 1)
			}
			for how, text := range rewrites {
				t.Run(how, func(t *testing.T) {
					if name == "readable" && text == string(state) {
						t.Fatal("nothing was rewritten")
					}
					mustOpenPlan(t, s, types.Raw(text), sealBinding)
				})
			}
		})
	}
	s := newTestSealer(t, sealModes["readable"])
	state := string(mustSeal(t, s, value, sealBinding))
	for how, edit := range map[string][2]string{
		"a value":         {`"step":3`, `"step":4`},
		"a type":          {`"step":3`, `"step":"3"`},
		"an added member": {`"step":3`, `"step":3,"x":1`},
		"a lost member":   {`"step":3,`, ``},
		"a name":          {`"step"`, `"Step"`},
		"the order":       {`0.1,-5`, `-5,0.1`},
		"a normal form":   {"ë", "e\u0308"},
	} {
		t.Run("but not changed: "+how, func(t *testing.T) {
			edited := strings.Replace(state, edit[0], edit[1], 1)
			if edited == state {
				t.Fatal("nothing was edited")
			}
			mustRefuse(t, s, types.Raw(edited), sealBinding, ErrSealTampered)
		})
	}
	for how, edit := range map[string][2]string{
		"a duplicate member": {`"step":3`, `"step":3,"step":4`},
		"no finite double":   {`"step":3`, `"step":1e400`},
		"a lone surrogate":   {"🚀", `\ud83d`},
	} {
		t.Run("nor made ambiguous: "+how, func(t *testing.T) {
			mustRefuse(t, s, types.Raw(strings.Replace(state, edit[0], edit[1], 1)), sealBinding, ErrSealMalformed)
		})
	}
}

func TestOpenDecodesExactNamesIntoAFreshValue(t *testing.T) {
	s := newTestSealer(t)

	got := map[string]int{"stale": 1}
	if err := s.Open(mustSeal(t, s, map[string]int{"a": 1}, sealBinding), &got, sealBinding); err != nil || len(got) != 1 {
		t.Errorf("a map was merged into: %v, %v", got, err)
	}

	plan := priorPlan
	if err := s.Open(mustSeal(t, s, map[string]any{"STEP": 3, "ſtep": 4, "later": true}, sealBinding), &plan, sealBinding); err != nil || plan != (sealPlan{}) {
		t.Errorf("a name in another spelling was taken: %+v, %v", plan, err)
	}

	for name, v := range map[string]any{
		"a string for a number":       map[string]any{"image": "new", "step": "3"},
		"a fraction for an integer":   map[string]any{"image": "new", "step": 3.5},
		"an integer that is too big":  map[string]any{"image": "new", "step": uint64(math.MaxUint64)},
		"a number for a string":       map[string]any{"image": 1, "step": 3},
		"an object where a string is": map[string]any{"image": map[string]any{}, "step": 3},
	} {
		t.Run(name, func(t *testing.T) { mustRefuse(t, s, mustSeal(t, s, v, sealBinding), sealBinding, ErrSealType) })
	}
}

func TestOpenNeedsAPlaceToPutTheState(t *testing.T) {
	s := newTestSealer(t)
	state := mustSeal(t, s, sealedPlan, sealBinding)
	for name, v := range map[string]any{"nil": nil, "a value": priorPlan, "a nil pointer": (*sealPlan)(nil), "a map": map[string]any{}} {
		if s.Open(state, v, sealBinding) == nil {
			t.Errorf("Open into %s succeeded", name)
		}
	}
	var a any
	if err := s.Open(state, &a, sealBinding); err != nil {
		t.Error(err)
	}
	var r types.Raw
	if err := s.Open(state, &r, sealBinding); err != nil || string(r) != `{"step":3,"image":"app:1.4"}` {
		t.Errorf("Open into Raw = %s, %v", string(r), err)
	}
}
