package ma2htest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

func cut(s string) (string, string, bool) { return strings.Cut(s, " ") }

func (g got) cancelled(t testing.TB) types.CancelResult {
	t.Helper()
	var c types.CancelResult
	if err := types.Decode(g.body, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// req: CAN-01 CAN-02 CAN-05
func TestACancelEndsAnOpenAskAndRepeats(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1", fields{"state": fields{"a": 1}}))
	var first string
	for range 2 {
		g := w.do("POST", "/v1/messages/"+id+"/cancel", "")
		if c := g.cancelled(t); g.status != http.StatusOK || c.ID != id || c.Status != types.StatusCancelled {
			t.Fatalf("%d %s", g.status, g.body)
		}
		v := w.do("GET", "/v1/messages/"+id, "").view(t)
		r := v.Response
		if r.Resolution != types.Cancelled || r.Response.Actor != "agent:"+bot || r.Response.Value != nil || string(r.State) != `{"a":1}` {
			t.Fatalf("%+v", r)
		}
		if first == "" {
			first = r.ResolutionID
		}
		if r.ResolutionID != first {
			t.Fatal("the repeat made another resolution")
		}
	}
}

// req: CAN-03
func TestACancelThatLostTellsTheRealOutcome(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	if err := hub.Answer(id, "hold"); err != nil {
		t.Fatal(err)
	}
	g := w.do("POST", "/v1/messages/"+id+"/cancel", "")
	g.wantError(t, http.StatusConflict, types.CodeAlreadyTerminal)
	if c := g.cancelled(t); c.ID != id || c.Status != types.StatusAnswered || c.Resolution != types.Answered {
		t.Fatalf("%+v", c)
	}
	hub.RequireStatus(t, id, types.StatusAnswered)
}

// req: TSK-02 CAN-01 AMB-22
func TestATaskAndANotifyAreNotCancellable(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id, note := w.submit(task("k1")), w.submit(notify(""))
	w.do("POST", "/v1/messages/"+id+"/cancel", "").wantError(t, http.StatusBadRequest, types.CodeValidation)
	w.do("POST", "/v1/messages/"+note+"/cancel", "").wantError(t, http.StatusBadRequest, types.CodeValidation)
	hub.RequireStatus(t, id, types.StatusOpen)
	if err := hub.Withdraw(id); !isError(err, ErrInvalid) {
		t.Fatal(err)
	}
}

// req: CAN-04 FH-03 AMB-23
func TestACancelAtExpiresAtWinsAndOneMillisecondLaterLoses(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		want  types.Status
	}{{0, types.StatusCancelled}, {time.Millisecond, types.StatusExpired}, {time.Nanosecond, types.StatusExpired}} {
		hub := NewHub(t, Options{Start: start})
		w := memory(t, hub)
		id := w.submit(ask("k1", fields{"expires_at": in(time.Hour)}))
		hub.Advance(time.Hour + tt.after)
		g := w.do("POST", "/v1/messages/"+id+"/cancel", "")
		if tt.want == types.StatusExpired {
			g.wantError(t, http.StatusConflict, types.CodeAlreadyTerminal)
		}
		if c := g.cancelled(t); c.Status != tt.want {
			t.Errorf("%v after: %s", tt.after, c.Status)
		}
		hub.RequireStatus(t, id, tt.want)
	}
}

func TestTheHubMayWithdrawAnAsk(t *testing.T) {
	hub := NewHub(t)
	w := memory(t, hub)
	id := w.submit(ask("k1"))
	if err := hub.Withdraw(id); err != nil {
		t.Fatal(err)
	}
	if v := w.do("GET", "/v1/messages/"+id, "").view(t); v.Response.Response.Actor != ActorHub {
		t.Fatal(v.Response.Response.Actor)
	}
	if err := hub.Withdraw(id); !isError(err, ErrTerminal) {
		t.Fatal(err)
	}
	if err := hub.Withdraw("msg_unknown"); !isError(err, ErrNotFound) {
		t.Fatal(err)
	}
}
