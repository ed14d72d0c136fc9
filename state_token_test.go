package ma2h

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/types"
)

// req: STA-02 STA-01
// report: B106
func TestAnyEditedByteOfASealedStateIsRefused(t *testing.T) {
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			s := newTestSealer(t, mode)
			state := mustSeal(t, s, sealedPlan, sealBinding)
			for i := range state {
				for bit := range 8 {
					edited := bytes.Clone(state)
					edited[i] ^= 1 << bit
					refuseWithSentinel(t, s, edited, sealBinding)
				}
				refuseWithSentinel(t, s, append(bytes.Clone(state[:i]), state[i+1:]...), sealBinding)
				refuseWithSentinel(t, s, state[:i], sealBinding)
			}
			token := sealedText(t, state)
			for i := range token {
				for _, c := range "AZaz09-_.=\n" {
					if edited := token[:i] + string(c) + token[i+1:]; edited != token {
						text := strings.ReplaceAll(edited, "\n", `\n`)
						refuseWithSentinel(t, s, withToken(t, state, text), sealBinding)
					}
					text := strings.ReplaceAll(token[:i]+string(c)+token[i:], "\n", `\n`)
					refuseWithSentinel(t, s, withToken(t, state, text), sealBinding)
				}
			}
		})
	}
}

func refuseWithSentinel(t *testing.T, s *Sealer, state types.Raw, b Binding) {
	t.Helper()
	got := priorPlan
	err := s.Open(state, &got, b)
	if got != priorPlan {
		t.Fatalf("an edited state reached the caller: %q", []byte(state))
	}
	for _, e := range sealErrors {
		if errors.Is(err, e) {
			return
		}
	}
	t.Fatalf("Open(%q): %v, not a seal error", []byte(state), err)
}

// report: B106
func TestATokenHeaderIsAuthenticated(t *testing.T) {
	k1, k2 := SealKeyRaw("k1", sealKeyBytes(1)), SealKeyRaw("k2", sealKeyBytes(2))
	for name, mode := range sealModes {
		t.Run(name, func(t *testing.T) {
			s := newTestSealer(t, mode, withSealKeys(k1, k2))
			state := mustSeal(t, s, sealedPlan, sealBinding)
			mustOpenPlan(t, s, state, sealBinding)
			p := strings.Split(sealedText(t, state), ".")
			check2 := s.key("k2").check
			otherMode := map[string]string{sealEncrypted: sealReadable, sealReadable: sealEncrypted}[p[3]]
			for _, row := range []struct {
				name  string
				parts []string
				want  error
			}{
				{"id of the other key", []string{p[0], "k2", p[2], p[3], p[4]}, ErrSealKey},
				{"id and check of the other key", []string{p[0], "k2", check2, p[3], p[4]}, ErrSealTampered},
				{"id of no key", []string{p[0], "k3", p[2], p[3], p[4]}, ErrSealKeyUnknown},
				{"check of the other key", []string{p[0], p[1], check2, p[3], p[4]}, ErrSealKey},
				{"empty id", []string{p[0], "", p[2], p[3], p[4]}, ErrSealMalformed},
				{"later version", []string{"ma2h2", p[1], p[2], p[3], p[4]}, ErrSealMalformed},
				{"version in capitals", []string{"MA2H1", p[1], p[2], p[3], p[4]}, ErrSealMalformed},
				{"the other mode", []string{p[0], p[1], p[2], otherMode, p[4]}, ErrSealMalformed},
				{"unknown mode", []string{p[0], p[1], p[2], "z", p[4]}, ErrSealMalformed},
				{"no payload", []string{p[0], p[1], p[2], p[3], ""}, ErrSealMalformed},
				{"short payload", []string{p[0], p[1], p[2], p[3], p[4][:20]}, ErrSealMalformed},
				{"padded payload", []string{p[0], p[1], p[2], p[3], p[4] + "="}, ErrSealMalformed},
				{"four parts", p[:4], ErrSealMalformed},
				{"six parts", append(p[:5:5], "AAAA"), ErrSealMalformed},
			} {
				t.Run(row.name, func(t *testing.T) {
					mustRefuse(t, s, withToken(t, state, strings.Join(row.parts, ".")), sealBinding, row.want)
				})
			}
		})
	}
}

func TestAReadableTextCannotBeGivenToAnEncryptedToken(t *testing.T) {
	s := newTestSealer(t)
	token := sealedText(t, mustSeal(t, s, sealedPlan, sealBinding))
	for _, plain := range []string{`{"step":3,"image":"app:1.4"}`, `{}`, `null`} {
		mustRefuse(t, s, types.Raw(`{"plain":`+plain+`,"sealed":"`+token+`"}`), sealBinding, ErrSealMalformed)
	}
}

