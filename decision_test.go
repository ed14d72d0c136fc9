package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// req: RES-07 RES-08 RES-05 ASK-06
func TestOnlyAListedHumanWhoSaysYesApproves(t *testing.T) {
	values := map[string]string{"yes": `"approve"`, "no": `"deny"`, "upper case": `"Approve"`, "empty": `""`, "blank after": `"approve "`, "object": `{"value":"approve"}`, "absent": ""}
	actors := []string{alice, "human:bob", "human:Alice", "agent:" + asker, "agent:alice", "system:default_on_expire", "system:expired", "system:hub"}
	yes, rows := 0, 0
	for _, resolution := range []string{"answered", "declined", "cancelled", "expired", "escalated"} {
		for name, value := range values {
			for _, actor := range actors {
				for _, flag := range []string{"", `"defaulted":true,`} {
					for _, bySilence := range []bool{false, true} {
						rows++
						body := view(`"answered"`, `"`+resolution+`"`, `"human:alice","resolved`, `"`+actor+`","resolved`, `"resolution":`, flag+`"resolution":`)
						if value == "" {
							body = strings.Replace(body, `"value":"approve",`, "", 1)
						} else {
							body = strings.Replace(body, `"value":"approve"`, `"value":`+value, 1)
						}
						c := connect(t, always(200, body).config())
						a := ma2h.Approval{Title: "Ship?", By: []string{alice}, DefaultApprovesOnExpiry: bySilence}
						if bySilence {
							a.ExpiresAt = time.Now().Add(time.Hour)
						}
						ctx, cancel := context.WithCancel(t.Context())
						if resolution == "escalated" {
							cancel() // it never ends
						}
						v, err := c.AwaitApproval(ctx, "msg_1", a)
						cancel()
						want := resolution == "answered" && name == "yes" && actor == alice && flag == "" ||
							resolution == "expired" && name == "yes" && actor == "system:default_on_expire" && bySilence
						if v.Approved() != want || want && err != nil {
							t.Errorf("%s, value %s, by %s, %q, silence is yes %v: %v %v", resolution, name, actor, flag, bySilence, v, err)
						}
						if v.Approved() {
							yes++
						}
						if err != nil && v != (ma2h.Verdict{MessageID: "msg_1"}) {
							t.Errorf("an error came with %+v", v)
						}
					}
				}
			}
		}
	}
	// Once for each value of DefaultApprovesOnExpiry; the default with and
	// without the advisory flag.
	if yes != 2+2 {
		t.Errorf("%d of %d rows approve", yes, rows)
	}
}

func TestNothingIsNo(t *testing.T) {
	if (ma2h.Verdict{}).Approved() || new(ma2h.Verdict).Approved() {
		t.Error("a zero Verdict approves")
	}
	a := ma2h.Approval{Title: "x", By: []string{alice}, DefaultApprovesOnExpiry: true}
	for _, r := range []*ma2h.Response{nil, {}} {
		if a.Judge(r).Approved() {
			t.Error("nothing approves")
		}
		if r.Answered("") || r.Answered("approve") || r.By() || r.By("") || r.Defaulted() || r.Pulled() || r.PayloadBound() || r.Edited() {
			t.Error("nothing says yes to something")
		}
		if r.MessageID() != "" || r.ResolutionID() != "" || r.Resolution() != "" || r.Actor() != "" || r.Comment() != "" || r.Version() != "" ||
			r.State() != nil || r.Checklist() != nil || !r.ResolvedAt().IsZero() || r.Advisory() != (ma2h.Advisory{}) {
			t.Error("nothing holds something")
		}
		if _, ok := r.Text(); ok {
			t.Error("nothing has a text")
		}
		wants(t, r.Decode(new(struct{})), ma2h.ErrMalformed)
	}
	// An Approval that could not have asked does not judge either.
	r := pulled(t, view())
	for name, bad := range map[string]ma2h.Approval{
		"nobody":             {Title: "x"},
		"an agent":           {Title: "x", By: []string{alice, "agent:x"}},
		"a system":           {Title: "x", By: []string{"system:default_on_expire"}},
		"a yes of no option": {Title: "x", By: []string{alice}, Yes: "approve"},
	} {
		if bad.Judge(r).Approved() {
			t.Errorf("%s approves", name)
		}
	}
	if !a.Judge(r).Approved() {
		t.Error("a yes is no")
	}
}

