package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	ma2h "github.com/ma2h/ma2h-go"
)

// Keys are bytes.
func keys(t *testing.T, b Backend) {
	good := []string{
		"k", "\x00", "k\x00", "\x00k", "k ", "K", "\xff\xfe", "k\xff", "é", "e\u0301", "'; --", "*", "{k}", "%",
		strings.Repeat("k", 1024), strings.Repeat("k", 1023), strings.Repeat("\x00", 1024),
	}
	bad := []string{"", strings.Repeat("k", 1025)}
	b.run(t, []sentence{
		{"Keys of any bytes up to 1024 are kept apart", func(t *testing.T, s *subject) {
			tokens := map[ma2h.Token]string{}
			for _, k := range good {
				if got := s.claim(t, k, 0, long); got != ma2h.Fresh {
					t.Fatalf("claim of %.20q is %d, not fresh", k, got)
				}
				token := s.mustClaim(t, ma2h.Act{Key: k, Resolution: k}, long)
				if k2, ok := tokens[token]; ok {
					t.Fatalf("%.20q and %.20q have one token", k, k2)
				}
				tokens[token] = k
			}
			for _, k := range good {
				if got := s.claim(t, k, 0, long); got != ma2h.Seen {
					t.Fatalf("claim of %.20q is %d, not seen", k, got)
				}
				s.wantState(t, ma2h.Act{Key: k, Resolution: k}, ma2h.ActInFlight)
				s.wantState(t, ma2h.Act{Key: k, Resolution: k[1:] + "x"}, ma2h.ActConflict)
			}
		}},
		{"A key out of its bounds is a FieldError and claims nothing", func(t *testing.T, s *subject) {
			for _, k := range bad {
				_, err := s.ClaimJTI(t.Context(), k, long, long)
				wantField(t, "ClaimJTI", err)
				wantField(t, "SettleJTI", s.SettleJTI(t.Context(), k, true))
				refused(t, s, ma2h.Act{Key: k, Resolution: "r"})
			}
			refused(t, s, ma2h.Act{Key: "k", Resolution: bad[1]})
			s.wantState(t, ma2h.Act{Key: "k"}, 0)
		}},
	})
}

func refused(t testing.TB, s *subject, act ma2h.Act) {
	t.Helper()
	_, err := s.Lookup(t.Context(), act)
	wantField(t, "Lookup", err)
	r, err := s.Reserve(t.Context(), act, long, false)
	wantField(t, "Reserve", err)
	if r != (ma2h.Reservation{}) {
		t.Fatalf("Reserve gave %v beside its error", r)
	}
	wantField(t, "Commit", s.Commit(t.Context(), act, 1))
	wantField(t, "Release", s.Release(t.Context(), act, 1))
	wantField(t, "Doubt", s.Doubt(t.Context(), act, 1))
}

func wantField(t testing.TB, what string, err error) {
	t.Helper()
	if _, ok := errors.AsType[*ma2h.FieldError](err); !ok {
		t.Fatalf("%s: %v, not a FieldError", what, err)
	}
}

// A context that has ended is not the store's fault and changes nothing.
func contexts(t *testing.T, b Backend) {
	act, fresh := ma2h.Act{Key: "act"}, ma2h.Act{Key: "fresh"}
	b.run(t, []sentence{
		{"A context that has ended is the context's error and changes nothing", func(t *testing.T, s *subject) {
			token := s.mustClaim(t, act, long)
			s.claim(t, "jti", long, long)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, claimErr := s.ClaimJTI(ctx, "fresh", long, long)
			_, lookupErr := s.Lookup(ctx, act)
			_, reserveErr := s.Reserve(ctx, fresh, long, false)
			for what, err := range map[string]error{
				"ClaimJTI": claimErr, "SettleJTI": s.SettleJTI(ctx, "jti", true),
				"Lookup": lookupErr, "Reserve": reserveErr, "Commit": s.Commit(ctx, act, token),
				"Release": s.Release(ctx, act, token), "Doubt": s.Doubt(ctx, act, token),
			} {
				want(t, what, err, context.Canceled)
				if errors.Is(err, ma2h.ErrStoreUnavailable) || errors.Is(err, ma2h.ErrLeaseLost) {
					t.Fatalf("%s: %v", what, err)
				}
			}
			s.wantState(t, act, ma2h.ActInFlight)
			s.wantState(t, fresh, 0)
			if got := s.claim(t, "jti", long, long); got != ma2h.Pending {
				t.Fatalf("the claim is %d, not pending", got)
			}
			if got := s.claim(t, "fresh", long, long); got != ma2h.Fresh {
				t.Fatalf("the claim is %d, not fresh", got)
			}
		}},
		{"A claim that its context ended in the middle is whole or none", func(t *testing.T, s *subject) {
			for i := range 50 {
				a := ma2h.Act{Key: fmt.Sprint("act", i)}
				ctx, cancel := context.WithCancel(t.Context())
				go cancel()
				r, err := s.Reserve(ctx, a, long, false)
				if err == nil {
					want(t, "Commit", s.Commit(t.Context(), a, r.Token), nil)
					continue
				}
				want(t, "Reserve", err, context.Canceled)
				// What may have been claimed comes free by itself.
				s.eventually(t, "a free act", func() bool { return s.reserve(t, a, long, false).State == ma2h.ActClaimed })
			}
		}},
	})
}
