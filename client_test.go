package ma2h_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// req: SUB-01 SUB-02 SUB-03 PUL-01 ENV-01
func TestAnAskIsAnsweredAndAcknowledged(t *testing.T) {
	for _, version := range []string{types.V02, types.V03, types.V04} {
		bubble(t, ma2htest.Options{Version: version}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			ctx := t.Context()
			ack, err := c.Ask(ctx, shipOrHold("k"))
			mustNot(t, err)
			if ack.Status != types.StatusOpen || ack.Key != "k" || ack.ID == "" || ack.PollURL == "" || ack.ReviewURL == "" {
				t.Fatalf("%+v", ack)
			}
			go func() {
				time.Sleep(90 * time.Second)
				if err := hub.Answer(ack.ID, "ship", ma2htest.By(alice), ma2htest.Comment("go")); err != nil {
					t.Error(err)
				}
			}()
			r, err := c.Wait(ctx, ack.ID)
			mustNot(t, err)
			if !r.Answered("ship") || r.Answered("hold") || !r.By(alice) || r.By("human:bob") || r.By("human:*", "*", "alice", "human:", "", " "+alice) || r.By() || r.Defaulted() || !r.Pulled() || r.Comment() != "go" {
				t.Errorf("%v", r)
			}
			m, err := c.Message(ctx, ack.ID)
			mustNot(t, err)
			if m.Wire.Status != types.StatusAnswered || m.Response.ResolutionID() != r.ResolutionID() || m.Wire.Version == types.V04 {
				t.Errorf("%+v", m)
			}
			receipt, err := c.Acknowledge(ctx, ack.ID, "on it")
			if version != types.V04 {
				wants(t, err, ma2h.ErrUnsupported)
				hub.RequireRequests(t, ma2htest.Ack, 0)
				return
			}
			mustNot(t, err)
			if receipt.Note != "on it" || receipt.ResolutionID != r.ResolutionID() || receipt.By != "agent:"+asker {
				t.Errorf("%+v", receipt)
			}
			hub.RequireDelivery(t, ack.ID, types.Acknowledged)
		})
	}
}

// req: SUB-03 TSK-01 RES-03
func TestANotifyIsDeliveredAndATaskEnds(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ctx := t.Context()
		ack, err := c.Notify(ctx, ma2h.Notify{Title: "Digest", Body: "**all well**"})
		mustNot(t, err)
		if ack.Status != types.StatusDelivered || ack.Key != "" {
			t.Fatalf("%+v", ack)
		}
		if _, err := c.Wait(ctx, ack.ID); !errors.Is(err, ma2h.ErrNoAnswer) {
			t.Fatalf("a notify has no answer: %v", err)
		}
		for _, end := range []ma2h.Resolution{ma2h.Completed, ma2h.Dismissed} {
			ack, err := c.Task(ctx, rotate(string(end)))
			mustNot(t, err)
			act := hub.Complete
			if end == ma2h.Dismissed {
				act = hub.Dismiss
			}
			mustNot(t, act(ack.ID, ma2htest.By(alice)))
			r, err := c.Wait(ctx, ack.ID)
			mustNot(t, err)
			if r.Resolution() != end || r.Answered("") || r.Defaulted() || r.MessageID() != ack.ID {
				t.Errorf("%v, want %s", r, end)
			}
			if r.By(alice, "") || r.Actor() != "" || r.Comment() != "" || r.Edited() || r.Checklist() != nil || !r.ResolvedAt().IsZero() || r.State() != nil {
				t.Error("a task without detail says more than that")
			}
			if _, ok := r.Text(); ok || r.ResolutionID() == "" {
				t.Error("a task has a value, or no resolution id")
			}
		}
	})
}

