package ma2h

import (
	"encoding/binary"
	"math"
	"math/bits"
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
		freed, _ := sh.expire(now)
		i := sh.find(d)
		v, until, ok := take(sh.at(i, now))
		switch {
		case !ok:
		case i != 0:
			sh.put(i, v, until)
		case freed > 0: // into the place of one that was dropped
			freed--
			sh.add(d, v, until)
		default:
			if ok = sh.admit(t.most); ok {
				sh.add(d, v, until)
			}
		}
		if freed > 0 {
			t.live.Add(int64(-freed))
		}
		sh.mu.Unlock()
		if ok || i != 0 { // take refuses only what it has seen
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
			var freed int
			freed, done = sh.expire(now)
			t.live.Add(int64(-freed))
			sh.mu.Unlock()
		}
	}
}

// shard is one part of a table: a hash table by chaining, whose entries lie
// side by side and hold no pointer of their own. A map of the language takes
// twice the memory and, because each claim also finds and lists what expires,
// several times the cache misses.
//
// Each entry is listed once, under the time slot in which it ends, and the slots
// that have passed are emptied a few entries at a time. Buckets are added one by
// one, with the entries. So no call ever walks all entries.
type shard[V any] struct {
	mu      sync.Mutex
	entries []place[V] // the first stands for none
	free    uint32     // the first entry that is not in use, chained
	buckets []uint32   // the first entry of each
	used    int        // entries in use
	count   *atomic.Int64

	slot  int64            // length of a slot in nanoseconds
	slots map[int64]uint32 // the first entry of each
	next  int64            // no slot before it holds entries
}

type place[V any] struct {
	digest digest
	until  int64
	value  V
	chain  uint32 // the next of its bucket, or of those not in use
	back   uint32 // the one before it in its bucket
	prev   uint32 // in its slot
	next   uint32
}

// bucket is where d belongs among the buckets there are: those past the last
// power of two are the upper halves of buckets that have been split.
func (s *shard[V]) bucket(d digest) uint32 {
	h, n := binary.LittleEndian.Uint32(d[1:]), uint32(len(s.buckets))
	mask := uint32(1)<<bits.Len32(n) - 1
	if i := h & mask; i < n {
		return i
	}
	return h & (mask >> 1)
}

// find returns the place of d, or 0.
func (s *shard[V]) find(d digest) uint32 {
	if s.used == 0 {
		return 0
	}
	i := s.buckets[s.bucket(d)]
	for i != 0 && s.entries[i].digest != d {
		i = s.entries[i].chain
	}
	return i
}

// at returns what is in place i, unless it has expired.
func (s *shard[V]) at(i uint32, now int64) (v V, ok bool) {
	if i == 0 || now >= s.entries[i].until {
		return v, false
	}
	return s.entries[i].value, true
}

// get returns the entry of d and its place.
func (s *shard[V]) get(d digest, now int64) (v V, i uint32, ok bool) {
	i = s.find(d)
	v, ok = s.at(i, now)
	return v, i, ok
}

// admit makes room for a new entry, unless there is none.
func (s *shard[V]) admit(most int64) bool {
	if s.count.Add(1) > most {
		s.count.Add(-1)
		return false
	}
	return true
}

// add enters what was admitted.
func (s *shard[V]) add(d digest, v V, until int64) {
	if s.slots == nil {
		s.slots = make(map[int64]uint32)
		s.entries = make([]place[V], 1)
	}
	for s.used++; 2*s.used > len(s.buckets); {
		s.split()
	}
	i := s.free
	if i != 0 {
		s.free = s.entries[i].chain
	} else {
		i = uint32(len(s.entries))
		s.entries = append(s.entries, place[V]{})
	}
	s.entries[i] = place[V]{digest: d, until: until, value: v}
	s.link(i)
	s.list(i)
}

// link puts the entry in place i before the others of its bucket.
func (s *shard[V]) link(i uint32) {
	first := &s.buckets[s.bucket(s.entries[i].digest)]
	s.entries[i].back, s.entries[i].chain = 0, *first
	if *first != 0 {
		s.entries[*first].back = i
	}
	*first = i
}

// split adds a bucket and shares out the entries of its lower half. There are
// two for each entry, so that most that is new finds its bucket empty.
func (s *shard[V]) split() {
	n := uint32(len(s.buckets))
	s.buckets = append(s.buckets, 0)
	if n == 0 {
		return
	}
	half := n ^ 1<<(bits.Len32(n)-1)
	i := s.buckets[half]
	s.buckets[half] = 0
	for i != 0 {
		next := s.entries[i].chain
		s.link(i)
		i = next
	}
}

// put changes the entry in place i.
func (s *shard[V]) put(i uint32, v V, until int64) {
	e := &s.entries[i]
	e.value = v
	if s.slotOf(e.until) == s.slotOf(until) {
		e.until = until
		return
	}
	s.unlist(i)
	e.until = until
	s.list(i)
}

func (s *shard[V]) drop(i uint32) {
	s.remove(i)
	s.count.Add(-1)
}

// remove is drop for a caller that counts.
func (s *shard[V]) remove(i uint32) {
	s.unlist(i)
	e := &s.entries[i]
	if e.chain != 0 {
		s.entries[e.chain].back = e.back
	}
	if e.back != 0 {
		s.entries[e.back].chain = e.chain
	} else {
		s.buckets[s.bucket(e.digest)] = e.chain
	}
	s.entries[i] = place[V]{chain: s.free}
	s.free = i
	s.used--
}

// slotOf is the slot whose beginning is past until.
func (s *shard[V]) slotOf(until int64) int64 { return until/s.slot + 1 }

func (s *shard[V]) list(i uint32) {
	slot := s.slotOf(s.entries[i].until)
	if len(s.slots) == 0 || slot < s.next {
		s.next = slot
	}
	first := s.slots[slot]
	s.slots[slot] = i
	s.entries[i].prev, s.entries[i].next = 0, first
	if first != 0 {
		s.entries[first].prev = i
	}
}

func (s *shard[V]) unlist(i uint32) {
	e := &s.entries[i]
	if e.next != 0 {
		s.entries[e.next].prev = e.prev
	}
	switch slot := s.slotOf(e.until); {
	case e.prev != 0:
		s.entries[e.prev].next = e.next
	case e.next != 0:
		s.slots[slot] = e.next
	default:
		delete(s.slots, slot)
	}
}

// expireStep bounds the steps of one cleaning. It is above one, so that
// cleaning outruns filling.
const expireStep = 16

// expire removes entries whose slot has passed, a few at a time, and says how
// many and whether it has come to the end of them. The caller counts them.
func (s *shard[V]) expire(now int64) (freed int, done bool) {
	last := now / s.slot
	for range expireStep {
		if len(s.slots) == 0 || s.next > last {
			return freed, true
		}
		i, ok := s.slots[s.next]
		if !ok {
			if s.next++; s.slots[s.next] == 0 {
				s.next = s.earliest()
			}
			continue
		}
		s.remove(i)
		freed++
	}
	return freed, false
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