func pulled(t testing.TB, body string) *ma2h.Response {
	t.Helper()
	m, err := connect(t, always(200, body).config()).Message(t.Context(), "msg_1")
	mustNot(t, err)
	return m.Response
}

// req: RES-07 RES-08 CAN-05 ASK-04
func TestAnApprovalThroughTheHub(t *testing.T) {
	options := []ma2h.Option{{Value: "drop", Label: "Drop it"}, {Value: "keep", Label: "Keep it"}}
	plain := ma2h.Approval{Title: "Drop table users?", By: []string{alice, "human:bob"}}
	chosen := plain
	chosen.Options, chosen.Yes = options, "drop"
	expiring := plain
	silent := plain
	silent.DefaultApprovesOnExpiry = true
	silentDrop := chosen
	silentDrop.DefaultApprovesOnExpiry = true
	type act = func(*ma2htest.Hub, string) error
	answer := func(v string, by string) act {
		return func(h *ma2htest.Hub, id string) error { return h.Answer(id, v, ma2htest.By(by)) }
	}
	wait := func(*ma2htest.Hub, string) error { time.Sleep(2 * time.Hour); return nil }
	for _, tt := range []struct {
		name       string
		a          ma2h.Approval
		expires    bool
		act        act
		yes        bool
		resolution ma2h.Resolution
		actor      string
	}{
		{"yes", plain, false, answer("approve", alice), true, ma2h.Answered, alice},
		{"yes of another who is listed", plain, false, answer("approve", "human:bob"), true, ma2h.Answered, "human:bob"},
		{"no", plain, false, answer("deny", alice), false, ma2h.Answered, alice},
		{"the approving option", chosen, false, answer("drop", alice), true, ma2h.Answered, alice},
		{"the other option", chosen, false, answer("keep", alice), false, ma2h.Answered, alice},
		{"declined", plain, false, func(h *ma2htest.Hub, id string) error { return h.Decline(id, ma2htest.By(alice)) }, false, ma2h.Declined, alice},
		{"withdrawn", plain, false, func(h *ma2htest.Hub, id string) error { return h.Withdraw(id) }, false, ma2h.Cancelled, ma2htest.ActorHub},
		{"expired", expiring, true, wait, false, ma2h.Expired, ma2htest.ActorExpired},
		{"expired where silence is yes", silent, true, wait, true, ma2h.Expired, types.ActorDefaultOnExpire},
		{"expired where silence is an option", silentDrop, true, wait, true, ma2h.Expired, types.ActorDefaultOnExpire},
		{"no where silence is yes", silent, true, answer("deny", alice), false, ma2h.Answered, alice},
		{"declined where silence is yes", silent, true, func(h *ma2htest.Hub, id string) error { return h.Decline(id, ma2htest.By(alice)) }, false, ma2h.Declined, alice},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			if tt.expires {
				tt.a.ExpiresAt = time.Now().Add(time.Hour)
			}
			go func() {
				m, err := hub.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Minute)
				if err := tt.act(hub, m.ID); err != nil {
					t.Errorf("%s: %v", tt.name, err)
				}
			}()
			v, err := c.Approve(t.Context(), tt.a)
			mustNot(t, err)
			if v.Approved() != tt.yes || v.Resolution != tt.resolution || v.Actor != tt.actor || v.MessageID == "" || v.ResolutionID == "" {
				t.Errorf("%s: %+v, %s by %s", tt.name, v, v.Resolution, v.Actor)
			}
			hub.RequireMessages(t, 1)
			time.Sleep(3 * time.Hour)
		})
	}
}