// req: ENV-22 SUB-12 ENV-17 ENV-10 ENV-11 TEL-05
// report: B018
func TestWhatIsSentIsWhatTheCallerSaidAndNoMore(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		hub.Fault(ma2htest.LoseAck(2))
		a := shipOrHold("k")
		data, err := ma2h.Data(map[string]any{"b": time.Now(), "a": 1, "c": map[string]int{"z": 1, "y": 2}})
		mustNot(t, err)
		a.Context = []ma2h.Part{ma2h.Text("log"), data, ma2h.File("https://files.test/plan.txt", "plan", "text/plain")}
		a.State = types.Raw(`{"n":9007199254740993,"s":"A"}`)
		a.Tags = []string{"one"}
		id := mustAsk(t, c, a)
		var sent [][]byte
		for _, r := range hub.Requests() {
			if r.Endpoint == ma2htest.Submit {
				sent = append(sent, r.Body)
			}
		}
		if len(sent) != 3 || !bytes.Equal(sent[0], sent[1]) || !bytes.Equal(sent[0], sent[2]) {
			t.Fatalf("%d attempts, not all the same bytes", len(sent))
		}
		hub.RequireMessages(t, 1)
		text := string(sent[0])
		for _, absent := range []string{`"priority"`, `"id":"msg`, `"status"`, `"from"`, `"actor"`, `"sensitive"`, `"callback"`, `"expires_at"`, `"default_on_expire"`} {
			if strings.Contains(text, absent) {
				t.Errorf("%s was sent: %s", absent, text)
			}
		}
		if !strings.Contains(text, `"ma2h_version":"0.3"`) || !strings.Contains(text, `9007199254740993`) {
			t.Errorf("%s", text)
		}
		// The Hub never fetches a file, and neither does the agent.
		hub.RequireRequests(t, "", 4)
		if m, err := c.Message(t.Context(), id); err != nil || string(m.Wire.State) == "" {
			t.Errorf("%v", err)
		}
	})
}

// req: DISC-13 PRE-01 GO-07
func TestAnIdIsOneSegmentOfThePathWhateverItHolds(t *testing.T) {
	ids := map[string]string{
		"a/b": "a%2Fb", "a%2Fb": "a%252Fb", "🚀": "%F0%9F%9A%80", "a b?c#d": "a%20b%3Fc%23d", "..a": "..a", "...": "...", "a/../../b": "a%2F..%2F..%2Fb", "a\nb": "a%0Ab",
	}
	for _, prefix := range []string{"", "/hub", "/a%2Fb/", "/one//two"} {
		for id, want := range ids {
			var path string
			s := &stub{answer: func(r *http.Request) *http.Response {
				path = r.URL.EscapedPath()
				return canned(404, `{"error":{"code":"not_found","message":""}}`)
			}}
			c := connect(t, s.config(), func(cfg *ma2h.Config) { cfg.HubURL += prefix })
			base := strings.TrimRight(prefix, "/")
			_, err := c.Message(t.Context(), id)
			wants(t, err, ma2h.ErrNotFound)
			if path != base+"/v1/messages/"+want {
				t.Errorf("GET of %q went to %s", id, path)
			}
			wants(t, c.Cancel(t.Context(), id), ma2h.ErrNotFound)
			if path != base+"/v1/messages/"+want+"/cancel" {
				t.Errorf("cancel of %q went to %s", id, path)
			}
			_, err = c.Presence(t.Context(), id)
			wants(t, err, ma2h.ErrNotFound)
			if path != base+"/v1/agents/"+want+"/presence" {
				t.Errorf("presence of %q went to %s", id, path)
			}
		}
	}
}

func TestAnIdThatCannotBeASegmentIsRefusedAndNothingSent(t *testing.T) {
	s := always(200, `{}`)
	c := connect(t, s.config())
	ctx := t.Context()
	for _, id := range []string{"", ".", "..", strings.Repeat("x", 513)} {
		_, err := c.Message(ctx, id)
		wantsField(t, err, "id")
		_, err = c.Wait(ctx, id)
		wantsField(t, err, "id")
		_, err = c.Acknowledge(ctx, id, "")
		wantsField(t, err, "id")
		_, err = c.Presence(ctx, id)
		wantsField(t, err, "id")
		wantsField(t, c.Cancel(ctx, id), "id")
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	if _, err := c.Message(ctx, strings.Repeat("x", 512)); !errors.Is(err, ma2h.ErrProtocol) || s.calls.Load() != 1 {
		t.Errorf("an id of 512 bytes: %v", err)
	}
}

// req: PUL-06 PUL-07 CAN-01 ACK-01
func TestAMessageOfAnotherAgentIsNotFoundAndStaysAsItIs(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		id := mustAsk(t, c, shipOrHold("k"))
		other := connect(t, hub.Config("other/bot"))
		ctx := t.Context()
		for _, id := range []string{id, "msg_unknown"} {
			_, err := other.Message(ctx, id)
			wants(t, err, ma2h.ErrNotFound)
			_, err = other.Wait(ctx, id)
			wants(t, err, ma2h.ErrNotFound)
			wants(t, other.Cancel(ctx, id), ma2h.ErrNotFound)
			_, err = other.Acknowledge(ctx, id, "")
			wants(t, err, ma2h.ErrNotFound)
		}
		hub.RequireStatus(t, id, types.StatusOpen)
		if !hub.Forget(id) {
			t.Fatal("nothing to forget")
		}
		_, err := c.Message(ctx, id)
		wants(t, err, ma2h.ErrGone)
		_, err = c.Wait(ctx, id)
		wants(t, err, ma2h.ErrGone)
	})
}

