package ma2h

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/types"
)

// goldenSealed is how many files testdata/seal holds. They are kept for ever:
// add files, change none.
const goldenSealed = 7

type sealVector struct {
	Name           string    `json:"name"`
	Mode           string    `json:"mode"`
	KeyID          string    `json:"key_id"`
	KeyHex         string    `json:"key_hex"`
	AgentID        string    `json:"agent_id"`
	IdempotencyKey string    `json:"idempotency_key"`
	Facts          []string  `json:"facts"`
	Until          int64     `json:"until"`
	Plaintext      types.Raw `json:"plaintext"`
	State          types.Raw `json:"state"`
}

func loadSealVectors(t testing.TB) []sealVector {
	t.Helper()
	files, err := filepath.Glob("testdata/seal/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != goldenSealed {
		t.Fatalf("testdata/seal holds %d files, want %d", len(files), goldenSealed)
	}
	var all []sealVector
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v sealVector
		if err := decodeSealVector(text, &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if v.Name+".json" != filepath.Base(file) {
			t.Fatalf("%s is named %q inside", file, v.Name)
		}
		all = append(all, v)
	}
	return all
}

func (v sealVector) sealer(t testing.TB) *Sealer {
	return newTestSealer(t, withSealKeys(SealKeyHex(v.KeyID, v.KeyHex)), func(c *SealerConfig) {
		c.AgentID = v.AgentID
		c.Deterministic = v.Mode == "deterministic"
		c.Readable = v.Mode == "readable"
		c.AllowUnboundState = v.Mode == "foreign"
	})
}

func (v sealVector) binding() Binding {
	b := Bind(v.AgentID, v.IdempotencyKey).With(v.Facts...)
	if v.Until != 0 {
		b = b.Until(time.Unix(v.Until, 0))
	}
	return b
}

func TestStateSealedByAnyReleaseOpensInAllLaterOnes(t *testing.T) {
	modes := map[string]int{}
	for _, v := range loadSealVectors(t) {
		modes[v.Mode]++
		t.Run(v.Name, func(t *testing.T) {
			s := v.sealer(t)
			var got any
			if err := s.Open(v.State, &got, v.binding()); err != nil {
				t.Fatal(err)
			}
			text, err := canon.Canonicalize(mustEncodeJSON(t, got))
			if err != nil {
				t.Fatal(err)
			}
			// Only digits past a double's would differ here; Raw below has them.
			want, err := canon.Canonicalize(v.Plaintext)
			if err != nil || !bytes.Equal(text, want) {
				t.Errorf("opened %s, want %s, %v", text, want, err)
			}
			if v.Mode == "encrypted" {
				var raw types.Raw
				if err := s.Open(v.State, &raw, v.binding()); err != nil || !bytes.Equal(raw, compactJSON(t, v.Plaintext)) {
					t.Errorf("opened %s, %v", string(raw), err)
				}
			}
			if v.Mode == "deterministic" || v.Mode == "readable" {
				if again := mustSeal(t, s, v.Plaintext, v.binding()); !bytes.Equal(again, compactJSON(t, v.State)) {
					t.Errorf("sealed again: %s", string(again))
				}
			}

			got = "untouched"
			err = s.Open(v.State, &got, Bind(v.AgentID, "another"))
			if v.Mode == "foreign" {
				return
			}
			if !errors.Is(err, ErrSealBinding) || got != "untouched" {
				t.Errorf("for another question: %v, %v", got, err)
			}
		})
	}
	for mode, n := range map[string]int{"encrypted": 2, "deterministic": 2, "readable": 2, "foreign": 1} {
		if modes[mode] != n {
			t.Errorf("%d golden files of mode %s, want %d", modes[mode], mode, n)
		}
	}
}

func compactJSON(t testing.TB, text types.Raw) []byte { return mustEncodeJSON(t, text) }

func TestASealVectorWithAnUnknownMemberIsRefused(t *testing.T) {
	if decodeSealVector([]byte(`{"name":"x","nmae":"y"}`), new(sealVector)) == nil {
		t.Error("an unknown member was taken")
	}
}

func foreignVector(t testing.TB) sealVector {
	for _, v := range loadSealVectors(t) {
		if v.Mode == "foreign" {
			return v
		}
	}
	t.Fatal("no foreign vector")
	return sealVector{}
}