func TestWhoIsNotListedCannotAnswerAnApproval(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		ack, err := c.AskApproval(t.Context(), ma2h.Approval{Title: "x", By: []string{alice}, IdempotencyKey: "k"})
		mustNot(t, err)
		for _, by := range []string{"human:bob", "agent:" + asker, "system:hub"} {
			if err := hub.Answer(ack.ID, "approve", ma2htest.By(by)); !errors.Is(err, ma2htest.ErrNotAuthorized) {
				t.Errorf("%s: %v", by, err)
			}
		}
		hub.RequireStatus(t, ack.ID, types.StatusOpen)
	})
}

func TestAnApprovalOfAnAgentThatExits(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		a := ma2h.Approval{Title: "Deploy?", By: []string{alice}, IdempotencyKey: "deploy-7"}
		ack, err := c.AskApproval(t.Context(), a)
		mustNot(t, err)
		mustNot(t, hub.Answer(ack.ID, "approve"))
		second := connect(t, hub.Config(asker))
		v, err := second.AwaitApproval(t.Context(), ack.ID, a)
		if err != nil || !v.Approved() {
			t.Fatal(v, err)
		}
		// The same humans, but not the one who answered.
		a.By = []string{"human:bob"}
		if v, err := second.AwaitApproval(t.Context(), ack.ID, a); err != nil || v.Approved() {
			t.Error(v, err)
		}
	})
}

func TestAnAnswerToAnotherQuestionIsNotAnApproval(t *testing.T) {
	yes := ma2h.Option{Value: "approve", Label: "Yes"}
	no := ma2h.Option{Value: "deny", Label: "No"}
	same := ma2h.Approval{Title: "Drop table users?", By: []string{alice}, IdempotencyKey: "k"}
	for name, tt := range map[string]struct {
		edit func(*ma2h.Approval)
		ok   bool
	}{
		"the same":              {func(*ma2h.Approval) {}, true},
		"without its key":       {func(a *ma2h.Approval) { a.IdempotencyKey = "" }, true},
		"of more humans":        {func(a *ma2h.Approval) { a.By = append(a.By, "human:bob") }, true},
		"another title":         {func(a *ma2h.Approval) { a.Title = "Drop table logs?" }, false},
		"another key":           {func(a *ma2h.Approval) { a.IdempotencyKey = "k2" }, false},
		"options for a confirm": {func(a *ma2h.Approval) { a.Options, a.Yes = []ma2h.Option{yes, no}, "approve" }, false},
	} {
		bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
			ack, err := c.AskApproval(t.Context(), same)
			mustNot(t, err)
			mustNot(t, hub.Answer(ack.ID, "approve"))
			a := same
			tt.edit(&a)
			v, err := c.AwaitApproval(t.Context(), ack.ID, a)
			if v.Approved() != tt.ok || errors.Is(err, ma2h.ErrOtherQuestion) == tt.ok || tt.ok && err != nil {
				t.Errorf("%s: %v %v", name, v, err)
			}
		})
	}
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		a := same
		a.Options, a.Yes = []ma2h.Option{yes, no}, "approve"
		ack, err := c.AskApproval(t.Context(), a)
		mustNot(t, err)
		mustNot(t, hub.Answer(ack.ID, "approve"))
		a.Options = []ma2h.Option{no, yes}
		if v, err := c.AwaitApproval(t.Context(), ack.ID, a); v.Approved() || !errors.Is(err, ma2h.ErrOtherQuestion) {
			t.Errorf("other options: %v %v", v, err)
		}
		task, err := c.Task(t.Context(), rotate("t"))
		mustNot(t, err)
		mustNot(t, hub.Complete(task.ID))
		if v, err := c.AwaitApproval(t.Context(), task.ID, same); v.Approved() || !errors.Is(err, ma2h.ErrOtherQuestion) {
			t.Errorf("a task: %v %v", v, err)
		}
	})
}

