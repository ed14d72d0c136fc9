package redisstore

import (
	"context"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

// Late sends a claim of an act as a broken connection may: once more, under
// the token of the first time.
func (s *Store) Late(ctx context.Context, act ma2h.Act, token ma2h.Token) error {
	_, err := s.number(ctx, call{
		script: reserve, key: s.key(acts, storekit.Digest(act.Key)),
		args: []any{text(storekit.Digest(act.Resolution)), int64(token), storekit.Micros(time.Hour), storekit.Millis(2 * time.Hour), 0},
	})
	return err
}
