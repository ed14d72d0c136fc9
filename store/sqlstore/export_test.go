package sqlstore

import (
	"context"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

// CleanQueries are the statements that clean.
func (s *Store) CleanQueries() []string { return s.q.clean[:] }

// Orphans is how many claims wait to be given back.
func (s *Store) Orphans() int { return s.orphans.Len() }

// Late sends a claim of an act as a broken connection may: once more, under
// the token of the first time.
func (s *Store) Late(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	var e entry
	args := []any{storekit.Digest(act.Key), storekit.Digest(act.Resolution), token, storekit.Micros(time.Hour), storekit.Micros(2 * time.Hour), 0}
	return s.scan(ctx, s.q.reserve, args, &e.resolution, &e.token, &e.until, &e.now)
}

// Gathered is how many operations wait for one that is on its way.
func (s *Store) Gathered() int {
	n := 0
	for _, g := range []*gather{&s.claims, &s.finals, &s.reserves, &s.commits} {
		g.mu.Lock()
		n += len(g.queue)
		g.mu.Unlock()
	}
	return n
}

// Busy is how many kinds of operations have a statement on its way.
func (s *Store) Busy() int {
	n := 0
	for _, g := range []*gather{&s.claims, &s.finals, &s.reserves, &s.commits} {
		g.mu.Lock()
		if g.busy {
			n++
		}
		g.mu.Unlock()
	}
	return n
}
