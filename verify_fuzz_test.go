package ma2h_test

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/internal/seeds"
)

// genuine are deliveries whose every edit must fail or change nothing that the
// caller sees.
type genuineDelivery struct {
	kind, head, body string
	want             map[string]any
}

func genuine(t testing.TB) []genuineDelivery {
	t.Helper()
	out := []genuineDelivery{
		{kind: "response", body: trustBody},
		{kind: "response", body: `{"ma2h_version":"0.4","in_reply_to":"m1","resolution_id":"r1","agent":{"id":"a","run_id":"b"},"resolution":"answered","response":{"value":{"n":9007199254740992,"k":[1e21,-0.5,"s"]},"actor":"human:bob","resolved_at":"2026-06-04T15:48:30Z"}}`},
		{kind: "response", body: `{"ma2h_version":"0.3","in_reply_to":"m2","resolution_id":"r2","agent":{"id":"a","run_id":"b"},"resolution":"expired","response":{"value":"hold","actor":"system:default_on_expire","resolved_at":"2026-06-04T15:48:30Z"},"defaulted":true}`},
		{kind: "response", body: `{"ma2h_version":"0.3","in_reply_to":"m3","resolution_id":"r3","agent":{"id":"a","run_id":"b"},"resolution":"completed","state":{"plan":["ö","😀"]}}`},
		{kind: "directive", body: trustDirective},
	}
	for i := range out {
		g := &out[i]
		g.head = hubSigner{}.value(t, g.kind, g.body, trustUnix, "jti_fuzz")
		var err error
		if g.want, err = g.see(trustVerifier(t, openReplay{}), []byte(g.body), g.head); err != nil {
			t.Fatalf("%s: %v", g.body, err)
		}
	}
	return out
}

func (g *genuineDelivery) see(v *Verifier, body []byte, head string) (map[string]any, error) {
	h := http.Header{"Ma2h-Signature": {head}}
	ctx, cancel := testContext()
	defer cancel()
	if g.kind == "directive" {
		d, err := v.Directive(ctx, h, body)
		if err != nil {
			return nil, err
		}
		return seenDirective(d), nil
	}
	r, err := v.Response(ctx, h, body)
	if err != nil {
		return nil, err
	}
	return seen(r), nil
}

// holds fails the test if an edit verifies and changes what the caller sees.
// It reports whether the edit verifies.
func (g *genuineDelivery) holds(t testing.TB, v *Verifier, body []byte, head string) bool {
	t.Helper()
	got, err := g.see(v, body, head)
	if err != nil {
		return false
	}
	if !reflect.DeepEqual(got, g.want) {
		t.Errorf("an edit verifies and reads otherwise:\n%s\n%s\n%v\nwant\n%v", head, body, got, g.want)
	}
	return true
}

// req: SGR-03 SGD-01
func TestEveryOtherByteInADeliveryFailsOrChangesNothing(t *testing.T) {
	v := trustVerifier(t, openReplay{})
	for _, g := range genuine(t) {
		passed, failed := 0, 0
		try := func(body []byte, head string) {
			if g.holds(t, v, body, head) {
				passed++
			} else {
				failed++
			}
		}
		edits := func(old byte) []byte {
			return []byte{old ^ 1, old ^ 0x20, old ^ 0x80, 0, ' ', '"', '\\', '}', ',', '0', 'A'}
		}
		for i := range g.body {
			for _, b := range edits(g.body[i]) {
				if b != g.body[i] {
					body := []byte(g.body)
					body[i] = b
					try(body, g.head)
				}
			}
			try(append([]byte(g.body[:i]), g.body[i+1:]...), g.head)                      // left out
			try([]byte(g.body[:i]+g.body[i:i+1]+g.body[i:]), g.head)                      // doubled
			try([]byte(g.body[:i]), g.head)                                               // cut short
			try([]byte(g.body[:i]+" "+g.body[i:]), g.head)                                // a blank
			try([]byte(g.body[:i]+fmt.Sprintf(`\u%04x`, g.body[i])+g.body[i+1:]), g.head) // escaped
		}
		for i := range g.head {
			for _, b := range append(edits(g.head[i]), '=', 't', 'v', '1', '-', '_', '\t', '\r', '\n') {
				if b != g.head[i] {
					head := []byte(g.head)
					head[i] = b
					try([]byte(g.body), string(head))
				}
			}
			try([]byte(g.body), g.head[:i]+g.head[i+1:])
			try([]byte(g.body), g.head[:i])
			try([]byte(g.body), g.head[:i]+" "+g.head[i:])
		}
		// Both outcomes are met: blanks between tokens pass, all else fails.
		if passed < 20 || failed < 10*len(g.body) {
			t.Errorf("%d edits passed and %d failed", passed, failed)
		}
	}
}

