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

// FuzzOpen checks that an opened state is the sealed one: whatever opens says,
// as JSON, exactly what a golden file says.
func FuzzOpen(f *testing.F) {
	vectors := loadSealVectors(f)
	seeds := 0
	for _, v := range vectors {
		for _, seed := range [][]byte{
			v.State,
			bytes.Replace(v.State, []byte(`"sealed"`), []byte(` "sealed" `), 1),
			bytes.Replace(v.State, []byte("e"), []byte(`\u0065`), 1),
			bytes.Replace(v.State, []byte(".x."), []byte(".r."), 1),
			v.State[:len(v.State)/2],
		} {
			f.Add(seed)
			seeds++
		}
	}
	if want := 5 * goldenSealed; seeds != want {
		f.Fatalf("%d seeds, want %d", seeds, want)
	}
	sealers := make([]*Sealer, len(vectors))
	for i, v := range vectors {
		sealers[i] = v.sealer(f)
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		for i, v := range vectors {
			var out types.Raw
			if err := sealers[i].Open(state, &out, v.binding()); err != nil {
				if out != nil {
					t.Fatalf("refused with %v, yet something was decoded", err)
				}
				continue
			}
			got, err := canon.Canonicalize(state)
			if err != nil {
				t.Fatal(err)
			}
			// Files share keys and bindings: any of them may have opened.
			known := false
			for _, w := range vectors {
				want, err := canon.Canonicalize(w.State)
				known = known || err == nil && bytes.Equal(got, want)
			}
			if !known {
				t.Fatalf("an edited state opened: %q", state)
			}
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
