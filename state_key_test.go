package ma2h

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/ma2h/ma2h-go/types"
)

// sealForeignText seals as other agents do, under key k1 of newTestSealer.
func sealForeignText(t testing.TB, text string) types.Raw {
	t.Helper()
	block, err := aes.NewCipher(sealKeyBytes(1))
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	iv := make([]byte, 12)
	box := gcm.Seal(nil, iv, []byte(text), nil)
	cut := len(box) - 16
	return fmt.Appendf(nil, `{"sealed":"MA2HSEALv1.%s.%s.%s"}`,
		sealBase64.EncodeToString(iv), sealBase64.EncodeToString(box[:cut]), sealBase64.EncodeToString(box[cut:]))
}

// req: STA-03
// report: B103
func TestASealKeyIsReadInOneWayOnly(t *testing.T) {
	key := []byte("\xfb\xff 123456789012345678901234567ab")
	ascii := "abcdefghijklmnopqrstuvwxyz012345"
	std := base64.StdEncoding.EncodeToString(key)
	url := base64.URLEncoding.EncodeToString(key)
	hexed := hex.EncodeToString(key)
	for _, row := range []struct {
		name string
		key  SealKey
		want []byte // Nil where the key is refused.
	}{
		{"32 raw bytes", SealKeyRaw("k", key), key},
		{"31 raw bytes", SealKeyRaw("k", key[:31]), nil},
		{"33 raw bytes", SealKeyRaw("k", append(bytes.Clone(key), 0)), nil},
		{"no bytes", SealKeyRaw("k", nil), nil},
		{"32 zero bytes", SealKeyRaw("k", make([]byte, 32)), nil},
		{"32 spaces", SealKeyRaw("k", sealKeyBytes(' ')), nil},
		{"32 ASCII characters that are base64 too, raw", SealKeyRaw("k", []byte(ascii)), []byte(ascii)},
		{"32 ASCII characters that are base64 too, as base64", SealKeyBase64("k", ascii), nil},
		{"32 ASCII characters as hex", SealKeyHex("k", ascii), nil},
		{"base64 of 44 with padding", SealKeyBase64("k", std), key},
		{"base64 of 43 without padding", SealKeyBase64("k", std[:43]), nil},
		{"base64url of 44", SealKeyBase64("k", url), nil},
		{"base64 with a line end", SealKeyBase64("k", std+"\n"), nil},
		{"base64 with a line end inside", SealKeyBase64("k", std[:20]+"\n"+std[20:]), nil},
		{"base64 with a leading space", SealKeyBase64("k", " "+std), nil},
		{"base64 with stray bits", SealKeyBase64("k", std[:42]+"J="), nil},
		{"base64 of 31 bytes", SealKeyBase64("k", base64.StdEncoding.EncodeToString(key[:31])), nil},
		{"base64 of 33 bytes", SealKeyBase64("k", base64.StdEncoding.EncodeToString(append(bytes.Clone(key), 1))), nil},
		{"base64 text as raw", SealKeyRaw("k", []byte(std)), nil},
		{"64 hex digits", SealKeyHex("k", hexed), key},
		{"64 hex digits in capitals", SealKeyHex("k", strings.ToUpper(hexed)), key},
		{"64 hex digits as base64", SealKeyBase64("k", hexed), nil},
		{"64 hex digits as raw", SealKeyRaw("k", []byte(hexed)), nil},
		{"hex with a prefix", SealKeyHex("k", "0x"+hexed), nil},
		{"hex with a line end", SealKeyHex("k", hexed+"\n"), nil},
		{"62 hex digits", SealKeyHex("k", hexed[:62]), nil},
		{"63 hex digits", SealKeyHex("k", hexed[:63]), nil},
		{"66 hex digits", SealKeyHex("k", hexed+"00"), nil},
		{"base64 as hex", SealKeyHex("k", std), nil},
		{"empty base64", SealKeyBase64("k", ""), nil},
		{"empty hex", SealKeyHex("k", ""), nil},
		{"the zero SealKey", SealKey{}, nil},
		{"id and key swapped", SealKeyHex(hexed, "k"), nil},
		{"no id", SealKeyRaw("", key), nil},
		{"id of 64 characters", SealKeyRaw(strings.Repeat("i", 64), key), key},
		{"id of 65 characters", SealKeyRaw(strings.Repeat("i", 65), key), nil},
		{"id of the whole alphabet's ends", SealKeyRaw("AZaz09_-", key), key},
		{"id with a dot", SealKeyRaw("a.b", key), nil},
		{"id with a space", SealKeyRaw("a b", key), nil},
		{"id with an umlaut", SealKeyRaw("ä", key), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := NewSealer(SealerConfig{AgentID: sealAgent, Keys: []SealKey{SealKeyRaw("good", sealKeyBytes(1)), row.key}})
			if row.want != nil {
				if err != nil || s.keys[1].root() != [32]byte(row.want) {
					t.Fatalf("NewSealer: %v", err)
				}
				return
			}
			fe, ok := errors.AsType[*types.FieldError](err)
			if s != nil || !ok || fe.Field != "SealerConfig.Keys[1]" || fe.Section != "§9.3" {
				t.Fatalf("NewSealer = %v, %v", s, err)
			}
			if empty := fe.Problem == "is empty"; empty != (row.name == "the zero SealKey") {
				t.Errorf("the reason is lost: %v", err)
			}
			for _, secret := range []string{std, std[:43], url, hexed, strings.ToUpper(hexed), ascii, string(key)} {
				if strings.Contains(err.Error()+row.key.String(), secret) {
					t.Errorf("%v quotes the key", err)
				}
			}
		})
	}
}