// For a genuine delivery, any edit of body or header either fails or leaves
// everything that the accessors return, but for Advisory, as it was.
//
// req: SGR-03 SGD-01 INB-07
// report: B034 B036 B037
func FuzzAnEditOfAGenuineDeliveryFailsOrChangesNothing(f *testing.F) {
	all := genuine(f)
	corpus := seeds.For(f)
	add := func(i int, body, head string) {
		if body == "" && head == "" {
			f.Fatal("an empty seed")
		}
		corpus.Add(i, []byte(body), head)
	}
	for i, g := range all {
		add(i, g.body, g.head)
		add(i, g.body+"\n", " "+g.head+"\t")
		add(i, g.body, "MA2H-Signature: "+g.head+",v1="+strings.Repeat("A", 43)+",v9=x")
		add(i, strings.ReplaceAll(g.body, ",", " ,\t"), g.head)
		add(i, strings.Replace(g.body, `"value":"hold"`, `"VALUE":"ship","value":"hold"`, 1), g.head)
		add(i, strings.Replace(g.body, `"value":"hold"`, `"value":"ship","value":"hold"`, 1), g.head)
		add(i, strings.Replace(g.body, "9007199254740992", "9007199254740993", 1), g.head)
		add(i, strings.Replace(g.body, `"hold"`, `"\u0068old"`, 1), g.head)
		add(i, strings.Replace(g.body, `"run_id":`, `"x":1,"run_id":`, 1), g.head)
		add(i, strings.Replace(g.body, `"defaulted":true`, `"defaulted":false`, 1), g.head)
		add(i, strings.Replace(g.body, `"sensitive":false`, `"sensitive":true`, 1), g.head)
		for j, other := range all {
			if i != j {
				add(i, other.body, g.head)
			}
		}
	}
	corpus.Counted(len(all) * (11 + len(all) - 1))
	v := trustVerifier(f, openReplay{})
	f.Fuzz(func(t *testing.T, i int, body []byte, head string) {
		if i < 0 || i >= len(all) {
			return
		}
		g := all[i]
		// What verifies is one of the genuine ones, edited.
		for _, other := range all {
			if got, err := other.see(v, body, head); err == nil && other.kind == g.kind {
				found := false
				for _, w := range all {
					found = found || reflect.DeepEqual(got, w.want)
				}
				if !found {
					t.Errorf("something else verifies:\n%s\n%s\n%v", head, body, got)
				}
			}
		}
	})
}

