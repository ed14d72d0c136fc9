package ma2h

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// clientOutbox is the Outbox of a Client that was given none. It makes asking
// again safe within the process, and is no reason to refuse a submit: what it
// has no room for is sent all the same.
type clientOutbox struct{ *MemoryStore }

// It is bounded in submits, and in the bytes of each.
const (
	clientOutboxSize = 256
	clientOutboxBody = 128 << 10
)

func newClientOutbox(cfg Config) (Outbox, error) {
	s, err := NewMemoryStore(MemoryConfig{MaxEntries: clientOutboxSize, Now: cfg.Now})
	return clientOutbox{s}, err
}

// PutSubmit implements Outbox.
func (o clientOutbox) PutSubmit(ctx context.Context, key SubmitKey, body []byte) (Submit, error) {
	if len(body) > clientOutboxBody {
		return Submit{Body: body, Created: true}, nil
	}
	kept, err := o.MemoryStore.PutSubmit(ctx, key, body)
	if errors.Is(err, ErrStoreFull) {
		return Submit{Body: body, Created: true}, nil
	}
	return kept, err
}

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
	d, err := submitDigest(ctx, key)
	if err != nil {
		return Submit{}, err
	}
	now := s.clock()
	kept := submitEntry{body: slices.Clone(body), put: now}
	created := true
	err = s.submits.claim(d, now, func(e submitEntry, ok bool) (submitEntry, int64, bool) {
		if ok {
			kept, created = e, false
		}
		return kept, after(now, s.retention), created
	})
	if err != nil {
		return Submit{}, err
	}
	out := kept.submit(now)
	out.Created = created
	return out, nil
}

// GetSubmit implements Outbox.
func (s *MemoryStore) GetSubmit(ctx context.Context, key SubmitKey) (Submit, error) {
	sh, d, now, err := s.submitShard(ctx, key)
	if err != nil {
		return Submit{}, err
	}
	defer sh.mu.Unlock()
	e, _, ok := sh.get(d, now)
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
	if e, i, ok := sh.get(d, now); ok && e.ack == nil {
		e.ack = slices.Clone(ack)
		sh.put(i, e, after(e.put, s.retention))
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
	if e, i, ok := sh.get(d, now); ok && e.ack == nil {
		sh.drop(i)
	}
	return nil
}

// submitShard returns the shard of key with its lock held, unless it fails.
func (s *MemoryStore) submitShard(ctx context.Context, key SubmitKey) (*shard[submitEntry], digest, int64, error) {
	d, err := submitDigest(ctx, key)
	if err != nil {
		return nil, d, 0, err
	}
	sh := s.submits.shard(d)
	sh.mu.Lock()
	return sh, d, s.clock(), nil
}

func submitDigest(ctx context.Context, key SubmitKey) (digest, error) {
	if err := errors.Join(ctx.Err(), key.Validate()); err != nil {
		return digest{}, err
	}
	return keyDigest(strconv.Itoa(len(key.Hub)) + ":" + key.Hub + strconv.Itoa(len(key.AgentID)) + ":" + key.AgentID + key.Key), nil
}