// req: PUL-01 PUL-08 PUL-09 PUL-13 RES-11 RES-01 RES-02 RES-03 RES-04 RES-05 RES-06 VER-01
// report: B036
func TestAPulledMessageThatContradictsItselfIsNotActedOn(t *testing.T) {
	ok := map[string]string{
		"as it is":                   view(),
		"unknown members":            view(`"status"`, `"later":{"x":1},"status"`),
		"a later minor":              view(`"ma2h_version":"0.3","in_reply_to"`, `"ma2h_version":"0.9","in_reply_to"`),
		"a bare resolution id":       view(`res_1`, `f47ac10b`),
		"with a delivery track":      view(`"status"`, `"delivery":{"state":"delivered-to-agent","delivered_at":"2026-06-01T13:00:00Z"},"status"`),
		"a comment and edited":       view(`"actor"`, `"comment":"hm","edited":true,"actor"`),
		"the advisory agent differs": view(`"agent":{"id":"deploybot/dev-team","run_id":"run_1"},"resolution"`, `"agent":{"id":"evil","run_id":"x"},"resolution"`),
	}
	bad := map[string]string{
		"another id":                     view(`"id":"msg_1"`, `"id":"msg_2"`),
		"a reply to another":             view(`"in_reply_to":"msg_1"`, `"in_reply_to":"msg_2"`),
		"another resolution than status": view(`"status":"answered"`, `"status":"declined"`),
		"no response":                    strings.Replace(view(), `"response":{"ma2h`, `"later":{"ma2h`, 1),
		"a null response":                view()[:strings.Index(view(), `"response":{"ma2h`)] + `"response":null}`,
		"a status of a task":             view(`"answered"`, `"completed"`),
		"a status of an addressed one":   strings.Replace(view(), `"status":"answered"`, `"status":"delivered"`, 1),
		"open with a response":           view(`"status":"answered"`, `"status":"open"`),
		"no resolution id":               view(`"res_1"`, `""`),
		"no actor":                       view(`"actor":"human:alice",`, ``),
		"an actor without a kind":        view(`"actor":"human:alice"`, `"actor":"alice"`),
		"no resolved_at":                 view(`,"resolved_at":"2026-06-01T13:00:00Z"`, ``),
		"no value":                       view(`"value":"approve",`, ``),
		"a value that is a number":       view(`"value":"approve"`, `"value":1`),
		"a value twice":                  view(`"value":"approve"`, `"value":"approve","value":"deny"`),
		"defaulted by a human":           view(`"resolution":"answered"`, `"resolution":"answered","defaulted":true`),
		"another major":                  view(`"0.3"`, `"1.0"`),
		"a checklist on an ask":          view(`"actor"`, `"checklist":[{"text":"x","done":true}],"actor"`),
		"acknowledged without an ack":    view(`"status"`, `"delivery":{"state":"acknowledged","acknowledged_at":"2026-06-01T13:00:00Z"},"status"`),
		"an array":                       `[]`,
		"a number out of range":          view(`"status"`, `"later":1e400,"status"`),
	}
	for name, body := range ok {
		c := connect(t, always(200, body).config())
		if r, err := c.Wait(t.Context(), "msg_1"); err != nil || !r.Answered("approve") || !r.By(alice) {
			t.Errorf("%s: %v %v", name, r, err)
		}
	}
	for name, body := range bad {
		s := always(200, body)
		c := connect(t, s.config())
		m, err := c.Message(t.Context(), "msg_1")
		if m != nil || !errors.Is(err, ma2h.ErrProtocol) {
			t.Errorf("Message, %s: %v %v", name, m, err)
		}
		r, err := c.Wait(t.Context(), "msg_1")
		if r != nil || !errors.Is(err, ma2h.ErrProtocol) {
			t.Errorf("Wait, %s: %v %v", name, r, err)
		}
		if n := s.calls.Load(); n != 2 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// req: VER-07 VER-08 PUL-09
func TestAStatusOfALaterMinorIsNeitherAnEndNorASuccess(t *testing.T) {
	for _, status := range []string{"escalated", "queued", "Answered", "answered ", "bounced"} {
		synctest.Test(t, func(t *testing.T) {
			s := always(200, view(`"status":"answered"`, `"status":"`+status+`"`))
			c := connect(t, s.config())
			m, err := c.Message(t.Context(), "msg_1")
			if err != nil || m.Response != nil || m.Wire.Response != nil || string(m.Wire.Status) != status {
				t.Errorf("%q: %+v %v", status, m, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if r, err := c.Wait(ctx, "msg_1"); r != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q: %v %v", status, r, err)
			}
			// 3600 s at no less than 7.5 s each, after a start of growing gaps.
			if n := s.calls.Load(); n > 500 || n < 200 {
				t.Errorf("%q: %d polls in an hour", status, n)
			}
		})
	}
}

// req: ACK-01 ACK-02 ACK-03 ACK-04
func TestAnAcknowledgmentIsHeldToItsRules(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ctx := t.Context()
		id := mustAsk(t, c, shipOrHold("k"))
		_, err := c.Acknowledge(ctx, id, "")
		wants(t, err, ma2h.ErrNotAcknowledgeable)
		mustNot(t, hub.Answer(id, "ship"))
		_, err = c.Wait(ctx, id)
		mustNot(t, err)
		hub.Fault(ma2htest.LoseAck(1).On(ma2htest.Ack))
		first, err := c.Acknowledge(ctx, id, strings.Repeat("x", 4096))
		mustNot(t, err)
		second, err := c.Acknowledge(ctx, id, "other")
		mustNot(t, err)
		if *first != *second {
			t.Errorf("the first stands: %+v, %+v", first, second)
		}
		before := count(hub, ma2htest.Ack)
		_, err = c.Acknowledge(ctx, id, strings.Repeat("x", 4097))
		wantsField(t, err, "note")
		_, err = c.Acknowledge(ctx, id, "\xff")
		wants(t, err, ma2h.ErrMalformed)
		hub.RequireRequests(t, ma2htest.Ack, before)
	})
	receipt := `{"ma2h_version":"0.4","type":"ack","in_reply_to":"msg_1","by":"agent:x","acked_at":"2026-06-01T12:00:00Z"}`
	for name, body := range map[string]string{
		"of another message": strings.Replace(receipt, "msg_1", "msg_2", 1),
		"of another type":    strings.Replace(receipt, `"ack"`, `"nack"`, 1),
		"at 0.3":             strings.Replace(receipt, `0.4`, `0.3`, 1),
		"by nobody":          strings.Replace(receipt, `agent:x`, `x`, 1),
		"without a time":     strings.Replace(receipt, `2026-06-01T12:00:00Z`, ``, 1),
		"no JSON":            `ok`,
		"a note of a number": strings.Replace(receipt, "}", `,"note":1}`, 1),
		"a name twice":       strings.Replace(receipt, "}", `,"by":"agent:x"}`, 1),
	} {
		c := connect(t, always(200, body).config())
		if a, err := c.Acknowledge(t.Context(), "msg_1", ""); a != nil || !errors.Is(err, ma2h.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := connect(t, always(200, receipt).config())
	if _, err := c.Acknowledge(t.Context(), "msg_1", ""); err != nil {
		t.Error(err)
	}
}

// req: VER-05 PRE-01 PRE-02
func TestPresenceIsForTheOwnerAndItsOwnAgent(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		id := mustAsk(t, c, shipOrHold("k"))
		_, err := c.Wait(ctx, id)
		wants(t, err, context.DeadlineExceeded)
		owner := connect(t, hub.Config(asker), func(cfg *ma2h.Config) { cfg.Credential = ma2h.Bearer(hub.OwnerToken()) })
		p, err := owner.Presence(t.Context(), asker)
		mustNot(t, err)
		if p.State != types.Online || p.AgentID != asker {
			t.Errorf("%+v", p)
		}
		p, err = c.Presence(t.Context(), asker)
		mustNot(t, err)
		if p.State != types.Unknown {
			t.Errorf("an agent learns %+v", p)
		}
	})
	p := `{"agent_id":"a/b","state":"online","last_seen":"2026-06-01T12:00:00Z","freshness_seconds":90}`
	for name, tt := range map[string]struct {
		body string
		want error
	}{
		"as it is":               {p, nil},
		"another's":              {strings.Replace(p, "a/b", "a/c", 1), ma2h.ErrProtocol},
		"no such state":          {strings.Replace(p, `"online"`, `"ONLINE"`, 1), ma2h.ErrProtocol},
		"no JSON":                {`<html>`, ma2h.ErrProtocol},
		"a freshness of nothing": {strings.Replace(p, "90", "0", 1), ma2h.ErrProtocol},
	} {
		c := connect(t, always(200, tt.body).config())
		if got, err := c.Presence(t.Context(), "a/b"); !errors.Is(err, tt.want) || (err == nil) != (got != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