// Forged requests are cheap and leave nothing behind.
//
// req: RPL-02
// report: B069
func TestForgedDeliveriesLeaveTheStoreEmptyAndTheHeapFlat(t *testing.T) {
	n := 1_000_000
	if testing.Short() || raceEnabled {
		n = 20_000
	}
	store, err := NewMemoryStore(MemoryConfig{Now: newTrustClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	spied := &spyStore{Store: store}
	acted := 0
	h, err := NewCallbackHandler(CallbackConfig{
		Verifier: trustVerifier(t, spied), Ledger: spied, SingleReplica: true,
		Handle:          func(_ ctxT, _ *Response) error { acted++; return nil },
		HandleDirective: func(_ ctxT, _ *Directive) error { acted++; return nil },
		Authorize:       AllowFrom("human:alice"),
	})
	if err != nil {
		t.Fatal(err)
	}
	forger := hubSigner{secret: "what the forger thinks of"}
	kinds := []struct {
		head http.Header
		body []byte
	}{
		{forger.header(t, "response", trustBody, trustUnix, "jti"), []byte(trustBody)},
		{forger.header(t, "directive", trustDirective, trustUnix, "jti"), []byte(trustDirective)},
		{hubSigner{}.header(t, "response", trustBody, trustUnix-121, "jti"), []byte(trustBody)},
		{http.Header{"Ma2h-Signature": {"t=1,jti=x"}}, []byte(trustBody)},
		{hubSigner{}.header(t, "response", trustBody, trustUnix, "jti"), []byte(`{"ma2h_version":`)},
	}
	// Every forged jti is new: nothing may remember it.
	next := func(i int) (http.Header, []byte) {
		k := kinds[i%len(kinds)]
		value := strings.Replace(k.head.Get("MA2H-Signature"), "jti=jti", fmt.Sprintf("jti=jti_%d", i), 1)
		return http.Header{"Ma2h-Signature": {value}}, k.body
	}
	run := func(from, to int) {
		for i := from; i < to; i++ {
			head, body := next(i)
			if out := h.Process(t.Context(), head, body); out.Status != 401 && out.Status != 400 {
				t.Fatalf("a forged delivery got %v", out)
			}
		}
	}
	run(0, n/10)
	before := heapInUse()
	run(n/10, n)
	if grown := int64(heapInUse()) - int64(before); grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	jtis, acts := store.Live()
	if d := spied.diary(); d != nil || jtis != 0 || acts != 0 || acted != 0 {
		t.Errorf("store calls %v, %d deliveries, %d acts, %d acted", d, jtis, acts, acted)
	}
	good := hubSigner{}.header(t, "response", trustBody, trustUnix, "jti_0")
	if out := h.Process(t.Context(), good, []byte(trustBody)); out.Status != 200 || acted != 1 {
		t.Errorf("the genuine one among them got %v", out)
	}
}

func FuzzAnyBytesAreRefusedWithOneOfTheSentinels(f *testing.F) {
	corpus := seeds.For(f)
	now, mac := fmt.Sprint(trustUnix), strings.Repeat("A", 43)
	for i, head := range []string{
		"t=" + now + ",jti=j,v1=" + mac, "t=" + now + ",jti=j,v1=" + mac + ",v1=" + mac + "=", "MA2H-Signature: t=" + now + ",jti=j,v1=" + mac, "t=" + now + "9,jti=j,v1=" + mac,
		"t=0,jti=,v1=", "t=" + now + ",jti=j", "v1=" + mac, "t=" + now + ",t=" + now + ",jti=j,v1=" + mac, "", "\x00",
	} {
		corpus.Add([]byte([]string{trustBody, trustDirective, trustAck, strings.Replace(trustBody, "0.3", "0.2", 1), `{"ma2h_version":"0.9"}`, "\xff", `{`, ``}[i%8]), head)
	}
	corpus.Counted(10)
	v := trustVerifier(f, openReplay{}, func(c *VerifierConfig) {
		c.AllowUnboundPayload = true
		c.Now = func() time.Time { return time.Unix(trustUnix, 0) }
	})
	f.Fuzz(func(t *testing.T, body []byte, head string) {
		before := bytes.Clone(body)
		for _, kind := range []string{"response", "directive", "ack"} {
			if err := present(t, v, kind, head, body); err == nil {
				t.Errorf("%q verifies under %q", body, head)
			} else {
				n := 0
				for _, s := range trustSentinels {
					if isErr(err, s) {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%v is %d of the sentinels", err, n)
				}
			}
		}
		if !bytes.Equal(before, body) {
			t.Error("the body was changed")
		}
	})
}
