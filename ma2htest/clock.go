package ma2htest

import (
	"container/heap"
	"time"
)

// clock is the one source of time and the one list of what falls due. The
// Hub's mutex guards it, and due functions run under that mutex.
type clock struct {
	stands bool          // set: stood is the time; else time.Now plus offset
	stood  time.Time     // where the clock stands
	offset time.Duration // what Advance added
	pinned time.Time     // the moment that is being fired
	origin time.Time     // with a monotonic reading, so that the clock never goes back
	due    dueHeap
	seq    int
	timer  *time.Timer
	wake   func()
	ended  bool
}

// due is a function that runs at a time.
type due struct {
	at    time.Time
	seq   int
	fn    func(now time.Time)
	index int
}

func (c *clock) init(start time.Time, wake func()) {
	c.stands = !start.IsZero()
	c.stood = start.UTC().Round(0)
	c.wake = wake
	c.origin = time.Now()
}

func (c *clock) now() time.Time {
	switch {
	case !c.pinned.IsZero():
		return c.pinned
	case c.stands:
		return c.stood
	}
	return c.origin.Add(time.Since(c.origin) + c.offset).UTC().Round(0)
}

// after has fn run once the clock reads at or later.
func (c *clock) after(at time.Time, fn func(now time.Time)) *due {
	c.seq++
	d := &due{at: at, seq: c.seq, fn: fn}
	heap.Push(&c.due, d)
	if d.index == 0 {
		c.arm()
	}
	return d
}

// stop takes d off the list, if it is still there. A nil d is no news.
func (c *clock) stop(d *due) {
	if d != nil && d.index >= 0 {
		heap.Remove(&c.due, d.index)
	}
}

// catchUp runs what is due and returns the time that it took as now.
func (c *clock) catchUp() time.Time {
	now := c.now()
	if c.fireUntil(now) {
		c.arm()
	}
	return now
}

// step moves the clock by d, or only to the next due time if that comes first,
// runs what is due and returns how far it went.
func (c *clock) step(d time.Duration) time.Duration {
	if len(c.due) > 0 {
		d = min(d, max(c.due[0].at.Sub(c.now()), 0))
	}
	if c.stands {
		c.stood = c.stood.Add(d)
	} else {
		c.offset += d
	}
	c.fireUntil(c.now())
	c.arm()
	return d
}

func (c *clock) fireUntil(until time.Time) (fired bool) {
	for len(c.due) > 0 && !c.due[0].at.After(until) {
		d := heap.Pop(&c.due).(*due)
		if c.pinned = c.now(); c.pinned.Before(d.at) {
			c.pinned = d.at
		}
		d.fn(c.pinned)
		fired = true
	}
	c.pinned = time.Time{}
	return fired
}

// arm sets the real timer for the next due time. A standing clock has none.
func (c *clock) arm() {
	if c.stands || c.ended {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	if len(c.due) > 0 {
		c.timer = time.AfterFunc(c.due[0].at.Sub(c.now()), c.wake)
	}
}

func (c *clock) stopAll() {
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, d := range c.due {
		d.index = -1 // so that stop leaves it alone
	}
	c.due = nil
}

type dueHeap []*due

func (q dueHeap) Len() int { return len(q) }
func (q dueHeap) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}
func (q dueHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *dueHeap) Push(x any) {
	d := x.(*due)
	d.index = len(*q)
	*q = append(*q, d)
}
func (q *dueHeap) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	d.index = -1
	return d
}

// stamp writes a time as the Hub puts it on the wire.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z07:00") }
