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

// errNotSent: an earlier claim could not be given back, so no script was sent.
var errNotSent = errors.New("not sent")

// call is one script on one key.
type call struct {
	script *redis.Script
	key    string
	args   []any
	// failed runs if the caller is told that it was not carried out. unsure
	// means that it may have been.
	failed func(unsure bool)
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
		if c.failed != nil {
			c.failed(false)
		}
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
			if c.failed != nil {
				c.failed(true)
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
	if err := s.orphans.GiveBack(ctx, s.forget); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return c.script.Run(ctx, s.rdb, []string{c.key}, c.args...).Result()
}

// fail reads the error of a script that has answered, or not.
func (s *Store) fail(ctx context.Context, c call, err error) error {
	if err == nil {
		return nil
	}
	if c.failed != nil {
		// A refusal by the server itself is an answer: nothing was carried out.
		_, refused := errors.AsType[redis.Error](err)
		c.failed(!refused && !errors.Is(err, errNotSent))
	}
	if strings.HasPrefix(err.Error(), "OOM ") {
		return storekit.Full(err)
	}
	return storekit.Unavailable(ctx, err)
}

// forget takes back a claim whose caller was told that there is none.
func (s *Store) forget(ctx context.Context, o storekit.Orphan, token ma2h.Token) (bool, error) {
	n, err := forget.Run(ctx, s.rdb, []string{o.Digest}, int64(token)).Int64()
	return n > 0, err
}
