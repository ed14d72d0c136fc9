package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

func TestAnOutcomePrintsItsStatusItsIDAndTheLibrarysOwnReason(t *testing.T) {
	for want, out := range map[string]Outcome{
		`Outcome{status=200 acted=true id=msg_1}`:                                                  {Status: 200, Acted: true, MessageID: "msg_1"},
		`Outcome{status=401 acted=false id="" ma2h: the signature does not hold}`:                  {Status: 401, Err: fmt.Errorf("%w: CANARY", ErrSignature)},
		`Outcome{status=503 acted=false id=msg_1 ma2h: an earlier act is in doubt}`:                {Status: 503, MessageID: "msg_1", Err: ErrInDoubt},
		`Outcome{status=503 acted=false id="" ma2h: not accepted}`:                                 {Status: 503, Err: errors.New("CANARY")},
		`Outcome{status=503 acted=false id="" ma2h: the delivery was presented before}`:            {Status: 503, Err: ErrReplay},
		`Outcome{status=503 acted=false id="" ma2h: this agent did not send that message}`:         {Status: 503, Err: ErrUnsent},
		`Outcome{status=503 acted=false id="" ma2h: the store is full}`:                            {Status: 503, Err: ErrStoreFull},
		`Outcome{status=503 acted=false id="" ma2h: a second decision for a message that has one}`: {Status: 503, Err: ErrSecondResolution},
		`Outcome{status=503 acted=false id="" ma2h: the callback credential is missing or wrong}`:  {Status: 503, Err: ErrToken},
		`Outcome{status=503 acted=false id="" ma2h: a function of the configuration panicked}`:     {Status: 503, Err: ErrPanicked},
		`Outcome{status=503 acted=false id="" ma2h: this was acted on before}`:                     {Status: 503, Err: ErrAlreadyActed},
		`Outcome{status=503 acted=false id="" ma2h: the signature is outside the replay window}`:   {Status: 503, Err: ErrStale},
		`Outcome{status=503 acted=false id="" ma2h: the keys could not be had}`:                    {Status: 503, Err: ErrKeySource},
		`Outcome{status=503 acted=false id="" ma2h: this is being acted on}`:                       {Status: 503, Err: ErrInFlight},
	} {
		if got := fmt.Sprint(out); got != want {
			t.Errorf("prints %s, not %s", got, want)
		}
		if got := out.LogValue().String(); got != want {
			t.Errorf("logs %s, not %s", got, want)
		}
	}
}

// delivery is the line of the log that says what became of a delivery.
func (r *callbackRig) delivery(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, `msg="ma2h: delivery"`) {
			return line
		}
	}
	t.Errorf("no delivery in the log: %s", r.log)
	return ""
}

// What needs a human is an error in the log, what the Hub will mend a warning.
func TestTheLogSaysOfEachDeliveryHowBadItIsAndWhy(t *testing.T) {
	for name, row := range map[string]struct {
		head        http.Header
		before      func(*callbackRig)
		level, tail string
	}{
		"acted on":     {trustHead(t, "j"), nil, "INFO", ` status=200 acted=true id=msg_01HZXASK0001`},
		"acted before": {trustHead(t, "j"), func(r *callbackRig) { r.post(trustHead(t, "j"), trustBody); r.log.b.Reset() }, "INFO", ` status=200 acted=false id=msg_01HZXASK0001 reason="` + ErrAlreadyActed.Error() + `"`},
		"forged":       {hubSigner{secret: "the secret of a forger"}.header(t, "response", trustBody, trustUnix, "j"), nil, "WARN", ` status=401 acted=false reason="` + ErrSignature.Error() + `"`},
		"in flight": {trustHead(t, "j"), func(r *callbackRig) { reserve(t, r.store, ActOf(pushed(t, trustBody), trustAgent)) },
			"WARN", ` status=503 acted=false id=msg_01HZXASK0001 reason="` + ErrInFlight.Error() + `"`},
		"in doubt": {trustHead(t, "j"), func(r *callbackRig) {
			reserve(t, r.store, ActOf(pushed(t, trustBody), trustAgent))
			r.clock.Add(time.Minute)
		}, "ERROR", ` status=503 acted=false id=msg_01HZXASK0001 reason="` + ErrInDoubt.Error() + `"`},
		"acted on, and not recorded": {trustHead(t, "j"), func(r *callbackRig) { r.store.failing("Commit", ErrLeaseLost) },
			"ERROR", ` status=503 acted=false id=msg_01HZXASK0001 reason="` + ErrOutcomeUnknown.Error() + `"`},
		"panicked": {trustHead(t, "j"), func(r *callbackRig) { r.act = func(context.Context, *Response) error { panic("CANARY") } },
			"ERROR", ` status=503 acted=false id=msg_01HZXASK0001 reason="` + ErrActPanicked.Error() + `"`},
		"failed": {trustHead(t, "j"), func(r *callbackRig) { r.act = func(context.Context, *Response) error { return errors.New("CANARY") } },
			"ERROR", ` status=503 acted=false id=msg_01HZXASK0001 reason="ma2h: the handler failed"`},
	} {
		r := newCallbackRig(t)
		if row.before != nil {
			row.before(r)
		}
		r.Process(t.Context(), row.head, []byte(trustBody))
		_, got, _ := strings.Cut(r.delivery(t), "level=")
		if want := row.level + ` msg="ma2h: delivery"` + row.tail + "\n"; got != want {
			t.Errorf("%s: the log says %s, not %s", name, got, want)
		}
		if err := r.Shutdown(t.Context()); err != nil || strings.Contains(r.log.String(), ErrPanicked.Error()) {
			t.Errorf("%s: %v, the log says %s", name, err, r.log)
		}
	}
}

func TestAPullThatFailsIsSaidToBeOneInTheLog(t *testing.T) {
	client := trustClient(t, ma2htest.NewHub(t), nil) // which has no such message
	r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.Client, c.ConfirmByGet = client, true })
	out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody))
	if out.Status != 503 || !errors.Is(out.Err, ErrNotFound) || len(r.acts()) != 0 || r.store.diary() != nil {
		t.Errorf("%v: %v", out, out.Err)
	}
	if line := r.delivery(t); !strings.Contains(line, `reason="ma2h: the message could not be pulled"`) {
		t.Errorf("the log says %s", line)
	}
}
