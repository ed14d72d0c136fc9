package ma2h

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const shards = 64

type digest [16]byte

// table is a bounded map whose entries expire. It is sharded, so that claims
// run side by side, and bounded as a whole, so that no shard is full before
// the others.
type table[V any] struct {
	shards [shards]shard[V]
	live   atomic.Int64 // entries in all shards, expired ones included until they are dropped
	most   int64
}

func (t *table[V]) init(most int, slot time.Duration) {
	t.most = int64(most)
	for i := range t.shards {
		t.shards[i].slot = int64(slot)
		t.shards[i].count = &t.live
	}
}

func (t *table[V]) shard(d digest) *shard[V] { return &t.shards[d[0]%shards] }

// claim atomically lets take see the entry and put another in its place. A new
// entry that there is no room for is ErrStoreFull; no live one makes room.
func (t *table[V]) claim(d digest, now int64, take func(V, bool) (V, int64, bool)) error {
	sh := t.shard(d)
	for swept := false; ; swept = true {
		sh.mu.Lock()
		sh.expire(now)
		old, had := sh.live[d]
		v, until, ok := take(old.value, had && now < old.until)
		if ok = ok && (had || sh.admit(t.most)); ok {
			sh.store(d, v, until, old, had)
		}
		sh.mu.Unlock()
		if ok || had { // take refuses only what it has seen
			return nil
		}
		if swept {
			return ErrStoreFull
		}
		t.sweep(now)
	}
}

// sweep drops all that has expired. Its cost is that of what it drops.
func (t *table[V]) sweep(now int64) {
	for i := range t.shards {
		sh := &t.shards[i]
		for done := false; !done; {
			sh.mu.Lock()
			done = sh.expire(now)
			sh.mu.Unlock()
		}
	}
}

// shard is one part of a table. Each entry is listed once, under the time slot
// in which it ends, and the slots that have passed are emptied a few entries at
// a time: no call ever walks the map.
type shard[V any] struct {
	mu    sync.Mutex
	live  map[digest]timed[V]
	count *atomic.Int64
	slot  int64 // length of a slot in nanoseconds
	slots map[int64]*[]digest
	next  int64 // no slot before it holds entries
}

type timed[V any] struct {
	value V
	until int64
	at    int // place in the list of its slot
}

// expireStep bounds the steps of one cleaning. It is above one, so that
// cleaning outruns filling.
const expireStep = 16

func (s *shard[V]) get(d digest, now int64) (V, bool) {
	e, ok := s.live[d]
	if !ok || now >= e.until {
		var none V
		return none, false
	}
	return e.value, true
}

// admit makes room for a new entry, unless there is none.
func (s *shard[V]) admit(most int64) bool {
	if s.count.Add(1) > most {
		s.count.Add(-1)
		return false
	}
	return true
}

// slotOf is the slot whose beginning is past until.
func (s *shard[V]) slotOf(until int64) int64 { return until/s.slot + 1 }

// put changes an entry that is there.
func (s *shard[V]) put(d digest, v V, until int64) { s.store(d, v, until, s.live[d], true) }

// store puts an entry in the place of old, or of nothing where it was admitted.
func (s *shard[V]) store(d digest, v V, until int64, old timed[V], had bool) {
	if s.live == nil {
		s.live = make(map[digest]timed[V])
		s.slots = make(map[int64]*[]digest)
	}
	slot := s.slotOf(until)
	if had {
		if s.slotOf(old.until) == slot {
			s.live[d] = timed[V]{v, until, old.at}
			return
		}
		s.unlist(old)
	}
	if len(s.slots) == 0 || slot < s.next {
		s.next = slot
	}
	list := s.slots[slot]
	if list == nil {
		list = new([]digest)
		s.slots[slot] = list
	}
	s.live[d] = timed[V]{v, until, len(*list)}
	*list = append(*list, d)
}

func (s *shard[V]) drop(d digest) {
	s.unlist(s.live[d])
	delete(s.live, d)
	s.count.Add(-1)
}

// unlist takes an entry off its list; the last of the list takes its place.
func (s *shard[V]) unlist(e timed[V]) {
	slot := s.slotOf(e.until)
	list := s.slots[slot]
	last := len(*list) - 1
	if e.at != last {
		moved := (*list)[last]
		(*list)[e.at] = moved
		m := s.live[moved]
		m.at = e.at
		s.live[moved] = m
	}
	if last == 0 {
		delete(s.slots, slot)
		return
	}
	*list = (*list)[:last]
}

// expire drops entries whose slot has passed, a few at a time, and reports
// whether it has come to the end of them.
func (s *shard[V]) expire(now int64) (done bool) {
	last := now / s.slot
	for range expireStep {
		if len(s.slots) == 0 || s.next > last {
			return true
		}
		list := s.slots[s.next]
		if list == nil {
			s.next = s.earliest()
			continue
		}
		s.drop((*list)[len(*list)-1])
	}
	return false
}

// earliest looks through the slots, which are few: as many as the longest life
// of an entry takes.
func (s *shard[V]) earliest() int64 {
	first := int64(math.MaxInt64)
	for slot := range s.slots {
		first = min(first, slot)
	}
	return first
}
