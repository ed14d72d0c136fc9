package ma2htest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: FH-07
func TestAPushIsThePulledResponseAndA2xxMarksItDelivered(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, nil)
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(0)
	got := r.arrivals()
	if len(got) != 1 {
		t.Fatalf("%d pushes", len(got))
	}
	snapshot, _ := hub.Message(id)
	if !bytes.Equal(got[0].body, snapshot.Resolved.Body) {
		t.Fatalf("pushed %s, resolved %s", got[0].body, snapshot.Resolved.Body)
	}
	if ct := got[0].header.Get("Content-Type"); ct != "application/json" {
		t.Fatalf("Content-Type %q", ct)
	}
	hub.RequireDelivery(t, id, types.DeliveredToAgent)
	p := hub.Pushes(id)[0]
	if p.Status != 204 || p.Err != nil || p.Attempt != 1 || !p.At.Equal(start) || !p.Ended.Equal(start) || !bytes.Equal(p.Body, got[0].body) ||
		p.Header.Get(signatureHeader) != got[0].header.Get(signatureHeader) {
		t.Fatalf("recorded %+v", p)
	}
}

// req: FH-07
func TestAFailedPushLeavesTheReceiptTrackAloneAndTheAnswerPullable(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	serve(t, hub, first(503))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(24 * time.Hour)
	hub.RequirePushes(t, id, 8)
	hub.RequireDelivery(t, id, "")
	if v := memory(t, hub).do("GET", "/v1/messages/"+id, "").view(t); v.Response == nil {
		t.Fatal("not pullable after the last try")
	}
	hub.RequireDelivery(t, id, types.DeliveredToAgent)
}

// req: FH-07
func TestWhatIsTriedAgainAndWhatIsFinal(t *testing.T) {
	for _, tc := range []struct {
		name     string
		statuses []int
		attempts int
	}{
		{"503 twice then 200", []int{503, 503, 200}, 3},
		{"500 then 202", []int{500, 202}, 2},
		{"599 without end", []int{599}, 8},
		{"200 at once", []int{200}, 1},
		{"299 at once", []int{299}, 1},
		{"400 is final", []int{400, 200}, 1},
		{"401 is final", []int{401, 200}, 1},
		{"429 is final", []int{429, 200}, 1},
		{"499 is final", []int{499, 200}, 1},
		{"503 then 400", []int{503, 400, 200}, 2},
		{"a redirect is final", []int{302, 200}, 1},
		{"304 is final", []int{304, 200}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			r := serve(t, hub, first(tc.statuses...))
			elsewhere := &receiver{hub: hub}
			hub.ServeCallback(callbackURL+"/elsewhere", elsewhere)
			id := answered(t, hub, pushAsk("k", nil))
			hub.Advance(24 * time.Hour)
			if len(r.arrivals()) != tc.attempts || len(elsewhere.arrivals()) != 0 {
				t.Fatalf("%d attempts, want %d; %d went elsewhere", len(r.arrivals()), tc.attempts, len(elsewhere.arrivals()))
			}
			hub.RequirePushes(t, id, tc.attempts)
			last := tc.statuses[len(tc.statuses)-1]
			want := types.DeliveryState("")
			if tc.attempts == len(tc.statuses) && last/100 == 2 {
				want = types.DeliveredToAgent
			}
			hub.RequireDelivery(t, id, want)
		})
	}
}

// req: FH-07
func TestTheGapsGrowOnTheHubsClock(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts Options
		want []time.Duration // of attempts, since the answer
	}{
		{"by default", Options{}, []time.Duration{0, 1, 3, 7, 15, 31, 63, 127}},
		{"five attempts", Options{PushAttempts: 5}, []time.Duration{0, 1, 3, 7, 15}},
		{"a minute at most", Options{PushAttempts: 30, PushFor: time.Minute}, []time.Duration{0, 1, 3, 7, 15, 31}},
		{"63 seconds at most", Options{PushAttempts: 30, PushFor: 63 * time.Second}, []time.Duration{0, 1, 3, 7, 15, 31, 63}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.Start = start
			hub := NewHub(t, tc.opts)
			r := serve(t, hub, first(500))
			id := answered(t, hub, pushAsk("k", nil))
			hub.Advance(24 * time.Hour)
			got := r.arrivals()
			if len(got) != len(tc.want) {
				t.Fatalf("%d attempts, want %d", len(got), len(tc.want))
			}
			nonces := make(map[string]bool)
			for i, p := range hub.Pushes(id) {
				at := start.Add(tc.want[i] * time.Second)
				if !p.At.Equal(at) || !got[i].at.Equal(at) || p.Attempt != i+1 {
					t.Fatalf("attempt %d at %s, seen %s, want %s", p.Attempt, p.At, got[i].at, at)
				}
				head := got[i].header.Get(signatureHeader)
				if nonces[head] || !strings.HasPrefix(head, fmt.Sprintf("t=%d,", at.Unix())) {
					t.Fatalf("attempt %d is not signed anew: %s", i+1, head)
				}
				nonces[head] = true
			}
		})
	}
}

