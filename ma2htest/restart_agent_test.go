package ma2htest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ma2h "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
	"github.com/ma2h/ma2h-go/types"
)

// req: FH-13
func TestAWaitGoesOnThroughARestartOfTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		c := newAgent(t, hub).client
		ack, err := c.Ask(t.Context(), question("k", nil))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range 3 {
				_ = hub.AwaitHold(t.Context(), ack.ID)
				hub.Restart()
			}
			_ = hub.AwaitHold(t.Context(), ack.ID)
			_ = hub.Answer(ack.ID, "hold", ma2htest.By(alice))
		}()
		if r, err := c.Wait(t.Context(), ack.ID); err != nil || !r.Answered("hold") {
			t.Fatalf("%v, %v", r, err)
		}
	})
}

// req: FH-13
func TestDirectivesAreActedOnOnceThroughRestartsOfTheHub(t *testing.T) {
	with(t, func(t *testing.T, a *agent) {
		a.slow = 20 * time.Second
		ids := a.send("pause deploys", "resume deploys")
		done := make(chan struct{})
		go func() { // before, during and after the acts
			defer close(done)
			for range 60 {
				time.Sleep(7 * time.Second)
				a.hub.Restart()
			}
		}()
		a.consume(10*time.Minute, nil)
		<-done
		a.wantActed("pause deploys", "resume deploys")
		for _, id := range ids {
			a.hub.RequireDelivery(t, id, types.Acknowledged)
		}
	})
}

// req: FH-13, HND-06
func TestAPushThatARestartCutIsActedOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := ma2htest.NewHub(t)
		a := &pushed{t: t, hub: hub, client: newAgent(t, hub).client}
		h := a.handler(callbackURL, ma2h.Keys(ma2h.HMACKey(hub.SigningSecret())), func(_ *ma2h.VerifierConfig, c *ma2h.CallbackConfig) {
			c.Handle = func(ctx context.Context, r *ma2h.Response) error {
				time.Sleep(3 * time.Second)
				return a.act(ctx, r)
			}
		})
		hub.ServeCallback(callbackURL, h)
		id := a.ask("k", &ma2h.Callback{Mode: types.CallbackPush, URL: callbackURL})
		answer(t, hub, id, "hold")
		time.Sleep(time.Second)
		hub.Restart() // the act goes on, and nobody waits for its answer
		time.Sleep(time.Minute)
		if got := a.acted(); len(got) != 1 || !got[0].Answered("hold") {
			t.Errorf("acts: %v", got)
		}
		rows := hub.Pushes(id)
		if last := rows[len(rows)-1]; len(rows) < 2 || rows[0].Status != 0 || last.Status != 200 {
			t.Errorf("%d pushes, the last %d", len(rows), last.Status)
		}
		hub.RequireDelivery(t, id, types.DeliveredToAgent)
	})
}
