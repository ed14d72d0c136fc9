package ma2h

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

type submitEntry struct {
	body, ack []byte
	put       int64
}

func (e submitEntry) submit(now int64) Submit {
	return Submit{Body: slices.Clone(e.body), Ack: slices.Clone(e.ack), Age: time.Duration(max(0, now-e.put))}
}

// PutSubmit implements Outbox, for tests: what must outlive a crash belongs on
// a disk.
func (s *MemoryStore) PutSubmit(ctx context.Context, key SubmitKey, body []byte) (Submit, error) {
	sh, d, now, err := s.submitShard(ctx, key)
	if err != nil {
		return Submit{}, err
	}
	defer sh.mu.Unlock()
	full := sh.full(now, s.perShard)
	if e, ok := sh.get(d, now); ok {
		return e.submit(now), nil
	}
	if full {
		return Submit{}, ErrStoreFull
	}
	e := submitEntry{body: slices.Clone(body), put: now}
	sh.put(d, e, now+int64(s.retention))
	out := e.submit(now)
	out.Created = true
	return out, nil
}

// GetSubmit implements Outbox.
func (s *MemoryStore) GetSubmit(ctx context.Context, key SubmitKey) (Submit, error) {
	sh, d, now, err := s.submitShard(ctx, key)
	if err != nil {
		return Submit{}, err
	}
	defer sh.mu.Unlock()
	e, ok := sh.get(d, now)
	if !ok {
		return Submit{}, nil
	}
	return e.submit(now), nil
}

// AckSubmit implements Outbox.
func (s *MemoryStore) AckSubmit(ctx context.Context, key SubmitKey, ack []byte) error {
	sh, d, now, err := s.submitShard(ctx, key)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	if e, ok := sh.get(d, now); ok && e.ack == nil {
		e.ack = slices.Clone(ack)
		sh.put(d, e, e.put+int64(s.retention))
	}
	return nil
}

// DropSubmit implements Outbox.
func (s *MemoryStore) DropSubmit(ctx context.Context, key SubmitKey) error {
	sh, d, now, err := s.submitShard(ctx, key)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	if e, ok := sh.get(d, now); ok && e.ack == nil {
		delete(sh.live, d)
	}
	return nil
}

// submitShard returns the shard of key with its lock held, unless it fails.
func (s *MemoryStore) submitShard(ctx context.Context, key SubmitKey) (*shard[submitEntry], digest, int64, error) {
	if err := errors.Join(ctx.Err(), key.Validate()); err != nil {
		return nil, digest{}, 0, err
	}
	d := keyDigest(strconv.Itoa(len(key.AgentID)) + ":" + key.AgentID + key.Key)
	sh := &s.submits[d[0]%shards]
	sh.mu.Lock()
	return sh, d, s.clock(), nil
}