// req: FH-07
func TestABrokenNetworkIsTriedAgain(t *testing.T) {
	for name, fault := range map[string]Fault{
		"nothing arrives":        ResetBefore(2).On(PushCallback),
		"the answer is lost":     ResetAfter(2).On(PushCallback),
		"only a 2xx is lost":     LoseAck(2).On(PushCallback),
		"no answer in time":      Hang(2).On(PushCallback),
		"a gateway answers":      Status(503, 2).On(PushCallback),
		"the handler breaks off": {},
	} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t, Options{Start: start})
			r := serve(t, hub, nil)
			arrives := map[string]int{"the answer is lost": 3, "only a 2xx is lost": 3}[name]
			if fault.name == "" {
				r.answer = func(n int) int {
					if n < 3 {
						panic(http.ErrAbortHandler)
					}
					return 200
				}
				arrives = 3
			} else {
				hub.Fault(fault)
			}
			id := answered(t, hub, pushAsk("k", nil))
			hub.Advance(time.Hour)
			pushes := hub.Pushes(id)
			if len(pushes) != 3 || len(r.arrivals()) != max(arrives, 1) {
				t.Fatalf("%d attempts, %d arrived", len(pushes), len(r.arrivals()))
			}
			for _, p := range pushes[:2] {
				switch name {
				case "a gateway answers":
					if p.Status != 503 || p.Err != nil {
						t.Fatalf("%+v", p)
					}
				case "no answer in time":
					if !errors.Is(p.Err, ErrPushTimeout) || p.Ended.Sub(p.At) != pushTimeout {
						t.Fatalf("%+v", p)
					}
				default:
					if !errors.Is(p.Err, ErrPushNetwork) || p.Status != 0 {
						t.Fatalf("%+v", p)
					}
				}
			}
			if fault.name != "" && (pushes[0].Fault != fault.name || pushes[2].Fault != "") {
				t.Fatalf("faults %q and %q", pushes[0].Fault, pushes[2].Fault)
			}
			hub.RequireDelivery(t, id, types.DeliveredToAgent)
		})
	}
}

func TestALostAckStrikesOnlyASuccess(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	serve(t, hub, first(503, 200, 200))
	hub.Fault(LoseAck(1).On(PushCallback))
	id := answered(t, hub, pushAsk("k", nil))
	hub.Advance(time.Hour)
	p := hub.Pushes(id)
	if len(p) != 3 || p[0].Status != 503 || !errors.Is(p[1].Err, ErrPushNetwork) || p[2].Status != 200 {
		t.Fatalf("%+v", p)
	}
}

// req: FH-07
func TestWhoDidNotAskForAPushGetsNone(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := serve(t, hub, nil)
	w := memory(t, hub)
	w.submit(notify("n"))
	plain := answered(t, hub, ask("plain"))
	pull := answered(t, hub, pushAsk("pull", fields{"mode": "pull"}))
	hub.Advance(time.Hour)
	if len(r.arrivals()) != 0 {
		t.Fatal("pushed")
	}
	hub.RequirePushes(t, plain, 0)
	hub.RequirePushes(t, pull, 0)
}

// req: FH-07 FH-10 CAN-05 AMB-04
func TestEveryEndIsPushedAtTheVersionOfTheSubmit(t *testing.T) {
	for name, row := range map[string]struct {
		end        func(*Hub, string) error
		resolution types.Resolution
		actor      string
	}{
		"answered": {func(h *Hub, id string) error { return h.Answer(id, "ship", By(alice)) }, types.Answered, alice},
		"declined": {func(h *Hub, id string) error { return h.Decline(id, By(alice)) }, types.Declined, alice},
		"withdrew": {func(h *Hub, id string) error { return h.Withdraw(id) }, types.Cancelled, ActorHub},
		"expired":  {func(h *Hub, id string) error { h.Advance(2 * time.Hour); return nil }, types.Expired, "system:expired"},
		"cancelled": {func(h *Hub, id string) error {
			_, err := memory(t, h).try(t.Context(), "POST", "/v1/messages/"+id+"/cancel", "")
			return err
		}, types.Cancelled, "agent:" + bot},
	} {
		for _, version := range []string{"0.3", "0.4"} {
			t.Run(name+" "+version, func(t *testing.T) {
				hub := NewHub(t, Options{Start: start})
				r := serve(t, hub, nil)
				id := memory(t, hub).submit(pushAsk("k", nil, fields{"ma2h_version": version, "expires_at": in(time.Hour)}))
				if err := row.end(hub, id); err != nil {
					t.Fatal(err)
				}
				hub.Advance(0)
				got := r.arrivals()
				if len(got) != 1 {
					t.Fatalf("%d pushes", len(got))
				}
				var resp types.Response
				if err := types.Decode(got[0].body, &resp); err != nil || resp.Version != version || resp.InReplyTo != id {
					t.Fatalf("%v in %s", err, got[0].body)
				}
				if resp.Resolution != row.resolution || resp.Response == nil || resp.Response.Actor != row.actor {
					t.Fatalf("ended as %s", got[0].body)
				}
				hub.Advance(24 * time.Hour)
				hub.RequirePushes(t, id, 1)
			})
		}
	}
}

