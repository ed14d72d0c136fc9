package signed_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go/internal/canon"
	"github.com/ma2h/ma2h-go/internal/header"
	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/internal/signed"
	"github.com/ma2h/ma2h-go/internal/strict"
	"github.com/ma2h/ma2h-go/internal/vectors"
	"github.com/ma2h/ma2h-go/types"
)

func load(t testing.TB) []vectors.Vector {
	t.Helper()
	vs, err := vectors.Load("testdata/vectors", vectors.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

func find(t testing.TB, name string) vectors.Vector {
	t.Helper()
	for _, v := range load(t) {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no vector %s", name)
	return vectors.Vector{}
}

var kinds = map[string]signed.Kind{vectors.Response: signed.Response, vectors.Directive: signed.Directive, vectors.Ack: signed.Ack}

// verdict runs the checks of this package and of the two below it, in the
// order that a verifier has them.
func verdict(t *testing.T, v *vectors.Vector) (class string, context string) {
	t.Helper()
	sig, err := header.Parse(v.Header)
	if err != nil {
		return vectors.Header, ""
	}
	doc, err := canon.Parse(v.Bytes())
	if err != nil {
		if _, ok := errors.AsType[*strict.Error](err); !ok {
			t.Fatalf("untyped error %v", err)
		}
		return vectors.Malformed, ""
	}
	if d := v.Now - sig.Unix; d > 120 || d < -120 {
		return vectors.Stale, ""
	}
	version, err := signed.Version(doc)
	if errors.Is(err, types.ErrVersion) {
		return vectors.Version, ""
	}
	if err != nil {
		return vectors.Malformed, ""
	}
	ctx, ok := signed.For(kinds[v.Kind], version)
	if !ok {
		return vectors.Version, ""
	}
	if !ctx.BindsPayload() && !v.AllowUnboundPayload {
		return vectors.Unbound, ""
	}
	text, err := ctx.Append(nil, doc, signed.Inputs{CallbackURL: v.CallbackURL, T: sig.T, JTI: sig.JTI})
	if err != nil {
		if _, ok := errors.AsType[*signed.Error](err); !ok || text != nil {
			t.Fatalf("untyped error %v", err)
		}
		return vectors.Malformed, ""
	}
	if !matches(t, v.Keys, text, sig.V1) {
		return vectors.Signature, ""
	}
	if ctx.BindsPayload() {
		sum := ctx.Digest(doc)
		if got := ctx.Payload(doc); got != v.Payload || hex.EncodeToString(sum[:]) != v.Digest {
			t.Errorf("payload is\n%s, want\n%s", got, v.Payload)
		}
	}
	return vectors.OK, string(text)
}

// matches uses nothing of this library.
func matches(t *testing.T, keys []vectors.Key, text []byte, macs [][]byte) bool {
	t.Helper()
	for _, k := range keys {
		for _, mac := range macs {
			switch k.Alg {
			case vectors.HMAC:
				h := hmac.New(sha256.New, []byte(k.Secret))
				h.Write(text)
				if hmac.Equal(h.Sum(nil), mac) {
					return true
				}
			case vectors.Ed25519:
				pub, err := hex.DecodeString(k.Public)
				if err != nil {
					t.Fatal(err)
				}
				if ed25519.Verify(pub, text, mac) {
					return true
				}
			}
		}
	}
	return false
}

// req: CTX-R2 CTX-R3 CTX-D CTX-A SIG-05 SIG-06 SIG-07 SIG-10 SIG-12 SIG-13 SGR-01 SGR-03 SGR-04
// req: SGD-01 SGA-01 VER-02 VER-03 VER-04 JCS-02 JCS-03 JCS-04 JCS-05 JCS-06 RES-07 RES-09 AMB-01
// req: AMB-02 dp-001 dp-003 dp-005 dp-006 dp-008 dp-009
// report: B034 B036 B037 B045 B046 B051 B052 B054 B055 B057 B058 B067 B072 B073
func TestEveryVectorGetsItsVerdict(t *testing.T) {
	for _, v := range load(t) {
		if v.Pins != "" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			class, context := verdict(t, &v)
			if class != v.Expect || context != v.Context {
				t.Errorf("verdict is %s, want %s\ncontext is\n%s, want\n%s", class, v.Expect, context, v.Context)
			}
		})
	}
}

// The texts of the vectors are checked with nothing but the standard library
// and the second canonicaliser.
//
// req: SIG-05 SIG-06 SIG-07 SIG-13
func TestTheTextsOfTheVectorsGiveTheirSignaturesAndDigests(t *testing.T) {
	for _, v := range load(t) {
		t.Run(v.Name, func(t *testing.T) {
			if v.Payload != "" {
				sum := sha256.Sum256([]byte(v.Payload))
				if hex.EncodeToString(sum[:]) != v.Digest {
					t.Error("payload does not give the digest")
				}
				if v.Context != "" && !strings.Contains(v.Context, v.Digest) {
					t.Error("the digest is not in the context")
				}
				if out, err := jcs.Transform([]byte(v.Payload)); err != nil || string(out) != v.Payload {
					t.Errorf("payload is not canonical: %v", err)
				}
			}
			if v.Context == "" {
				return
			}
			if out, err := jcs.Transform([]byte(v.Context)); err != nil || string(out) != v.Context {
				t.Errorf("context is not canonical: %v", err)
			}
			sig, err := header.Parse(v.Header)
			if err != nil {
				t.Fatal(err)
			}
			if !matches(t, v.Keys, []byte(v.Context), sig.V1) {
				t.Error("context does not give the signature")
			}
		})
	}
}

// req: JCS-02 dp-004
func TestNumericPayloadHasThePinnedDigest(t *testing.T) {
	v := find(t, "dp-004")
	doc, err := canon.Parse(v.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := signed.ForResponse(types.Version{Minor: 3})
	sum := ctx.Digest(doc)
	if got := ctx.Payload(doc); got != v.Payload || hex.EncodeToString(sum[:]) != v.Digest {
		t.Errorf("got\n%s, want\n%s", got, v.Payload)
	}
}

// req: SGR-03
func FuzzAFlippedByteOfASignedBodyNeverVerifiesWithAnotherPayload(f *testing.F) {
	v := find(f, "dp-001")
	good := v.Bytes()
	corpus := seeds.For(f)
	for i := range good {
		corpus.Add(i, byte(1))
	}
	corpus.Counted(len(good))
	f.Fuzz(func(t *testing.T, at int, flip byte) {
		if at < 0 || at >= len(good) || flip == 0 {
			return
		}
		w := v
		text := []byte(v.Bytes())
		text = append([]byte(nil), text...)
		text[at] ^= flip
		s := string(text)
		w.Body, w.BodyText = nil, &s
		// An accepted one has the pinned payload and context, or verdict fails.
		if class, context := verdict(t, &w); class == vectors.OK && context != v.Context {
			t.Errorf("byte %d: another context verifies: %s", at, context)
		}
	})
}