func TestAnIdOfASealKeyIsOfItsAlphabet(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	for c := range 256 {
		k := SealKeyRaw(string([]byte{byte(c)}), sealKeyBytes(1))
		if ok := strings.IndexByte(alphabet, byte(c)) >= 0; (k.err == nil) != ok {
			t.Errorf("%q: %v", byte(c), k.err)
		}
	}
}

func TestASealKeyThatIsRefusedSaysWhatItShouldBe(t *testing.T) {
	std := base64.StdEncoding.EncodeToString(sealKeyBytes(1))
	for want, k := range map[string]SealKey{
		"is not 32 bytes in standard base64 with padding (44 characters)": SealKeyBase64("k", std[:42]+"!="),
		"is not hexadecimal": SealKeyHex("k", "x"),
		"is 1 bytes, not 32": SealKeyHex("k", "00"),
	} {
		if k.err == nil || k.err.Error() != want || k.String() != "SealKey(invalid)" {
			t.Errorf("%v, not %s; prints %s", k.err, want, k)
		}
	}
}

func TestASealerRefusesABadConfiguration(t *testing.T) {
	key := SealKeyRaw("k", sealKeyBytes(1))
	for _, row := range []struct {
		name, field string
		cfg         SealerConfig
	}{
		{"nothing", "SealerConfig.AgentID", SealerConfig{}},
		{"no agent", "SealerConfig.AgentID", SealerConfig{Keys: []SealKey{key}}},
		{"agent of 513 bytes", "SealerConfig.AgentID", SealerConfig{AgentID: strings.Repeat("a", 513), Keys: []SealKey{key}}},
		{"agent of 512 bytes", "", SealerConfig{AgentID: strings.Repeat("a", 512), Keys: []SealKey{key}}},
		{"no keys", "SealerConfig.Keys", SealerConfig{AgentID: "a"}},
		{"one id twice", "SealerConfig.Keys[1]", SealerConfig{AgentID: "a", Keys: []SealKey{key, SealKeyRaw("k", sealKeyBytes(2))}}},
		{"two ids", "", SealerConfig{AgentID: "a", Keys: []SealKey{key, SealKeyRaw("K", sealKeyBytes(2))}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := NewSealer(row.cfg)
			if row.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if fe, ok := errors.AsType[*types.FieldError](err); s != nil || !ok || fe.Field != row.field {
				t.Fatalf("NewSealer = %v, %v", s, err)
			}
		})
	}
}