// req: FH-10
func TestAHubOf02PushesAt02(t *testing.T) {
	hub := NewHub(t, Options{Start: start, Version: types.V02, Capability: func(c *types.Capability) {
		c.Ack = &types.AckOffer{Enabled: true} // which 0.2 knows nothing of
	}})
	r := serve(t, hub, nil)
	id := answered(t, hub, pushAsk("k", nil, fields{"ma2h_version": "0.2"}))
	hub.Advance(0)
	head, _ := splitSignature(t, r.arrivals()[0].header)
	text, err := responseContext(r.arrivals()[0].body, callbackURL)(head)
	if err != nil || bytes.Contains(text, []byte("payload_sha256")) || !bytes.Contains(text, []byte(`"ma2h_version":"0.2"`)) {
		t.Fatalf("%v: %s", err, text)
	}
	hub.RequireDelivery(t, id, "") // 0.2 has no receipt track
}

func splitSignature(t *testing.T, h http.Header) (nonce, string) {
	t.Helper()
	m := headerItems.FindStringSubmatch(h.Get(signatureHeader))
	if m == nil {
		t.Fatalf("header %q", h.Get(signatureHeader))
	}
	return nonce{m[1], m[2]}, h.Get(signatureHeader)
}

func TestOptionsOfPushesHaveBounds(t *testing.T) {
	for _, tc := range []struct {
		opts Options
		ok   bool
	}{
		{Options{PushAttempts: 4}, false}, {Options{PushAttempts: 5}, true},
		{Options{PushAttempts: 30}, true}, {Options{PushAttempts: 31}, false},
		{Options{PushAttempts: -1}, false}, {Options{PushFor: -1}, false}, {Options{PushFor: 1}, true},
	} {
		hub, err := New(tc.opts)
		if (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc.opts, err)
		}
		if hub != nil {
			hub.Close()
		}
	}
}

// req: CB-06
func TestACallbackIsHTTPSWithoutUserOrFragment(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://bot.example/cb":         true,
		"https://bot.example:8443/cb?x=": true,
		"http://bot.example/cb":          false,
		"http://127.0.0.1/cb":            false,
		"ftp://bot.example/cb":           false,
		"https://user@bot.example/cb":    false,
		"https://u:p@bot.example/cb":     false,
		"https://bot.example/cb#part":    false,
		"https:///cb":                    false,
		"mailto:alice@bot.example":       false,
	} {
		hub := NewHub(t)
		g := memory(t, hub).do("POST", "/v1/messages", pushAsk("k", fields{"url": url}))
		if ok != (g.status == http.StatusAccepted) {
			t.Errorf("%s: %d %s", url, g.status, g.body)
		}
		if !ok {
			hub.RequireMessages(t, 0)
		}
	}
	hub := NewHub(t, Options{AllowLoopbackCallbacks: true})
	memory(t, hub).submit(pushAsk("k", fields{"url": "http://127.0.0.1:1/cb"}))
}

// req: SGA-01
func TestAnAckIsPushedSignedToTheHumansClient(t *testing.T) {
	hub := NewHub(t, Options{Start: start})
	r := &receiver{hub: hub, answer: first(503, 200)}
	hub.ServeCallback("https://phone.example/acks", r)
	id := answered(t, hub, ask("k"))
	if err := hub.PushAck("https://phone.example/acks", id); !errors.Is(err, ErrInvalid) {
		t.Fatalf("an ack that is not there: %v", err)
	}
	memory(t, hub).do("POST", "/v1/messages/"+id+"/ack", `{"note":"on it"}`)
	if err := hub.PushAck("http://phone.example/acks", id); !errors.Is(err, ErrInvalid) {
		t.Fatalf("plain http: %v", err)
	}
	if err := hub.PushAck("https://phone.example/acks", "msg_none"); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	hub.Fault(SignAsVersion02(1))
	if err := hub.PushAck("https://phone.example/acks", id); err != nil {
		t.Fatal(err)
	}
	hub.Advance(0)
	hub.Heal()
	hub.Fault(NullResolvedAtAsClock(1))
	hub.Advance(time.Minute)
	got, pushes := r.arrivals(), hub.AckPushes(id)
	if len(got) != 2 || len(pushes) != 2 || pushes[0].Fault+pushes[1].Fault != "" {
		t.Fatalf("%d arrivals, %+v", len(got), pushes)
	}
	hub.RequirePushes(t, id, 0)
	n, head := splitSignature(t, got[1].header)
	text, err := ackContext(got[1].body)(n)
	if err != nil {
		t.Fatal(err)
	}
	if want := renderSignature(n, hub.Keys()[0].sign(text)); head != want {
		t.Fatalf("%s, want %s", head, want)
	}
	hub.RequireDelivery(t, id, types.Acknowledged)
}
