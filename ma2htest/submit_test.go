package ma2htest

import (
	"testing"

	"github.com/ma2h/ma2h-go/types"
)

func TestAnAskIsAnsweredAndPulled(t *testing.T) {
	for name, via := range map[string]func(testing.TB, *Hub) *wire{"memory": memory, "tls": overTLS} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(t)
			w := via(t, hub)
			id := w.submit(ask("k1"))
			if v := w.do("GET", "/v1/messages/"+id, "").view(t); v.Status != types.StatusOpen || v.Response != nil {
				t.Fatalf("before the answer: %v", v.Status)
			}
			if err := hub.Answer(id, "ship", Comment("go")); err != nil {
				t.Fatal(err)
			}
			v := w.do("GET", "/v1/messages/"+id, "").view(t)
			d := v.Response.Response
			if v.Status != types.StatusAnswered || string(d.Value) != `"ship"` || d.Actor != alice || d.Comment != "go" {
				t.Fatalf("got %s %s %s", v.Status, d.Value, d.Actor)
			}
			hub.RequireMessages(t, 1)
			hub.RequireRequests(t, Pull, 2)
		})
	}
}