func TestASealerCopiesItsConfiguration(t *testing.T) {
	raw := sealKeyBytes(1)
	keys := []SealKey{SealKeyRaw("k1", raw)}
	clear(raw)
	s := newTestSealer(t, withSealKeys(keys...))
	keys[0] = SealKeyRaw("k1", sealKeyBytes(2))
	mustOpenPlan(t, newTestSealer(t), mustSeal(t, s, sealedPlan, sealBinding), sealBinding)
}

func TestEachJobHasItsOwnSubkey(t *testing.T) {
	seen := map[string]bool{}
	for _, agent := range []string{"a", "a\x00", "b"} {
		k, err := newAgentKey(SealKeyRaw("k", sealKeyBytes(1)), agent)
		if err != nil {
			t.Fatal(err)
		}
		for _, sub := range []string{k.check, string(k.sub().nonce), string(k.sub().mac), string(k.sub().bind)} {
			seen[sub] = true
		}
		seen[string(k.sub().aead.Seal(nil, make([]byte, 24), make([]byte, 32), nil))] = true
	}
	if len(seen) != 15 {
		t.Errorf("%d different values of 15", len(seen))
	}
}

// req: STA-03
// report: B108
func TestASealKeyThatIsAlsoTheCallbackKeyIsFound(t *testing.T) {
	key := []byte("\xfb\xff 123456789012345678901234567ab")
	std := base64.StdEncoding.EncodeToString(key)
	ascii := "abcdefghijklmnopqrstuvwxyz012345"
	decoded, err := base64.StdEncoding.DecodeString(ascii)
	if err != nil {
		t.Fatal(err)
	}
	short := []byte("s" + strings.Repeat(" ", 31))
	s := newTestSealer(t, withSealKeys(SealKeyRaw("k5", short), SealKeyRaw("k1", sealKeyBytes(7)), SealKeyRaw("k2", key), SealKeyRaw("k3", []byte(ascii)), SealKeyRaw("k4", sealKeyBytes('='))))
	for _, row := range []struct {
		name   string
		secret []byte
		want   bool
	}{
		{"raw", key, true},
		{"the first of the ring", sealKeyBytes(7), true},
		{"raw with a line end", append(bytes.Clone(key), "\r\n"...), true},
		{"base64", []byte(std), true},
		{"base64 without padding", []byte(std[:43]), true},
		{"base64 with a line end", []byte(std + "\n"), true},
		{"base64url", []byte(base64.URLEncoding.EncodeToString(key)), true},
		{"base64url without padding", []byte(base64.RawURLEncoding.EncodeToString(key)), true},
		{"hex", []byte(hex.EncodeToString(key)), true},
		{"hex in capitals, spaced", []byte(" " + strings.ToUpper(hex.EncodeToString(key)) + "\t"), true},
		{"one text, read raw here and as base64 there", decoded, true},
		{"one character and blanks", []byte("s"), true},
		{"base64 and what is none", []byte(std[:43] + "!!"), false},
		{"hex and what is none", []byte(hex.EncodeToString(key) + "zz"), false},
		{"another key", sealKeyBytes(8), false},
		{"a part of the key", key[:31], false},
		{"base64 of another key", []byte(base64.StdEncoding.EncodeToString(sealKeyBytes(8))), false},
		{"empty", nil, false},
		{"blank", []byte("  \n"), false},
		{"the key's id", []byte("k2"), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := s.usesKey(row.secret); got != row.want {
				t.Errorf("usesKey = %v", got)
			}
		})
	}
}

