package storetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	ma2h "github.com/ma2h/ma2h-go"
)

const (
	contenders = 64
	processes  = 8
	contended  = 25 // acts, deliveries and submits that all want
)

// Of many who want a thing at once, one has it.
func contention(t *testing.T, b Backend) {
	b.run(t, []sentence{
		{"Of 64 goroutines one has the claim", func(t *testing.T, s *subject) {
			counts := make([]tally, contenders)
			start := make(chan struct{})
			var done sync.WaitGroup
			for i := range counts {
				done.Go(func() {
					<-start
					counts[i] = contend(t, s)
				})
			}
			close(start)
			done.Wait()
			once(t, counts)
		}},
		{"Of 64 goroutines one takes a doubt", func(t *testing.T, s *subject) {
			act := ma2h.Act{Key: "doubtful"}
			s.inDoubt(t, act)
			tokens := make([]ma2h.Token, contenders)
			var done sync.WaitGroup
			for i := range tokens {
				done.Go(func() {
					r, err := s.Reserve(t.Context(), act, long, true)
					if err != nil || r.State != ma2h.ActClaimed && r.State != ma2h.ActInFlight {
						t.Errorf("Reserve: %v, %v", r.State, err)
					}
					tokens[i] = r.Token
				})
			}
			done.Wait()
			var holder []ma2h.Token
			for _, token := range tokens {
				if token != 0 {
					holder = append(holder, token)
				}
			}
			if len(holder) != 1 {
				t.Fatalf("%d goroutines took the doubt", len(holder))
			}
			want(t, "Commit", s.Commit(t.Context(), act, holder[0]), nil)
		}},
		{"Of 8 processes with 8 goroutines each one has the claim", func(t *testing.T, s *subject) {
			if b.OneProcess {
				t.Skip("the store is in memory")
			}
			once(t, crowd(t, s.address))
			for i := range contended {
				s.wantState(t, contendedAct(i), ma2h.ActDone)
			}
		}},
	})
}

// tally is what one contender got of each thing.
type tally struct {
	Acts, Deliveries, Submits []int
	Errors                    []string
}

func contendedAct(i int) ma2h.Act {
	return ma2h.Act{Key: fmt.Sprint("act", i), Resolution: fmt.Sprint("res", i)}
}

// patiently asks again where a busy machine had the store run out of its time,
// as a caller would; how long a crowd takes is not what the contract is about.
func patiently(f func() error) (err error) {
	for range 10 {
		if err = f(); !errors.Is(err, ma2h.ErrStoreUnavailable) {
			break
		}
	}
	return err
}

// contend tries for everything and commits what it got.
func contend(t testing.TB, s *subject) tally {
	var got tally
	fail := func(what string, err error) {
		if err != nil {
			got.Errors = append(got.Errors, what+": "+err.Error())
		}
	}
	box, _ := s.Store.(ma2h.Outbox)
	for i := range contended {
		a := contendedAct(i)
		var r ma2h.Reservation
		fail("Reserve", patiently(func() (err error) { r, err = s.Reserve(t.Context(), a, long, false); return err }))
		if r.State == ma2h.ActClaimed {
			got.Acts = append(got.Acts, i)
			fail("Commit", patiently(func() error { return s.Commit(t.Context(), a, r.Token) }))
		}
		var state ma2h.ReplayState
		fail("ClaimJTI", patiently(func() (err error) {
			state, err = s.ClaimJTI(t.Context(), fmt.Sprint("jti", i), long, long)
			return err
		}))
		if state == ma2h.Fresh {
			got.Deliveries = append(got.Deliveries, i)
		}
		if box == nil {
			continue
		}
		var kept ma2h.Submit
		fail("PutSubmit", patiently(func() (err error) {
			kept, err = box.PutSubmit(t.Context(), ma2h.SubmitKey{AgentID: "bot/a", Key: fmt.Sprint("key", i)}, []byte("body"))
			return err
		}))
		if kept.Created {
			got.Submits = append(got.Submits, i)
		}
	}
	return got
}

// once fails unless each thing went to exactly one contender.
func once(t testing.TB, tallies []tally) {
	t.Helper()
	counts := map[string][]int{}
	for _, y := range tallies {
		for _, e := range y.Errors {
			t.Errorf("a contender failed: %s", e)
		}
		counts["acts"] = append(counts["acts"], y.Acts...)
		counts["deliveries"] = append(counts["deliveries"], y.Deliveries...)
		counts["submits"] = append(counts["submits"], y.Submits...)
	}
	for kind, list := range counts {
		if kind == "submits" && len(list) == 0 {
			continue // the store is no outbox
		}
		won := make([]int, contended)
		for _, i := range list {
			won[i]++
		}
		for i, n := range won {
			if n != 1 {
				t.Errorf("of %s, number %d went to %d contenders", kind, i, n)
			}
		}
	}
}

// The other processes are copies of the test binary that run the same test.
const (
	workerTest    = "MA2H_STORETEST_WORKER"
	workerAddress = "MA2H_STORETEST_ADDRESS"
	workerReady   = "storetest: ready"
	workerResult  = "storetest: result "
)

func isWorker(t *testing.T) bool {
	name, ok := os.LookupEnv(workerTest)
	if ok && name != t.Name() {
		t.Skip("another test's worker")
	}
	return ok
}

// work is the life of a worker: open, say so, wait for the start, contend.
func work(t *testing.T, b Backend) {
	address := os.Getenv(workerAddress)
	s := &subject{Store: b.Open(t, address), b: b, address: address}
	fmt.Println("\n" + workerReady)
	if !bufio.NewScanner(os.Stdin).Scan() {
		t.Fatal("the parent is gone")
	}
	tallies := make([]tally, contenders/processes)
	var done sync.WaitGroup
	for i := range tallies {
		done.Go(func() { tallies[i] = contend(t, s) })
	}
	done.Wait()
	text, err := json.Marshal(tallies)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\n" + workerResult + string(text))
}

// crowd starts the workers together and collects what they got.
func crowd(t *testing.T, address string) []tally {
	t.Helper()
	// The worker runs the test in which Run was called, two levels up.
	path := strings.Split(t.Name(), "/")
	path = path[:len(path)-2]
	pattern := make([]string, len(path))
	for i, name := range path {
		pattern[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all []tally
	var mu sync.Mutex
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for range processes {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run="+strings.Join(pattern, "/"), "-test.count=1", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), workerTest+"="+strings.Join(path, "/"), workerAddress+"="+address)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready.Add(1)
		done.Go(func() {
			isReady := sync.OnceFunc(ready.Done)
			defer isReady()
			var rest []string
			var got []tally
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				line := lines.Text()
				text, isResult := strings.CutPrefix(line, workerResult)
				switch {
				case line == workerReady:
					isReady()
					<-start
					fmt.Fprintln(in, "go")
				case isResult:
					if err := json.Unmarshal([]byte(text), &got); err != nil {
						t.Errorf("a worker's result: %v", err)
					}
				default:
					rest = append(rest, line)
				}
			}
			if err := cmd.Wait(); err != nil || got == nil {
				t.Errorf("a worker failed: %v\n%s", err, strings.Join(rest, "\n"))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, got...)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return all
}
