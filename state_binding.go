package ma2h

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// latestExpiry is the end of the year 9999, the last that RFC 3339 can write.
const latestExpiry = 253402300799

// Binding says what a sealed state belongs to: an agent, the question it was
// sealed for, and any further facts. Open refuses a state whose binding
// differs, so that the state of one question cannot be returned for another
// (§9.3). The zero value binds nothing and is refused by Seal and Open.
type Binding struct {
	agentID string
	key     string
	parts   []string
	until   time.Time
	expires bool
}

// Bind binds to an agent id and to the idempotency key of the question. Both
// must be known to the process that opens, so the key is best derived from the
// work, as in "ship-1.4", and not drawn at random.
func Bind(agentID, idempotencyKey string) Binding {
	return Binding{agentID: agentID, key: idempotencyKey}
}

// With adds facts that must be the same at Open, such as the digest of the
// planned action: what a human approved is then the only thing that the opened
// state can start. The order counts.
func (b Binding) With(parts ...string) Binding {
	b.parts = slices.Concat(b.parts, parts)
	return b
}

// Until makes the state expire at t, whole seconds of it: it opens before t
// and no longer at t. Seal refuses a t that is not ahead, the zero time
// included. The expiry travels inside the authenticated part; Open enforces
// that one and takes no notice of the expiry of the Binding it is given.
func (b Binding) Until(t time.Time) Binding {
	b.until, b.expires = t, true
	return b
}

func (b Binding) valid(agentID string) error {
	switch {
	case b.agentID != agentID:
		return fmt.Errorf("%w: its agent id is not the Sealer's", ErrSealBinding)
	case b.key == "":
		return fmt.Errorf("%w: it has no idempotency key", ErrSealBinding)
	}
	return nil
}

// seconds returns the expiry as it travels: Unix seconds, 0 for none.
func (b Binding) seconds(now time.Time) (int64, error) {
	if !b.expires {
		return 0, nil
	}
	sec := b.until.Unix()
	if sec > latestExpiry {
		return 0, &types.FieldError{Field: "Binding.Until", Problem: "is past the year 9999", Section: "§9.3"}
	}
	if sec <= 0 || !now.Before(time.Unix(sec, 0)) {
		return 0, fmt.Errorf("%w: Binding.Until is not ahead", ErrSealExpired)
	}
	return sec, nil
}

// encode writes each part behind its length, so that no two lists of parts
// give the same bytes.
func (b Binding) encode() []byte {
	var out []byte
	for _, p := range append([]string{b.agentID, b.key}, b.parts...) {
		out = binary.BigEndian.AppendUint64(out, uint64(len(p)))
		out = append(out, p...)
	}
	return out
}
