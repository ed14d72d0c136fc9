package storetest

import (
	"fmt"
	"testing"
)

// What is over goes away by itself.
func cleaning(t *testing.T, b Backend) {
	if b.Entries == nil {
		t.Skip("needs Backend.Entries")
	}
	b.run(t, []sentence{
		{"What is over is cleaned on the way of what comes", func(t *testing.T, s *subject) {
			const old = 500
			for i := range old {
				s.claim(t, fmt.Sprint("old", i), 0, lease)
			}
			kept := 0
			s.eventually(t, "a clean store", func() bool {
				s.claim(t, fmt.Sprint("new", kept), 0, long)
				kept++
				return s.b.Entries(t, s.address) <= kept+old/50
			})
			if got := s.b.Entries(t, s.address); got < kept {
				t.Fatalf("%d entries are left of %d that live", got, kept)
			}
		}},
	})
}
