package storetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	ma2h "github.com/ma2h/ma2h-go"
)

// The outbox keeps what is submitted (§8.1).
func outbox(t *testing.T, b Backend) {
	key := ma2h.SubmitKey{AgentID: "bot/a", Key: "ship-1.4"}
	body := []byte("{\"a\":\"\x00\xff\"}")
	sentences := []struct {
		name string
		test func(t *testing.T, s *box)
	}{
		{"Nothing is kept under a key that was never put", func(t *testing.T, s *box) {
			s.wantSubmit(t, key, nil, nil)
		}},
		{"The first body stands, byte for byte", func(t *testing.T, s *box) {
			for i, text := range [][]byte{body, []byte("another"), body} {
				kept, err := s.PutSubmit(t.Context(), key, text)
				want(t, "PutSubmit", err, nil)
				if !bytes.Equal(kept.Body, body) || kept.Ack != nil || kept.Created != (i == 0) {
					t.Fatalf("put %d gave %v, ack %q, created %t", i, kept, kept.Ack, kept.Created)
				}
			}
			s.wantSubmit(t, key, body, nil)
		}},
		{"A body may be large", func(t *testing.T, s *box) {
			large := bytes.Repeat([]byte("\x00\xffma2h"), 200_000)
			s.put(t, key, large)
			s.wantSubmit(t, key, large, nil)
		}},
		{"The first ack stands, and nothing that has one is dropped", func(t *testing.T, s *box) {
			s.put(t, key, body)
			for _, ack := range []string{"ack \x00", "another", ""} {
				want(t, "AckSubmit", s.AckSubmit(t.Context(), key, []byte(ack)), nil)
			}
			want(t, "DropSubmit", s.DropSubmit(t.Context(), key), nil)
			s.wantSubmit(t, key, body, []byte("ack \x00"))
			kept, err := s.PutSubmit(t.Context(), key, []byte("another"))
			want(t, "PutSubmit", err, nil)
			if kept.Created || string(kept.Ack) != "ack \x00" || !bytes.Equal(kept.Body, body) {
				t.Fatalf("put gave %v, ack %q, created %t", kept, kept.Ack, kept.Created)
			}
		}},
		{"An ack without a submit is no submit", func(t *testing.T, s *box) {
			want(t, "AckSubmit", s.AckSubmit(t.Context(), key, []byte("ack")), nil)
			s.wantSubmit(t, key, nil, nil)
		}},
		{"What is dropped was never put", func(t *testing.T, s *box) {
			s.put(t, key, body)
			for range 2 {
				want(t, "DropSubmit", s.DropSubmit(t.Context(), key), nil)
			}
			s.wantSubmit(t, key, nil, nil)
			s.put(t, key, []byte("better"))
		}},
		{"Agents and keys are kept apart", func(t *testing.T, s *box) {
			keys := []ma2h.SubmitKey{
				{AgentID: "a", Key: "bc"}, {AgentID: "ab", Key: "c"}, {AgentID: "a", Key: "bc\x00"}, {AgentID: "a\x00b", Key: "c"}, {AgentID: "a", Key: "\x00bc"},
				{AgentID: strings.Repeat("a", 512), Key: strings.Repeat("k", 512)}, {AgentID: "\xff", Key: "\xfe"},
			}
			for _, k := range keys {
				s.put(t, k, []byte(k.AgentID+"|"+k.Key))
			}
			for _, k := range keys {
				s.wantSubmit(t, k, []byte(k.AgentID+"|"+k.Key), nil)
			}
		}},
		{"A key out of its bounds is a FieldError and keeps nothing", func(t *testing.T, s *box) {
			long := strings.Repeat("k", 513)
			for _, k := range []ma2h.SubmitKey{{}, {AgentID: "a"}, {Key: "k"}, {AgentID: long, Key: "k"}, {AgentID: "a", Key: long}} {
				_, err := s.PutSubmit(t.Context(), k, body)
				wantField(t, "PutSubmit", err)
				_, err = s.GetSubmit(t.Context(), k)
				wantField(t, "GetSubmit", err)
				wantField(t, "AckSubmit", s.AckSubmit(t.Context(), k, body))
				wantField(t, "DropSubmit", s.DropSubmit(t.Context(), k))
			}
		}},
		{"The age runs from the first put by the store's clock", func(t *testing.T, s *box) {
			s.put(t, key, body)
			passed := s.stopwatch()
			s.eventually(t, "an age", func() bool {
				least := passed()
				kept, err := s.PutSubmit(t.Context(), key, body)
				want(t, "PutSubmit", err, nil)
				// The store's clock may tick in milliseconds.
				if kept.Age < least-lease/50 {
					t.Fatalf("the age is %s after %s", kept.Age, least)
				}
				return kept.Age > lease/2
			})
		}},
		{"A submit outlives a reopen", func(t *testing.T, s *box) {
			if b.OneProcess {
				t.Skip("the store is in memory")
			}
			s.put(t, key, body)
			want(t, "AckSubmit", s.AckSubmit(t.Context(), key, []byte("ack")), nil)
			again := &box{subject: s.subject, Outbox: b.Open(t, s.address).(ma2h.Outbox)}
			again.wantSubmit(t, key, body, []byte("ack"))
		}},
		{"Of 64 goroutines one puts and all get what it put", func(t *testing.T, s *box) {
			kept := make([]ma2h.Submit, contenders)
			var done sync.WaitGroup
			for i := range kept {
				done.Go(func() {
					var err error
					if kept[i], err = s.PutSubmit(t.Context(), key, []byte{byte(i)}); err != nil {
						t.Errorf("PutSubmit: %v", err)
					}
				})
			}
			done.Wait()
			created := 0
			for i, k := range kept {
				if !bytes.Equal(k.Body, kept[0].Body) {
					t.Fatalf("goroutines 0 and %d got different bodies", i)
				}
				if k.Created {
					created++
				}
			}
			if created != 1 {
				t.Fatalf("%d goroutines put", created)
			}
		}},
		{"A context that has ended is the context's error and changes nothing", func(t *testing.T, s *box) {
			s.put(t, key, body)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			fresh := ma2h.SubmitKey{AgentID: "a", Key: "fresh"}
			_, putErr := s.PutSubmit(ctx, fresh, body)
			_, getErr := s.GetSubmit(ctx, key)
			for what, err := range map[string]error{
				"PutSubmit": putErr, "GetSubmit": getErr,
				"AckSubmit": s.AckSubmit(ctx, key, []byte("ack")), "DropSubmit": s.DropSubmit(ctx, key),
			} {
				want(t, what, err, context.Canceled)
				if errors.Is(err, ma2h.ErrStoreUnavailable) {
					t.Fatalf("%s: %v", what, err)
				}
			}
			s.wantSubmit(t, key, body, nil)
			s.wantSubmit(t, fresh, nil, nil)
		}},
		{"A submit is kept for the retention and then forgotten", func(t *testing.T, s *box) {
			if b.Advance == nil || b.Retention == 0 {
				t.Skip("needs Backend.Advance and Retention")
			}
			s.put(t, key, body)
			want(t, "AckSubmit", s.AckSubmit(t.Context(), key, []byte("ack")), nil)
			s.advance(b.Retention - lease)
			s.wantSubmit(t, key, body, []byte("ack"))
			s.advance(2 * lease)
			s.wantSubmit(t, key, nil, nil)
			s.put(t, key, []byte("new"))
		}},
	}
	for _, x := range sentences {
		t.Run(x.name, func(t *testing.T) {
			s := open(t, b)
			o, ok := s.Store.(ma2h.Outbox)
			if !ok {
				t.Skip("the store is no outbox")
			}
			x.test(t, &box{subject: s, Outbox: o})
		})
	}
}

type box struct {
	*subject
	ma2h.Outbox
}

func (s *box) put(t testing.TB, key ma2h.SubmitKey, body []byte) {
	t.Helper()
	kept, err := s.PutSubmit(t.Context(), key, body)
	if err != nil || !kept.Created {
		t.Fatalf("PutSubmit: created %t, %v", kept.Created, err)
	}
}

func (s *box) wantSubmit(t testing.TB, key ma2h.SubmitKey, body, ack []byte) {
	t.Helper()
	kept, err := s.GetSubmit(t.Context(), key)
	if err != nil {
		t.Fatalf("GetSubmit: %v", err)
	}
	if !bytes.Equal(kept.Body, body) || (kept.Body == nil) != (body == nil) || !bytes.Equal(kept.Ack, ack) || (kept.Ack == nil) != (ack == nil) || kept.Created {
		t.Fatalf("kept is %d bytes with ack %q, not %d with %q", len(kept.Body), kept.Ack, len(body), ack)
	}
}
