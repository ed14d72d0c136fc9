package sqlstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/ma2h/ma2h-go/store/internal/storekit"
)

// maxGathered bounds the operations of one statement.
const maxGathered = 128

// gather lets the operations of one kind that come while one is on its way
// share the next statement, and with it the commit, which is what a durable
// write costs. One that comes alone is sent at once and as it is.
type gather struct {
	s     *Store
	one   string // the statement of one, which returns a row
	many  string // that of several, which also returns the id of each
	blobs int    // how many of the values, from the first, are bytes
	row   func(*entry) []any
	maybe bool // no row is an answer as well

	mu    sync.Mutex
	busy  bool
	queue []*operation
}

// operation is one of those that wait. What is below done is the gather's until
// done is closed, then the caller's.
type operation struct {
	args []any
	done chan struct{}

	got    entry
	unsure bool
	err    error
}

func (c *operation) id() string { return string(c.args[0].([]byte)) }

// do carries out an operation on the id that is the first of args. unsure goes
// with an error after which it may have been.
func (g *gather) do(ctx context.Context, args []any) (got entry, unsure bool, err error) {
	c := &operation{args: args, done: make(chan struct{})}
	g.mu.Lock()
	if g.busy {
		g.queue = append(g.queue, c)
		g.mu.Unlock()
		return g.await(ctx, c)
	}
	g.busy = true
	g.mu.Unlock()
	defer g.next()
	return g.alone(ctx, args)
}

func (g *gather) alone(ctx context.Context, args []any) (got entry, unsure bool, err error) {
	unsure, err = g.s.do(ctx, func(ctx context.Context) error {
		return g.s.scan(ctx, g.one, args, g.row(&got)...)
	})
	if got.found = err == nil; g.maybe && isNoRows(err) {
		err = nil
	}
	return got, unsure, err
}

// await waits for an operation that others send. One that its caller gives up
// is taken back if it was not sent, and may be carried out if it was.
func (g *gather) await(ctx context.Context, c *operation) (got entry, unsure bool, err error) {
	timed, cancel := context.WithTimeout(ctx, g.s.cfg.Timeout)
	defer cancel()
	select {
	case <-c.done:
		return c.got, c.unsure, c.err
	case <-timed.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, q := range g.queue {
		if q == c {
			g.queue = append(g.queue[:i], g.queue[i+1:]...)
			return entry{}, false, storekit.Unavailable(ctx, timed.Err())
		}
	}
	return entry{}, true, storekit.Unavailable(ctx, timed.Err())
}

// next sends what has gathered until nothing has. It returns at once: who is
// served does not wait for others.
func (g *gather) next() {
	if batch := g.take(); batch != nil {
		go func() {
			for ; batch != nil; batch = g.take() {
				g.send(batch)
				runtime.Gosched() // who was served may come again
			}
		}()
	}
}

// take returns operations on different ids, as a statement touches no row twice.
func (g *gather) take() []*operation {
	g.mu.Lock()
	defer g.mu.Unlock()
	var batch, rest []*operation
	seen := map[string]bool{}
	for _, c := range g.queue {
		if id := c.id(); len(batch) == maxGathered || seen[id] {
			rest = append(rest, c)
		} else {
			seen[id] = true
			batch = append(batch, c)
		}
	}
	g.queue = rest
	g.busy = batch != nil
	return batch
}

// send carries out operations for their callers, whose contexts do not end it.
func (g *gather) send(batch []*operation) {
	ctx := context.Background()
	if len(batch) == 1 {
		c := batch[0]
		c.got, c.unsure, c.err = g.alone(ctx, c.args)
		close(c.done)
		return
	}
	rows := make(map[string]entry, len(batch))
	unsure, err := g.s.do(ctx, func(ctx context.Context) error {
		clear(rows)
		return g.s.each(ctx, g.many, []any{g.text(batch)}, func(scan func(...any) error) error {
			var id []byte
			e := entry{found: true}
			if err := scan(append([]any{&id}, g.row(&e)...)...); err != nil {
				return err
			}
			rows[string(id)] = e
			return nil
		})
	})
	for _, c := range batch {
		c.got, c.unsure, c.err = rows[c.id()], unsure, err
		if err == nil && !c.got.found && !g.maybe {
			c.unsure, c.err = true, storekit.Unavailable(ctx, errNoRow)
		}
		close(c.done)
	}
}

// text is the JSON list that the statement of several takes.
func (g *gather) text(batch []*operation) string {
	lists := make([][]any, len(batch))
	for i, c := range batch {
		lists[i] = slices.Clone(c.args)
		for j, arg := range c.args[:g.blobs] {
			lists[i][j] = hex.EncodeToString(arg.([]byte))
		}
	}
	text, _ := json.Marshal(lists) // strings and integers
	return string(text)
}

// errNoRow is for a driver or a trigger that keeps rows to itself.
var errNoRow = errors.New("the database returned no row")
