package ma2h

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ma2h/ma2h-go/types"
)

// drains sends held drains, one after another.
type drains struct {
	in   *Inbox
	pace *pacer
}

func (in *Inbox) drains() *drains {
	return &drains{in: in, pace: newPacer(in.client, in.client.hold)}
}

// next sends one. No news is no rows.
func (d *drains) next(ctx context.Context, most int) ([]row, time.Time, error) {
	ep, err := d.in.endpoints(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	begin := time.Now()
	reply, err := d.in.client.holdOnce(ctx, d.pace, opInbox, ep.drain(most, d.pace.asks()))
	switch {
	case err != nil:
		return nil, time.Time{}, fmt.Errorf("ma2h: %s: %w", opInbox, err)
	case reply == nil:
		return nil, time.Time{}, nil
	case reply.Status != http.StatusOK:
		return nil, time.Time{}, apiError(opInbox, "", reply, d.in.client.cfg.Now())
	}
	rows, err := readBatch(reply.Body)
	if err != nil {
		return nil, time.Time{}, err
	}
	return rows, ep.lapse(begin), nil
}

// goOn takes back the pause that an early answer asks for: this one brought
// something to do, so it says nothing about whether the Hub holds.
func (d *drains) goOn() { d.pace.next, d.pace.early = 0, 0 }

// row is one entry of a drain as it came.
type row types.Raw

// entry reads the row strictly. UnmarshalJSON does so by itself; through
// types.Decode the row would be read twice.
func (r row) entry() (e types.InboxEntry, err error) {
	err = e.UnmarshalJSON(r)
	return e, err
}

// content identifies a row across its deliveries, whose signatures differ.
func (r row) content() [sha256.Size]byte {
	h := sha256.New()
	dec := jsontext.NewDecoder(bytes.NewReader(r), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return sha256.Sum256(r)
	}
	for dec.PeekKind() == '"' {
		// Neither fails: readBatch has read the row to its end.
		name, _ := dec.ReadValue()
		signature := string(name) == `"signature"`
		h.Write(name)
		value, _ := dec.ReadValue()
		if !signature {
			h.Write(value)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// readBatch takes the rows apart and reads none of them, so that one that is
// out of form does not keep the others from being acted on.
func readBatch(body []byte) ([]row, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	rows, err := splitBatch(dec)
	if err != nil {
		if _, ok := errors.AsType[*jsontext.SyntacticError](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errNotJSON // its own text may quote the body
		}
		return nil, fmt.Errorf("%w: drain: %w", ErrProtocol, err)
	}
	return rows, nil
}

var (
	errNotJSON    = errors.New("not valid JSON")
	errNoMessages = errors.New("no object with one array messages (§8.7)")
)

func splitBatch(dec *jsontext.Decoder) (rows []row, err error) {
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, cmp.Or(err, errNoMessages)
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		if name.String() != "messages" {
			if err := dec.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '[' || rows != nil {
			return nil, cmp.Or(err, errNoMessages)
		}
		rows = []row{}
		for dec.PeekKind() != ']' {
			v, err := dec.ReadValue()
			if err != nil {
				return nil, err
			}
			if len(rows) < maxRows {
				rows = append(rows, row(v.Clone()))
			}
		}
		if _, err := dec.ReadToken(); err != nil {
			return nil, err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, cmp.Or(err, errNotJSON)
	}
	if rows == nil {
		return nil, errNoMessages
	}
	return rows, nil
}
