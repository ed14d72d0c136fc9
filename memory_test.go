package ma2h_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/store/storetest"
)

// memories are MemoryStores by address, each with a clock of its own.
type memories struct {
	mu    sync.Mutex
	made  int
	store map[string]*ma2h.MemoryStore
	clock map[string]time.Time
}

func (m *memories) now(address string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock[address]
}

// req: HND-07 RPL-01 RPL-03 RPL-04 RPL-05
// report: B022 B075 B076 B078 B079
func TestMemoryStoreKeepsTheContract(t *testing.T) {
	const retention = 24 * time.Hour
	m := &memories{store: make(map[string]*ma2h.MemoryStore), clock: make(map[string]time.Time)}
	storetest.Run(t, storetest.Backend{
		OneProcess: true,
		Retention:  retention,
		New: func(t testing.TB) string {
			m.mu.Lock()
			m.made++
			address := fmt.Sprint(m.made)
			m.clock[address] = time.Unix(1_800_000_000, 0)
			m.mu.Unlock()
			s, err := ma2h.NewMemoryStore(ma2h.MemoryConfig{Retention: retention, Now: func() time.Time { return m.now(address) }})
			if err != nil {
				t.Fatal(err)
			}
			m.store[address] = s
			return address
		},
		Open: func(_ testing.TB, address string) ma2h.Store { return m.store[address] },
		Advance: func(address string, d time.Duration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.clock[address] = m.clock[address].Add(d)
		},
	})
}