// req: TEL-01
func TestNothingThatPrintsShowsAKeyOrTheState(t *testing.T) {
	canary := []byte("CANARY-key-CANARY-key-CANARY-key")
	good, bad := SealKeyRaw("k1", canary), SealKeyRaw("k1", canary[:31])
	s := newTestSealer(t, withSealKeys(good))
	forbidden := []string{"CANARY", hex.EncodeToString(canary[:6]), fmt.Sprint(canary[:4])[1:10], base64.StdEncoding.EncodeToString(canary)[:8]}
	for _, sub := range [][]byte{s.keys[0].sub().mac, s.keys[0].sub().bind, s.keys[0].sub().nonce} {
		forbidden = append(forbidden, hex.EncodeToString(sub[:6]), fmt.Sprintf("%d", sub[:4])[1:], string(sub[:8]))
	}
	type holder struct {
		Key SealKey
		key SealKey
		s   *Sealer
		sv  Sealer
	}
	cfg := SealerConfig{Keys: []SealKey{good, bad}, AgentID: sealAgent}
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	text := slog.New(slog.NewTextHandler(&out, nil))
	for _, v := range []any{good, &good, bad, s, cfg, &cfg, holder{good, good, s, *s}, &holder{good, bad, s, *s}, *s, *s.keys[0], []SealKey{good}, map[string]SealKey{"a": good}} {
		for _, verb := range strings.Fields("%v %+v %#v %s %q %x %X %d %o %b %c %U %e %t %p %T") {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		log.LogAttrs(context.Background(), slog.LevelInfo, "m", slog.Any("v", v))
		text.LogAttrs(context.Background(), slog.LevelInfo, "m", slog.Any("v", v))
		if b, err := stdjson.Marshal(v); err == nil {
			out.Write(b)
		}
		if b, err := types.Encode(v); err == nil {
			out.Write(b)
		}
	}
	if n := strings.Count(out.String(), "SealKey(k1)"); n < 100 {
		t.Errorf("the id is printed %d times only", n)
	}

	state := mustSeal(t, s, map[string]string{"canary_name": "CANARY-value"}, sealBinding)
	for _, err := range []error{
		errorOf(NewSealer(SealerConfig{AgentID: sealAgent, Keys: []SealKey{bad}})),
		errorOf(NewSealer(SealerConfig{AgentID: sealAgent, Keys: []SealKey{SealKeyHex("k", string(canary))}})),
		errorOf(NewSealer(SealerConfig{AgentID: sealAgent, Keys: []SealKey{SealKeyBase64("k", string(canary))}})),
		errorOf(NewSealer(SealerConfig{AgentID: sealAgent, Keys: []SealKey{SealKeyRaw(string(canary)+" ", nil)}})),
		errorOf(s.Seal(map[string]any{"CANARY": func() {}}, sealBinding)),
		errorOf(s.Seal(map[string]string{"CANARY": "CANARY\xff"}, sealBinding)),
		errorOf(s.Seal(types.Raw(`{"CANARY":1,"CANARY":2}`), sealBinding)),
		errorOf(s.Seal(types.Raw(`{"CANARY":1e400}`), sealBinding)),
		errorOf(s.Seal(stateWithError{}, sealBinding)),
		s.Open(state, new(map[string]int), sealBinding),
		s.Open(state, new(map[string]stateWithError), sealBinding),
		s.Open(state, new(sealPlan), sealBinding.With("CANARY")),
		s.Open(types.Raw(`{"sealed":"CANARY"}`), new(sealPlan), sealBinding),
		s.Open(types.Raw(`{"CANARY":"CANARY"}`), new(sealPlan), sealBinding),
	} {
		if err == nil {
			t.Fatal("no error")
		}
		fmt.Fprintf(&out, "%v %+v %#v\n", err, err, err)
		for e := err; e != nil; e = errors.Unwrap(e) {
			fmt.Fprintln(&out, e)
		}
	}
	for _, f := range forbidden {
		if i := strings.Index(out.String(), f); i >= 0 {
			t.Errorf("%q is in the output: %q", f, out.String()[max(0, i-60):min(out.Len(), i+60)])
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

type stateWithError struct{}

func (stateWithError) MarshalJSON() ([]byte, error)  { return nil, errors.New("CANARY") }
func (*stateWithError) UnmarshalJSON(b []byte) error { return fmt.Errorf("cannot read %s", b) }
