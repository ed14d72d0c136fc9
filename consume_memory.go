package ma2h

import (
	"fmt"
	"sync"
)

// maxRemembered bounds what a process remembers of failing, dead and rejected
// entries.
const maxRemembered = 100_000

// consumerMemory is what the consumers of an Inbox remember for as long as the
// process lives. Nothing in it makes acting safe, that is the ledger's; it
// counts attempts and keeps reports from coming twice.
type consumerMemory struct {
	mu       sync.Mutex
	failures recent[int]      // attempts by directive id
	reported recent[struct{}] // rejections
	// lettered has who went to DeadLetter: true if it is never acted on again,
	// false if it is in doubt, which the ledger guards.
	lettered map[string]bool
}

// fail counts a failed attempt.
func (m *consumerMemory) fail(id string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, _ := m.failures.get(id)
	m.failures.put(id, n+1)
	return n + 1
}

// done forgets the attempts at a directive, and a doubt that was resolved.
func (m *consumerMemory) done(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures.drop(id)
	if !m.lettered[id] {
		delete(m.lettered, id)
	}
}

// letter records that a directive goes to DeadLetter and reports whether that
// is news. It does not forget one to make room: it would be acted on again.
func (m *consumerMemory) letter(id string, dead bool) (first bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures.drop(id)
	was, ok := m.lettered[id]
	if !ok && len(m.lettered) >= maxRemembered {
		return false, fmt.Errorf("%w: %d directives were given up on", ErrStoreFull, maxRemembered)
	}
	if m.lettered == nil {
		m.lettered = make(map[string]bool)
	}
	m.lettered[id] = was || dead
	return !ok, nil
}

func (m *consumerMemory) isDead(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lettered[id]
}

// report records a rejection and reports whether it is news.
func (m *consumerMemory) report(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.reported.get(key)
	m.reported.put(key, struct{}{})
	return !known
}

// recent is a map that forgets what was put longest ago once there are
// maxRemembered entries.
type recent[V any] struct{ young, old map[string]V }

func (r *recent[V]) get(key string) (V, bool) {
	v, ok := r.young[key]
	if !ok {
		v, ok = r.old[key]
	}
	return v, ok
}

func (r *recent[V]) put(key string, v V) {
	if len(r.young) >= maxRemembered/2 {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = make(map[string]V)
	}
	r.young[key] = v
}

func (r *recent[V]) drop(key string) {
	delete(r.young, key)
	delete(r.old, key)
}