func TestAnErrorIsNo(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		a := ma2h.Approval{Title: "x", By: []string{alice}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if v, err := c.Approve(ctx, a); v.Approved() || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(v, err)
		}
		hub.Fault(ma2htest.Status(422, 1))
		if v, err := c.Approve(t.Context(), a); v.Approved() || !errors.Is(err, ma2h.ErrInvalidField) {
			t.Error(v, err)
		}
		if v, err := c.AwaitApproval(t.Context(), "msg_unknown", a); v.Approved() || !errors.Is(err, ma2h.ErrNotFound) {
			t.Error(v, err)
		}
	})
	broken := connect(t, always(200, "{}").config(), func(cfg *ma2h.Config) { cfg.Rand = failing{} })
	if v, err := broken.Approve(t.Context(), ma2h.Approval{Title: "x", By: []string{alice}}); v.Approved() || err == nil || !strings.Contains(err.Error(), "Rand") {
		t.Error(v, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no randomness") }

// req: ASK-08 ASK-07
func TestAnApprovalThatCouldNotBeGivenIsRefusedAndNothingSent(t *testing.T) {
	options := []ma2h.Option{{Value: "a", Label: "A"}, {Value: "b", Label: "B"}}
	for name, tt := range map[string]struct {
		a     ma2h.Approval
		field string
	}{
		"nobody":              {ma2h.Approval{Title: "x"}, ""},
		"an agent":            {ma2h.Approval{Title: "x", By: []string{"agent:x"}}, "Approval.By[0]"},
		"itself":              {ma2h.Approval{Title: "x", By: []string{alice, ma2h.ResolverSelf}}, "Approval.By[1]"},
		"a system":            {ma2h.Approval{Title: "x", By: []string{"system:x"}}, "Approval.By[0]"},
		"a name":              {ma2h.Approval{Title: "x", By: []string{"alice"}}, "Approval.By[0]"},
		"a kind alone":        {ma2h.Approval{Title: "x", By: []string{"human:"}}, "Approval.By[0]"},
		"options without yes": {ma2h.Approval{Title: "x", By: []string{alice}, Options: options}, "Approval.Yes"},
		"yes without options": {ma2h.Approval{Title: "x", By: []string{alice}, Yes: "a"}, "Approval.Yes"},
		"yes is no option":    {ma2h.Approval{Title: "x", By: []string{alice}, Options: options, Yes: "c"}, "Approval.Yes"},
		"no title":            {ma2h.Approval{By: []string{alice}}, "title"},
		"silence for ever":    {ma2h.Approval{Title: "x", By: []string{alice}, DefaultApprovesOnExpiry: true}, "DefaultOnExpire"},
	} {
		s := always(202, accepted)
		c := connect(t, s.config())
		v, err := c.Approve(t.Context(), tt.a)
		if v.Approved() || err == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if tt.field == "" {
			wants(t, err, ma2h.ErrNoResolver)
		} else {
			wantsField(t, err, tt.field)
		}
		if s.calls.Load() != 0 {
			t.Errorf("%s: %d requests", name, s.calls.Load())
		}
	}
	s := always(202, accepted)
	_, err := connect(t, s.config()).AskApproval(t.Context(), ma2h.Approval{Title: "x", By: []string{alice}})
	wantsField(t, err, "IdempotencyKey")
	if _, err := connect(t, s.config()).AwaitApproval(t.Context(), "msg_1", ma2h.Approval{Title: "x"}); !errors.Is(err, ma2h.ErrNoResolver) || s.calls.Load() != 0 {
		t.Error(err)
	}
}

// req: CAN-01 CAN-02 CAN-03 CAN-04 CAN-05 TSK-02 RES-14
func TestACancelAndAnAnswerHaveOneWinner(t *testing.T) {
	cancelled, lost := 0, 0
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			hub := ma2htest.NewHub(t)
			c := connect(t, hub.Config(asker))
			id := mustAsk(t, c, shipOrHold("k"))
			if i%2 == 0 {
				hub.Fault(ma2htest.LoseAck(1).On(ma2htest.Cancel))
			}
			var wg sync.WaitGroup
			var answer, cancel error
			wg.Go(func() { answer = hub.Answer(id, "ship") })
			wg.Go(func() { cancel = c.Cancel(t.Context(), id) })
			wg.Wait()
			switch end, ok := errors.AsType[*ma2h.TerminalError](cancel); {
			case cancel == nil && errors.Is(answer, ma2htest.ErrTerminal):
				cancelled++
				hub.RequireStatus(t, id, types.StatusCancelled)
				if r, err := c.Wait(t.Context(), id); err != nil || r.Resolution() != ma2h.Cancelled || r.Actor() != "agent:"+asker || r.Answered("ship") {
					t.Errorf("%v %v", r, err)
				}
				mustNot(t, c.Cancel(t.Context(), id))
			case ok && end.Status == types.StatusAnswered && answer == nil:
				lost++
				hub.RequireStatus(t, id, types.StatusAnswered)
			default:
				t.Errorf("cancel %v, answer %v", cancel, answer)
			}
		})
	}
	t.Logf("%d cancelled, %d answered", cancelled, lost)
}

