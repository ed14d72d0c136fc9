package chaosproxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go/internal/vectors"
)

func canonical(t *testing.T, text []byte) string {
	t.Helper()
	out, err := jcs.Transform(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return string(out)
}

// deliveries are bodies that a Hub has signed.
func deliveries(t *testing.T) (all [][]byte) {
	t.Helper()
	list, err := vectors.Load("../signed/testdata/vectors", vectors.Pinned)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if v.Expect == vectors.OK {
			all = append(all, v.Bytes())
		}
	}
	if len(all) < 20 {
		t.Fatalf("%d deliveries", len(all))
	}
	return all
}

func TestAnotherSpellingIsTheSameDocument(t *testing.T) {
	texts := append(deliveries(t),
		[]byte(`{"n":[0,-0,1,-1,1.5,0.1,1e21,1e-7,123456789012345680000,9007199254740993,5e-324,1.7976931348623157e308,1000000]}`),
		[]byte(`{"s":["","a/b","\"\\\u0000\u001f","é€","😀𐀀","\u2028<>&"],"a":null,"b":true,"c":false,"d":{},"e":[]}`), []byte(` "alone" `), []byte(`7`),
	)
	did, changed := map[Fault]int{}, 0
	for seed := range uint64(15) {
		for _, text := range texts {
			out, faults := Respell(rand.New(rand.NewPCG(seed, 1)), text)
			if canonical(t, out) != canonical(t, text) {
				t.Fatalf("%s\nbecame\n%s", text, out)
			}
			if len(faults) > 0 && !bytes.Equal(out, text) {
				changed++
			}
			for _, f := range faults {
				did[f]++
			}
		}
	}
	if changed < 15*20 {
		t.Errorf("only %d texts were changed", changed)
	}
	for _, f := range spellings {
		if did[f] < 15 {
			t.Errorf("%s: %d times", f, did[f])
		}
	}
	for _, text := range []string{"", "{", `{"a":1} x`, `{"a":1}{}`, "[1,", "nul", `{"a" 1}`} {
		if out, faults := Respell(rand.New(rand.NewPCG(1, 1)), []byte(text)); string(out) != text || faults != nil {
			t.Errorf("%q became %q, %v", text, out, faults)
		}
	}
}

func TestADamagedDeliveryIsAnotherDocument(t *testing.T) {
	for _, f := range []Fault{OldForm, FieldRemoved, Tampered} {
		n := 0
		for seed := range uint64(15) {
			for _, body := range deliveries(t) {
				if read(body).text("ma2h_version") == "0.2" {
					continue
				}
				out, ok := damage(f, rand.New(rand.NewPCG(seed, 2)), body)
				if !ok || canonical(t, out) == canonical(t, body) {
					t.Fatalf("%s: %s\nbecame\n%s", f, body, out)
				}
				n++
			}
		}
		if n < 15*20 {
			t.Errorf("%s: %d deliveries", f, n)
		}
		if out, ok := damage(f, rand.New(rand.NewPCG(1, 2)), []byte("<html>")); ok || string(out) != "<html>" {
			t.Errorf("%s damages %q", f, out)
		}
	}
}

// echo answers with what it gets, and keeps it.
type echo struct {
	mu  sync.Mutex
	got []string
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	e.mu.Lock()
	e.got = append(e.got, string(body))
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a recorder takes it
}

func send(t *testing.T, p *Proxy, body string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hub.test/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(req)
	if err != nil {
		return "", err
	}
	out, err := io.ReadAll(resp.Body)
	return string(out), err
}

func TestARoundHasEachFaultOnceAndASeedTheSameRounds(t *testing.T) {
	for _, key := range []deck{{other, false}, {other, true}, {document, false}, {drain, false}, {pull, false}, {push, true}} {
		var draws [2][]Fault
		for i := range draws {
			d := dice{rand: rand.New(rand.NewPCG(7, 7)), decks: map[deck][]Fault{}}
			for range 1000 {
				f, _ := d.draw(key)
				draws[i] = append(draws[i], f)
			}
		}
		if !slices.Equal(draws[0], draws[1]) {
			t.Fatal("the same seed, and other faults")
		}
		harm := slices.DeleteFunc(draws[0], func(f Fault) bool { return f == "" })
		round := slices.Concat(anywhere, onlyIn[key.class])
		if key.body {
			round = append(round, withBody...)
		}
		if len(harm) < 250 || len(harm) > 450 {
			t.Errorf("%d of 1000 requests were harmed", len(harm))
		}
		for i := 0; i+len(round) <= len(harm); i += len(round) {
			got, want := slices.Sorted(slices.Values(harm[i:i+len(round)])), slices.Sorted(slices.Values(round))
			if !slices.Equal(got, want) {
				t.Fatalf("a round has %v", got)
			}
		}
	}
}

func TestACalmProxyHandsOnWhatItGets(t *testing.T) {
	var e echo
	p := New(1, Handler(&e), nil, time.Millisecond)
	defer p.Close()
	p.Calm()
	for range 300 {
		if out, err := send(t, p, `{"b":1,"a":2}`); err != nil || out != `{"b":1,"a":2}` {
			t.Fatalf("%q, %v", out, err)
		}
	}
	if faults, requests, _ := p.Counts(); len(faults) != 0 || requests != 300 || len(e.got) != 300 {
		t.Errorf("%v in %d requests", faults, requests)
	}
}

// What the sender sees and what the receiver gets, fault by fault.
func TestEachFaultDoesWhatItSays(t *testing.T) {
	const body = `{"title":"pause deploys","n":1.5}`
	for f, want := range map[Fault]struct {
		arrives int  // whole copies
		cut     bool // no whole answer
	}{
		CutBefore: {0, true}, CutAfter: {1, true}, TornRequest: {0, true}, TornAnswer: {1, true}, Duplicated: {2, false}, Late: {1, true}, Page: {0, false}, Delayed: {1, false},
	} {
		var e echo
		p := New(1, Handler(&e), nil, time.Millisecond)
		p.dice.decks[deck{other, true}] = slices.Repeat([]Fault{f}, 1000)
		var out string
		var err error
		for harms(p) == 0 {
			e.got = nil
			out, err = send(t, p, body)
		}
		p.behind.Wait()
		p.Close()
		if (err != nil) != want.cut || err == nil && f != Page && canonical(t, []byte(out)) != canonical(t, []byte(body)) {
			t.Errorf("%s: %q, %v", f, out, err)
		}
		if err != nil && !errors.Is(err, errCut) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", f, err)
		}
		if len(e.got) != want.arrives {
			t.Errorf("%s: %d copies arrived", f, len(e.got))
		}
	}
}

// harms counts the faults that are not spellings.
func harms(p *Proxy) (n int) {
	faults, _, _ := p.Counts()
	for f, times := range faults {
		if !slices.Contains(spellings, f) {
			n += times
		}
	}
	return n
}
