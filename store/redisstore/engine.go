package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

// call is one script on one key.
type call struct {
	script *redis.Script
	key    string
	args   []any
	// unsure runs if the script may have been carried out and the caller is
	// told that it was not.
	unsure func()
}

func (s *Store) number(ctx context.Context, c call) (int64, error) {
	v, err := s.run(ctx, c)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("%w: the script answered with another shape", ma2h.ErrStoreUnavailable)
	}
	return n, nil
}

// run waits for the answer no longer than ctx and the timeout. It runs beside
// because a client without ContextTimeoutEnabled does not hear of a context
// that ends while it waits for the server.
func (s *Store) run(ctx context.Context, c call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	timed, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	type result struct {
		v   any
		err error
	}
	done, given := make(chan result), make(chan struct{})
	go func() {
		v, err := s.send(timed, c)
		select {
		case done <- result{v, err}:
		case <-given:
			// A claim that the caller was not told of, in doubt or not.
			if c.unsure != nil {
				c.unsure()
			}
		}
	}()
	select {
	case r := <-done:
		return r.v, s.fail(ctx, c, r.err)
	case <-timed.Done():
		close(given)
		return nil, storekit.Unavailable(ctx, timed.Err())
	}
}

func (s *Store) send(ctx context.Context, c call) (any, error) {
	if err := s.orphans.GiveBack(ctx, func(ctx context.Context, o storekit.Orphan, token ma2h.Token) error {
		return forget.Run(ctx, s.rdb, []string{o.Digest}, int64(token)).Err()
	}); err != nil {
		return nil, err
	}
	return c.script.Run(ctx, s.rdb, []string{c.key}, c.args...).Result()
}

// fail reads the error of a script that has answered, or not.
func (s *Store) fail(ctx context.Context, c call, err error) error {
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(err.Error(), "OOM "):
		return storekit.Full(err)
	}
	// A refusal by the server itself is an answer: nothing was carried out.
	if _, refused := errors.AsType[redis.Error](err); c.unsure != nil && !refused {
		c.unsure()
	}
	return storekit.Unavailable(ctx, err)
}