// req: CAN-04 TSK-02 CAN-06 AMB-22 AMB-23
func TestWhatCannotBeCancelledStaysAsItIs(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		task, err := c.Task(t.Context(), rotate("t"))
		mustNot(t, err)
		wants(t, c.Cancel(t.Context(), task.ID), ma2h.ErrValidation)
		hub.RequireStatus(t, task.ID, types.StatusOpen)

		a := shipOrHold("k")
		a.ExpiresAt = time.Now().Add(time.Hour)
		id := mustAsk(t, c, a)
		time.Sleep(time.Hour + time.Millisecond)
		end, ok := errors.AsType[*ma2h.TerminalError](c.Cancel(t.Context(), id))
		if !ok || end.Resolution != ma2h.Expired {
			t.Errorf("%v", end)
		}
		a = shipOrHold("k2")
		a.ExpiresAt = time.Now().Add(time.Hour)
		id = mustAsk(t, c, a)
		time.Sleep(time.Hour)
		mustNot(t, c.Cancel(t.Context(), id)) // at the very instant it is in time
	})
}

func TestACancelWhoseAnswerIsLostIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := &stub{answer: func(r *http.Request) *http.Response {
			if tries++; tries < 3 {
				return canned(503, "")
			}
			return canned(409, `{"id":"msg_1","status":"answered"}`)
		}}
		err := connect(t, s.config()).Cancel(t.Context(), "msg_1")
		if end, ok := errors.AsType[*ma2h.TerminalError](err); !ok || end.Status != types.StatusAnswered || tries != 3 {
			t.Errorf("%v after %d tries", err, tries)
		}
		if s := fmt.Sprint(err); !strings.Contains(s, "msg_1") {
			t.Error(s)
		}
	})
}

// An input whose answer reads like a yes is not the question that was asked.
//
// req: ASK-06
func TestAQuestionOfAnotherModeIsNotTheOneThatWasAsked(t *testing.T) {
	asked := ma2h.Approval{Title: "Ship?", By: []string{alice}, IdempotencyKey: "k"}
	input := view(`"mode":"confirm"`, `"mode":"input","schema":{"type":"object","properties":{"a":{"type":"string"}}}`, `"value":"approve"`, `"value":{"a":"approve"}`)
	v, err := connect(t, always(200, input).config()).AwaitApproval(t.Context(), "msg_1", asked)
	wants(t, err, ma2h.ErrOtherQuestion)
	if v.Approved() {
		t.Error(v)
	}
	one := asked
	one.Options, one.Yes = []ma2h.Option{{Value: "approve", Label: "Yes"}}, "approve"
	selected := view(`"mode":"confirm"`, `"mode":"select","options":[{"value":"approve","label":"Yes"}]`)
	if v, err := connect(t, always(200, selected).config()).AwaitApproval(t.Context(), "msg_1", one); err != nil || !v.Approved() {
		t.Errorf("a choice of one: %v, %v", v, err)
	}
}

