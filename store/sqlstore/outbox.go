package sqlstore

import (
	"context"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

// PutSubmit implements ma2h.Outbox.
func (s *Store) PutSubmit(ctx context.Context, key ma2h.SubmitKey, body []byte) (ma2h.Submit, error) {
	if err := key.Validate(); err != nil {
		return ma2h.Submit{}, err
	}
	mine := storekit.NewToken()
	out, token, err := s.readSubmit(ctx, s.q.put, storekit.SubmitDigest(key), mine, body, s.micros(s.cfg.Retention))
	if err != nil {
		return ma2h.Submit{}, err
	}
	if out.Created = token == mine; out.Created {
		s.sweep(ctx, mine, submits)
	}
	return out, nil
}

// GetSubmit implements ma2h.Outbox.
func (s *Store) GetSubmit(ctx context.Context, key ma2h.SubmitKey) (ma2h.Submit, error) {
	if err := key.Validate(); err != nil {
		return ma2h.Submit{}, err
	}
	out, _, err := s.readSubmit(ctx, s.q.get, storekit.SubmitDigest(key))
	if isNoRows(err) {
		return ma2h.Submit{}, nil
	}
	return out, err
}

func (s *Store) readSubmit(ctx context.Context, query string, args ...any) (ma2h.Submit, ma2h.Token, error) {
	var out ma2h.Submit
	var token ma2h.Token
	var put, now int64
	_, err := s.do(ctx, func(ctx context.Context) error {
		return s.scan(ctx, query, args, &token, &out.Body, &out.Ack, &put, &now)
	})
	if err != nil {
		return ma2h.Submit{}, 0, err
	}
	out.Age = time.Duration(max(0, now-put)) * time.Microsecond
	return out, token, nil
}

// AckSubmit implements ma2h.Outbox.
func (s *Store) AckSubmit(ctx context.Context, key ma2h.SubmitKey, ack []byte) error {
	if err := key.Validate(); err != nil {
		return err
	}
	_, err := s.exec(ctx, s.q.ack, storekit.SubmitDigest(key), ack)
	return err
}

// DropSubmit implements ma2h.Outbox.
func (s *Store) DropSubmit(ctx context.Context, key ma2h.SubmitKey) error {
	if err := key.Validate(); err != nil {
		return err
	}
	_, err := s.exec(ctx, s.q.drop, storekit.SubmitDigest(key))
	return err
}