// What is no token is none whatever key it names.
func TestATokenOfAnotherFormIsMalformedBeforeItsKeyIsLookedFor(t *testing.T) {
	s := newTestSealer(t)
	parts := strings.Split(sealedText(t, mustSeal(t, s, sealedPlan, sealBinding)), ".")
	for _, payload := range []string{"!", "A", parts[4] + "="} {
		mustRefuse(t, s, types.Raw(`{"sealed":"`+strings.Join([]string{parts[0], "unknown", parts[2], parts[3], payload}, ".")+`"}`), sealBinding, ErrSealMalformed)
	}
	mustRefuse(t, s, types.Raw(`{"sealed":"`+strings.Join([]string{parts[0], "unknown", parts[2], parts[3], parts[4]}, ".")+`"}`), sealBinding, ErrSealKeyUnknown)
}

// report: B102
func TestNoNonceIsUsedTwice(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 2_000
	}
	s := newTestSealer(t)
	var mu sync.Mutex
	seen := make(map[[24]byte]bool, n)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range n / 4 {
				nonce := sealNonce(t, mustSeal(t, s, sealedPlan, sealBinding))
				mu.Lock()
				seen[nonce] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != n {
		t.Fatalf("%d seals, %d nonces", n, len(seen))
	}
}

func sealNonce(t testing.TB, state types.Raw) [24]byte {
	tok, err := parseSealToken(sealedText(t, state))
	if err != nil {
		t.Error(err)
		return [24]byte{}
	}
	return [24]byte(tok.payload)
}

type constantReader struct{}

func (constantReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// report: B102
func TestARandomSourceThatRepeatsItselfDoesNotRepeatANonceForAnotherText(t *testing.T) {
	s := newTestSealer(t, func(c *SealerConfig) { c.Rand = constantReader{} })
	seen := map[[24]byte]bool{}
	for _, state := range []types.Raw{
		mustSeal(t, s, sealedPlan, sealBinding),
		mustSeal(t, s, sealPlan{Step: 4, Image: "app:1.4"}, sealBinding),
		mustSeal(t, s, sealedPlan, sealBinding.With("x")),
		mustSeal(t, s, sealedPlan, sealBinding.Until(sealEpoch.Add(time.Hour))),
		mustSeal(t, newTestSealer(t, sealModes["deterministic"]), sealedPlan, sealBinding),
	} {
		seen[sealNonce(t, state)] = true
	}
	if len(seen) != 5 {
		t.Fatalf("5 texts under %d nonces", len(seen))
	}
}

// report: B102
func TestAFailingRandomSourceIsAnError(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"at once":    strings.NewReader(""),
		"in between": strings.NewReader("0123456789012345678901234567890"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestSealer(t, func(c *SealerConfig) { c.Rand = r })
			if state, err := s.Seal(sealedPlan, sealBinding); state != nil || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("Seal = %s, %v", string(state), err)
			}
		})
	}
	s := newTestSealer(t, func(c *SealerConfig) { c.Rand = strings.NewReader(strings.Repeat("r", 32)) })
	mustOpenPlan(t, s, mustSeal(t, s, sealedPlan, sealBinding), sealBinding)
}

// sealRefusal fails unless err is exactly one of the seal errors and quotes
// nothing of the state.
func sealRefusal(t *testing.T, err error) {
	t.Helper()
	n := 0
	for _, s := range sealErrors {
		if errors.Is(err, s) {
			n++
		}
	}
	if n != 1 || strings.Contains(err.Error(), canary) || len(err.Error()) > 200 {
		t.Fatalf("refused with %v, which is %d of the seal errors", err, n)
	}
}