func TestAnApprovalIsSentUnderItsKeyAndWithItsOptions(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, c *ma2h.Client) {
		go func() {
			if m, err := hub.Next(t.Context()); err != nil || hub.Answer(m.ID, "go", ma2htest.By(alice)) != nil {
				t.Error("not answered", err)
			}
		}()
		a := ma2h.Approval{Title: "Ship?", By: []string{alice}, IdempotencyKey: "ship-1", Options: []ma2h.Option{{Value: "go", Label: "Go"}}, Yes: "go"}
		v, err := c.Approve(t.Context(), a)
		mustNot(t, err)
		m, _ := hub.Message(v.MessageID)
		var w types.Message
		mustNot(t, types.Decode(m.Submitted, &w))
		if !v.Approved() || w.IdempotencyKey != "ship-1" || w.Request.Mode != types.ModeSelect || len(w.Request.Options) != 1 {
			t.Errorf("%v of %+v", v, w)
		}
	})
}

func TestAVerdictAndAnApprovalPrintNoContent(t *testing.T) {
	v := ma2h.Verdict{MessageID: "msg_1", Resolution: ma2h.Answered, Actor: "human:CANARY", Comment: "CANARY"}
	a := ma2h.Approval{Title: "CANARY", By: []string{"human:CANARY"}, IdempotencyKey: "ship-1"}
	for want, got := range map[string]string{
		"Verdict{message=msg_1 resolution=answered approved=false}": fmt.Sprintf("%+v", v),
		"Approval{key=ship-1}": fmt.Sprintf("%+v", a),
	} {
		if got != want {
			t.Errorf("prints %s, not %s", got, want)
		}
	}
	if v.LogValue().String() != fmt.Sprint(v) || a.LogValue().String() != fmt.Sprint(a) {
		t.Errorf("logs %s and %s", v.LogValue(), a.LogValue())
	}
}

// What does not decode as a whole says nothing, whatever a part of it says.
//
// req: CAN-04
func TestAnAnswerToACancelThatDoesNotDecodeIsNotBelieved(t *testing.T) {
	s := &stub{answer: func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet {
			return canned(200, view())
		}
		return canned(200, `{"id":"msg_1","status":"cancelled","error":7}`)
	}}
	err := connect(t, s.config()).Cancel(t.Context(), "msg_1")
	if end, ok := errors.AsType[*ma2h.TerminalError](err); !ok || end.Status != types.StatusAnswered || s.calls.Load() != 2 {
		t.Errorf("%v after %d calls", err, s.calls.Load())
	}
}

// An answer to one question is never the answer to another of the same humans.
func TestAnAnswerToAnotherQuestionApprovesNothing(t *testing.T) {
	c := connect(t, always(200, view()).config())
	asked := ma2h.Approval{Title: "Ship?", By: []string{alice}, IdempotencyKey: "k"}
	if v, err := c.AwaitApproval(t.Context(), "msg_1", asked); err != nil || !v.Approved() {
		t.Fatalf("the question that was asked: %v, %v", v, err)
	}
	for name, edit := range map[string]func(*ma2h.Approval){
		"another title":               func(a *ma2h.Approval) { a.Title = "Drop table users?" },
		"another key":                 func(a *ma2h.Approval) { a.IdempotencyKey = "k2" },
		"another mode and one option": func(a *ma2h.Approval) { a.Options, a.Yes = []ma2h.Option{{Value: "approve", Label: "Yes"}}, "approve" },
		"another mode": func(a *ma2h.Approval) {
			a.Options, a.Yes = []ma2h.Option{{Value: "approve", Label: "Yes"}, {Value: "no", Label: "No"}}, "approve"
		},
	} {
		a := asked
		edit(&a)
		v, err := c.AwaitApproval(t.Context(), "msg_1", a)
		wants(t, err, ma2h.ErrOtherQuestion)
		if v.Approved() || v.MessageID != "msg_1" {
			t.Errorf("%s: %v", name, v)
		}
	}
}
