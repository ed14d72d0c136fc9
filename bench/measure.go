package main

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// meter measures. Whatever else a machine does only makes things slower, and
// it seldom does so throughout: so everything in a comparison runs in turn, in
// many short runs, and the shortest of each is what it takes.
type meter struct {
	rounds    int
	slice     time.Duration
	reference string
}

// subject is something to measure.
type subject struct {
	ready func(n int) error                  // before each run, in no one's time; may be nil
	run   func(n int) (time.Duration, error) // n operations
	most  int                                // operations of one run; 0 is no bound
}

func (s subject) once(n int) (time.Duration, error) {
	if s.ready != nil {
		if err := s.ready(n); err != nil {
			return 0, err
		}
	}
	runtime.GC() // nobody pays for another's garbage
	return s.run(n)
}

// fill finds how many operations fill a slice. It also warms up.
func (m *meter) fill(s subject) (int, error) {
	for n := 1; ; {
		d, err := s.once(n)
		if err != nil {
			return 0, err
		}
		next := int(min(float64(n)*float64(m.slice)/float64(max(d, 1)), 1<<24))
		if s.most > 0 {
			next = min(next, s.most)
		}
		if d >= m.slice/2 || n == s.most {
			return max(next, 1), nil
		}
		n = min(max(next, n+1), 100*n)
	}
}

// least returns what one operation of each subject takes, in nanoseconds.
func (m *meter) least(subjects ...subject) ([]float64, error) {
	counts, out := make([]int, len(subjects)), make([]float64, len(subjects))
	for i, s := range subjects {
		n, err := m.fill(s)
		if err != nil {
			return nil, err
		}
		counts[i], out[i] = n, math.Inf(1)
	}
	for range m.rounds {
		for i, s := range subjects {
			d, err := s.once(counts[i])
			if err != nil {
				return nil, err
			}
			out[i] = min(out[i], float64(d)/float64(counts[i]))
		}
	}
	return out, nil
}

// each is a run of f, one after another.
func each(f func(i int) error) func(int) (time.Duration, error) {
	return func(n int) (time.Duration, error) {
		begin := time.Now()
		for i := range n {
			if err := f(i); err != nil {
				return 0, err
			}
		}
		return time.Since(begin), nil
	}
}

// abreast is a run of f by so many workers at a time.
func abreast(workers int, f func(worker, i int) error) func(int) (time.Duration, error) {
	return func(n int) (time.Duration, error) {
		errs := make([]error, workers)
		var wg sync.WaitGroup
		begin := time.Now()
		for w := range workers {
			wg.Go(func() {
				for i := w * n / workers; i < (w+1)*n/workers && errs[w] == nil; i++ {
					errs[w] = f(w, i)
				}
			})
		}
		wg.Wait()
		took := time.Since(begin)
		for _, err := range errs {
			if err != nil {
				return 0, err
			}
		}
		return took, nil
	}
}

// heapInUse is what live objects take.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the first may leave what finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