func sameJSON(a, b []byte) bool {
	x, errX := canon.Canonicalize(a)
	y, errY := canon.Canonicalize(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// FuzzOpen checks that an opened state is a sealed one under the binding that it
// was sealed with: whatever opens says, as JSON, exactly what a golden file
// says, and is bound to what that file is bound to.
func FuzzOpen(f *testing.F) {
	vectors := loadSealVectors(f)
	corpus := seeds.For(f)
	for _, v := range vectors {
		fact := strings.Join(v.Facts, "")
		corpus.Add([]byte(v.State), v.AgentID, v.IdempotencyKey, fact)
		corpus.Add([]byte(v.State), v.AgentID, v.IdempotencyKey+fact, "")
		corpus.Add([]byte(v.State), v.AgentID, canary, fact)
		corpus.Add([]byte(v.State), "", "", "")
		for _, edited := range [][]byte{
			bytes.Replace(v.State, []byte(`"sealed"`), []byte(` "sealed" `), 1),
			bytes.Replace(v.State, []byte("e"), []byte(`\u0065`), 1),
			bytes.Replace(v.State, []byte(".x."), []byte(".r."), 1),
			bytes.Replace(v.State, []byte(`"sealed":"`), []byte(`"sealed":"CANARY`), 1),
			bytes.Replace(v.State, []byte(`{`), []byte(`{"CANARY":1,`), 1),
			v.State[:len(v.State)/2],
		} {
			corpus.Add(edited, v.AgentID, v.IdempotencyKey, fact)
		}
	}
	corpus.Counted(10 * goldenSealed)
	sealers := make([]*Sealer, len(vectors))
	for i, v := range vectors {
		sealers[i] = v.sealer(f)
	}
	f.Fuzz(func(t *testing.T, state []byte, agent, key, fact string) {
		given := Bind(agent, key)
		if fact != "" {
			given = given.With(fact)
		}
		for i, v := range vectors {
			for _, b := range []Binding{v.binding(), given} {
				var out types.Raw
				if err := sealers[i].Open(state, &out, b); err != nil {
					if sealRefusal(t, err); out != nil {
						t.Fatalf("refused with %v, yet something was decoded", err)
					}
					continue
				}
				// Files share keys and bindings: any of them may have opened. A
				// token of other agents is bound to nothing.
				known := false
				for _, w := range vectors {
					bound := w.Mode == "foreign" || bytes.Equal(b.encode(), w.binding().encode())
					known = known || bound && sameJSON(state, w.State)
				}
				if !known {
					t.Fatalf("an edited state opened, or under another binding: %q", state)
				}
			}
		}
	})
}

// Whatever is sealed opens as it was, for its agent, question and facts alone,
// and an edit of any byte fails or changes nothing.
//
// report: B106, B114
func FuzzASealedStateOpensOnlyForWhatItWasSealedFor(f *testing.F) {
	modes := []string{"encrypted", "deterministic", "readable"}
	corpus := seeds.For(f)
	for i, plain := range []string{
		`{}`, `{"step":3,"image":"app:1.4"}`, `{"text":"CANARY"}`, `{"n":9007199254740993}`, `{"n":[1e21,-0.5,1e-7,-0]}`, `{"a":{"b":{"c":[null,true]}}}`,
		` {"z":1,"a":"\u00e9\ud83d\ude00"} `, `{"CANARY":1,"CANARY":2}`, `["CANARY"]`, `{"s":"\ud800"}`, "{\"s\":\"\xff\"}", `{"n":1e400}`, strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60), ``, `null`,
	} {
		corpus.Add(uint8(i), []byte(plain), "ship-1.4", "digest", uint16(i*7), byte(1))
		corpus.Add(uint8(i+1), []byte(plain), "k", "", uint16(i*11), byte(0x20))
	}
	corpus.Add(uint8(0), []byte(`{}`), "", "", uint16(0), byte(0))
	corpus.Counted(31)
	sealers, strangers := make([]*Sealer, len(modes)), make([]*Sealer, len(modes))
	for i, mode := range modes {
		sealers[i] = newTestSealer(f, sealModes[mode])
		strangers[i] = newTestSealer(f, sealModes[mode], func(c *SealerConfig) { c.AgentID = "another" })
	}
	f.Fuzz(func(t *testing.T, mode uint8, plain []byte, key, fact string, at uint16, flip byte) {
		s, stranger := sealers[int(mode)%len(modes)], strangers[int(mode)%len(modes)]
		b := Bind(sealAgent, key).With(fact)
		state, err := s.Seal(types.Raw(plain), b)
		if err != nil {
			_, field := errors.AsType[*types.FieldError](err)
			if !field && !errors.Is(err, ErrSealBinding) || state != nil || strings.Contains(err.Error(), canary) {
				t.Fatalf("%q is not sealed: %v", plain, err)
			}
			return
		}
		var out types.Raw
		if err := s.Open(state, &out, b); err != nil || !sameJSON(out, plain) {
			t.Fatalf("%q opens as %q, %v", plain, out, err)
		}
		refused := func(s *Sealer, state types.Raw, b Binding, want error) {
			out := types.Raw("untouched")
			if err := s.Open(state, &out, b); !errors.Is(err, want) || string(out) != "untouched" {
				t.Fatalf("%q: got %q and %v, want %v", plain, out, err, want)
			}
		}
		refused(s, state, Bind(sealAgent, key+"x").With(fact), ErrSealBinding)
		refused(s, state, Bind(sealAgent, key).With(fact+"x"), ErrSealBinding)
		refused(s, state, Bind(sealAgent, key+fact), ErrSealBinding)
		refused(s, state, Bind(sealAgent, key).With(fact, ""), ErrSealBinding)
		refused(s, state, Bind("another", key).With(fact), ErrSealBinding)
		refused(stranger, state, Bind("another", key).With(fact), ErrSealKey)

		edited := bytes.Clone(state)
		edited[int(at)%len(edited)] ^= flip
		out = nil
		if err := s.Open(edited, &out, b); err != nil {
			if sealRefusal(t, err); out != nil {
				t.Fatal("a refused state was decoded")
			}
		} else if !sameJSON(edited, state) || !sameJSON(out, plain) {
			t.Fatalf("%q opens as %q", edited, out)
		}
	})
}

// The fuzz property is only as good as the oracle: it must know an edit.
func TestTheFuzzOracleKnowsAnEdit(t *testing.T) {
	a, err := canon.Canonicalize([]byte(`{"plain":{"a":1,"b":2},"sealed":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := canon.Canonicalize([]byte(`{"sealed":"\u0078","plain":{"b":2.0,"a":1}}`))
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("a rewrite reads as an edit: %s, %v", b, err)
	}
	if c, err := canon.Canonicalize([]byte(`{"sealed":"x","plain":{"b":2,"a":2}}`)); err != nil || bytes.Equal(a, c) {
		t.Errorf("an edit reads as a rewrite: %s, %v", c, err)
	}
}