// req: STA-04
func TestAForeignTokenOpensOnlyWhereUnboundStateIsAllowed(t *testing.T) {
	v := foreignVector(t)
	right := SealKeyHex(v.KeyID, v.KeyHex)
	ring := func(allow bool, keys ...SealKey) *Sealer {
		return newTestSealer(t, withSealKeys(keys...), func(c *SealerConfig) { c.AllowUnboundState = allow })
	}
	var got map[string]any
	for _, s := range []*Sealer{ring(true, right), ring(true, SealKeyRaw("new", sealKeyBytes(1)), right)} {
		got = nil
		if err := s.Open(v.State, &got, v.binding()); err != nil || got["a"] != 1.0 || got["b"] != "x" {
			t.Fatalf("opened %v, %v", got, err)
		}
	}
	mustRefuse(t, ring(false, right), v.State, v.binding(), ErrSealBinding)
	mustRefuse(t, ring(true, SealKeyRaw("new", sealKeyBytes(1))), v.State, v.binding(), ErrSealTampered)
	mustRefuse(t, ring(true, right), v.State, Binding{}, ErrSealBinding)
}

// req: STA-04
func TestAForeignTokenOfAnotherShapeIsRefused(t *testing.T) {
	v := foreignVector(t)
	s := v.sealer(t)
	token := sealedText(t, v.State)
	p := strings.Split(token, ".")
	join := func(parts ...string) string { return strings.Join(parts, ".") }
	for _, row := range []struct {
		name, token string
		want        error
	}{
		{"wrong magic", join("MA2HSEALv2", p[1], p[2], p[3]), ErrSealMalformed},
		{"three parts", join(p[:3]...), ErrSealMalformed},
		{"five parts", join(p[0], p[1], p[2], p[3], p[3]), ErrSealMalformed},
		{"tag of 8 bytes", join(p[0], p[1], p[2], sealBase64.EncodeToString(make([]byte, 8))), ErrSealMalformed},
		{"tag of 17 bytes", join(p[0], p[1], p[2], sealBase64.EncodeToString(make([]byte, 17))), ErrSealMalformed},
		{"iv of 11 bytes", join(p[0], sealBase64.EncodeToString(make([]byte, 11)), p[2], p[3]), ErrSealMalformed},
		{"iv of 16 bytes", join(p[0], sealBase64.EncodeToString(make([]byte, 16)), p[2], p[3]), ErrSealMalformed},
		{"a ciphertext that is no base64", join(p[0], p[1], "!"+p[2], p[3]), ErrSealMalformed},
		{"no ciphertext", join(p[0], p[1], "", p[3]), ErrSealTampered},
		{"padding", token + "==", ErrSealMalformed},
		{"a line end", token + `\n`, ErrSealMalformed},
		{"standard alphabet", strings.Replace(token, "_", `/`, 1), ErrSealMalformed},
	} {
		t.Run(row.name, func(t *testing.T) {
			mustRefuse(t, s, withToken(t, v.State, row.token), v.binding(), row.want)
		})
	}
	mustRefuse(t, s, types.Raw(`{"plain":{},"sealed":"`+token+`"}`), v.binding(), ErrSealMalformed)
	for i := range v.State {
		for bit := range 8 {
			edited := bytes.Clone(v.State)
			edited[i] ^= 1 << bit
			refuseWithSentinel(t, s, edited, v.binding())
		}
	}
}

// req: STA-04
func TestAForeignTextThatIsNoStrictObjectIsMalformed(t *testing.T) {
	s := newTestSealer(t, func(c *SealerConfig) { c.AllowUnboundState = true })
	mustOpenPlan(t, s, sealForeignText(t, ` {"step":3,"image":"app:1.4"}`), sealBinding)
	for _, text := range []string{``, `null`, `[]`, `"x"`, `{"step":3`, `{"step":3,"step":4}`, "{\"image\":\"\xff\"}", `{"x":1e400}`} {
		mustRefuse(t, s, sealForeignText(t, text), sealBinding, ErrSealMalformed)
	}
	mustRefuse(t, s, sealForeignText(t, `{"step":"3"}`), sealBinding, ErrSealType)
}

func decodeSealVector(text []byte, v any) error {
	return json.Unmarshal(text, v, json.RejectUnknownMembers(true))
}
