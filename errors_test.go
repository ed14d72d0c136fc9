package ma2h_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/types"
)

// meanings are what a Hub's refusal can mean; an error is exactly one of them.
var meanings = []error{
	ma2h.ErrValidation, ma2h.ErrVersion, ma2h.ErrUnauthenticated, ma2h.ErrAgentIDMismatch, ma2h.ErrNotAuthorized,
	ma2h.ErrNotFound, ma2h.ErrGone, ma2h.ErrIdempotencyConflict, ma2h.ErrAlreadyTerminal, ma2h.ErrNotAcknowledgeable,
	ma2h.ErrInvalidField, ma2h.ErrRateLimited, ma2h.ErrRedirect, ma2h.ErrUnavailable, ma2h.ErrProtocol,
}

// touchpoints are the calls of a Client, each with where its id goes.
var touchpoints = []struct {
	op   string
	id   string
	call func(context.Context, *ma2h.Client) error
}{
	{"submit", "k", func(ctx context.Context, c *ma2h.Client) error { _, err := c.Ask(ctx, shipOrHold("k")); return err }},
	{"get", "msg_1", func(ctx context.Context, c *ma2h.Client) error { _, err := c.Message(ctx, "msg_1"); return err }},
	{"cancel", "msg_1", func(ctx context.Context, c *ma2h.Client) error { return c.Cancel(ctx, "msg_1") }},
	{"acknowledge", "msg_1", func(ctx context.Context, c *ma2h.Client) error { _, err := c.Acknowledge(ctx, "msg_1", ""); return err }},
	{"presence", "a/b", func(ctx context.Context, c *ma2h.Client) error { _, err := c.Presence(ctx, "a/b"); return err }},
	{"discover", "hub.test", func(ctx context.Context, c *ma2h.Client) error { _, err := c.Capabilities(ctx); return err }},
}

// refuse makes one call to a Hub that always answers so.
func refuse(t *testing.T, op string, call func(context.Context, *ma2h.Client) error, status int, body string, header ...string) error {
	t.Helper()
	s := always(status, body, header...)
	if op == "discover" {
		s.version = "none"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return call(ctx, connect(t, s.config()))
}

// meansOnly fails unless err is the sentinel and no other.
func meansOnly(t *testing.T, what string, err, sentinel error) {
	t.Helper()
	for _, m := range meanings {
		if errors.Is(err, m) != (m == sentinel) {
			t.Errorf("%s: is %v: %v, want only %v (%v)", what, m, errors.Is(err, m), sentinel, err)
		}
	}
}

// req: ERR-01 ERR-02 ERR-03 ERR-04 ERR-05 ERR-06 VER-01 PUL-05 VER-07
// report: B019
func TestEachRefusalMeansExactlyOneThing(t *testing.T) {
	type row struct {
		status int
		code   string // "": none
		want   error
		only   string // the calls that it is for; "" all
	}
	rows := []row{
		{400, types.CodeValidation, ma2h.ErrValidation, ""},
		{400, types.CodeVersionNotSupported, ma2h.ErrVersion, ""},
		{401, types.CodeUnauthenticated, ma2h.ErrUnauthenticated, ""},
		{403, types.CodeAgentIDMismatch, ma2h.ErrAgentIDMismatch, ""},
		{403, types.CodeNotAuthorized, ma2h.ErrNotAuthorized, ""},
		{404, types.CodeNotFound, ma2h.ErrNotFound, ""},
		{409, types.CodeIdempotencyConflict, ma2h.ErrIdempotencyConflict, ""},
		{409, types.CodeAlreadyTerminal, ma2h.ErrAlreadyTerminal, "submit get acknowledge presence discover"},
		{409, types.CodeNotAcknowledgeable, ma2h.ErrNotAcknowledgeable, ""},
		{410, types.CodeGone, ma2h.ErrGone, ""},
		{422, types.CodeInvalidField, ma2h.ErrInvalidField, ""},
		{429, types.CodeRateLimited, ma2h.ErrRateLimited, ""},
		// A known code wins over its status.
		{403, types.CodeGone, ma2h.ErrGone, ""},
		{404, types.CodeUnauthenticated, ma2h.ErrUnauthenticated, ""},
		{418, types.CodeNotFound, ma2h.ErrNotFound, ""},
		{503, types.CodeRateLimited, ma2h.ErrRateLimited, ""},
		// An unknown one reads as the base code of its status at the call.
		{400, "new_code", ma2h.ErrValidation, ""},
		{401, "new_code", ma2h.ErrUnauthenticated, ""},
		{403, "new_code", ma2h.ErrNotAuthorized, ""},
		{404, "new_code", ma2h.ErrNotFound, ""},
		{409, "new_code", ma2h.ErrIdempotencyConflict, "submit"},
		{409, "new_code", ma2h.ErrNotAcknowledgeable, "acknowledge"},
		{409, "new_code", ma2h.ErrProtocol, "get presence discover"},
		{410, "new_code", ma2h.ErrGone, "get cancel acknowledge presence"},
		{410, "new_code", ma2h.ErrProtocol, "submit discover"},
		{422, "new_code", ma2h.ErrInvalidField, ""},
		{429, "new_code", ma2h.ErrRateLimited, ""},
		{402, "new_code", ma2h.ErrProtocol, ""},
		{418, "new_code", ma2h.ErrProtocol, ""},
		{408, "new_code", ma2h.ErrProtocol, ""},
		{500, "new_code", ma2h.ErrUnavailable, ""},
		{501, "new_code", ma2h.ErrUnavailable, ""},
		{599, "new_code", ma2h.ErrUnavailable, ""},
		{301, "", ma2h.ErrRedirect, ""}, {302, "", ma2h.ErrRedirect, ""}, {303, "", ma2h.ErrRedirect, ""},
		{307, "", ma2h.ErrRedirect, ""}, {308, "", ma2h.ErrRedirect, ""},
		{300, "", ma2h.ErrProtocol, ""}, {304, "", ma2h.ErrProtocol, ""},
		{201, "", ma2h.ErrProtocol, ""}, {204, "", ma2h.ErrProtocol, ""}, {206, "", ma2h.ErrProtocol, ""},
		// Without a code the status speaks for itself, but for a 409.
		{400, "", ma2h.ErrValidation, ""}, {401, "", ma2h.ErrUnauthenticated, ""}, {403, "", ma2h.ErrNotAuthorized, ""},
		{404, "", ma2h.ErrNotFound, ""}, {422, "", ma2h.ErrInvalidField, ""}, {429, "", ma2h.ErrRateLimited, ""},
		{409, "", ma2h.ErrProtocol, "submit get acknowledge presence discover"},
		{410, "", ma2h.ErrGone, "get cancel acknowledge presence"},
		{502, "", ma2h.ErrUnavailable, ""},
	}
	for _, r := range rows {
		for _, tp := range touchpoints {
			if r.only != "" && !strings.Contains(" "+r.only+" ", " "+tp.op+" ") {
				continue
			}
			what := fmt.Sprintf("%s, %d %q", tp.op, r.status, r.code)
			synctest.Test(t, func(t *testing.T) {
				body := `{"error":{"code":"` + r.code + `","message":"m"}}`
				err := refuse(t, tp.op, tp.call, r.status, body, "Retry-After", "7", "Location", "https://evil.test/")
				meansOnly(t, what, err, r.want)
				api, ok := errors.AsType[*ma2h.APIError](err)
				if !ok || api.Op != tp.op || api.Status != r.status || api.Code != r.code || api.Message != "m" || api.RetryAfter != 7*time.Second || api.ID != tp.id {
					t.Errorf("%s: %+v", what, err)
				}
			})
		}
	}
}

// report: B024
// req: ERR-01 ERR-05
func TestARefusalThatIsNotTheErrorEnvelopeIsReadByItsStatusAlone(t *testing.T) {
	envelope := `{"error":{"code":"gone","message":"m"}}`
	for name, tt := range map[string]struct{ body, contentType string }{
		"a page":             {"<html>502</html>", "text/html"},
		"a page that lies":   {envelope, "text/html; charset=utf-8"},
		"no content type":    {envelope, ""},
		"nothing":            {"", "application/json"},
		"half":               {envelope[:20], "application/json"},
		"an array":           {"[]", "application/json"},
		"a code of a number": {`{"error":{"code":1,"message":"m"}}`, "application/json"},
		"an error of text":   {`{"error":"gone"}`, "application/json"},
		"a code twice":       {`{"error":{"code":"gone","code":"gone"}}`, "application/json"},
		"no error":           {`{}`, "application/json"},
		"XML":                {envelope, "application/xml"},
		"upper case":         {`{"Error":{"Code":"gone"}}`, "application/json"},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, tp := range touchpoints {
				err := refuse(t, tp.op, tp.call, 502, tt.body, "Content-Type", tt.contentType)
				meansOnly(t, tp.op+", "+name, err, ma2h.ErrUnavailable)
				if api, ok := errors.AsType[*ma2h.APIError](err); !ok || api.Code != "" || api.Message != "" || strings.Contains(err.Error(), "html") {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	for _, ct := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON", " application/problem+json ; x=y"} {
		err := refuse(t, "get", touchpoints[1].call, 404, envelope, "Content-Type", ct)
		meansOnly(t, ct, err, ma2h.ErrGone)
	}
	if err := refuse(t, "get", touchpoints[1].call, 404, envelope, "Content-Type", "text/problem+json"); !errors.Is(err, ma2h.ErrNotFound) {
		t.Error(err)
	}
}

// req: ERR-07
func TestTheTextOfAHubIsCutAndHasNoControlCharacters(t *testing.T) {
	evil := "a\\u0000b\\u001b[31m\\u0085c\\r\\n\\u2028\\u2029\\u202e\\u2066\\u200e\\ufeffd\\u007fé🚀"
	body := `{"error":{"code":"` + strings.Repeat("c", 70) + `\u0007","message":"` + evil + strings.Repeat("é", 1<<19) + `"}}`
	err := refuse(t, "get", touchpoints[1].call, 400, body)
	api, ok := errors.AsType[*ma2h.APIError](err)
	if !ok {
		t.Fatal(err)
	}
	if len(api.Message) > 512 || len(api.Message) < 500 || len(api.Code) != 64 {
		t.Errorf("%d bytes of message, %d of code", len(api.Message), len(api.Code))
	}
	if !strings.HasPrefix(api.Message, "ab[31mcdé🚀é") || strings.Contains(api.Message, "\ufffd") {
		t.Errorf("%q", api.Message[:40])
	}
	for _, r := range api.Message + api.Code {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			t.Errorf("%U came through", r)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		if text := fmt.Sprintf(verb, api); strings.Contains(text, "[31m") || len(text) > 300 {
			t.Errorf("%s prints the Hub's text: %.80s", verb, text)
		}
	}
}

// req: SUB-01 CAN-03 CAN-06 AMB-08
// report: B019
func TestA409OfACancelIsReadWhereverItSaysHowTheMessageEnded(t *testing.T) {
	gets := 0
	cancel := func(t *testing.T, status int, body, get string) error {
		t.Helper()
		gets = 0
		s := &stub{answer: func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet {
				gets++
				return canned(200, get)
			}
			return canned(status, body)
		}}
		return connect(t, s.config()).Cancel(t.Context(), "msg_1")
	}
	const code = `"code":"already_terminal","message":"m"`
	layouts := map[string]string{
		"bare":              `{"id":"msg_1","status":"expired","resolution":"expired"}`,
		"beside the error":  `{"error":{` + code + `},"id":"msg_1","status":"expired","resolution":"expired"}`,
		"inside the error":  `{"error":{` + code + `,"id":"msg_1","status":"expired","resolution":"expired"}}`,
		"inside details":    `{"error":{` + code + `,"details":{"id":"msg_1","status":"expired","resolution":"expired"}}}`,
		"without an id":     `{"error":{` + code + `},"status":"expired"}`,
		"unknown code":      `{"error":{"code":"too_late","message":"m"},"id":"msg_1","status":"expired"}`,
		"a 200 that is not": "",
	}
	for name, body := range layouts {
		status := 409
		if body == "" {
			status, body = 200, `{"id":"msg_1","status":"expired"}`
		}
		err := cancel(t, status, body, "")
		lost, ok := errors.AsType[*ma2h.TerminalError](err)
		if !ok || lost.ID != "msg_1" || lost.Status != types.StatusExpired || lost.Resolution != ma2h.Expired || gets != 0 {
			t.Errorf("%s: %v after %d GETs", name, err, gets)
		}
		meansOnly(t, name, err, ma2h.ErrAlreadyTerminal)
	}
	answered := view()
	cancelled := strings.ReplaceAll(view(`"value":"approve",`, ``), `"answered"`, `"cancelled"`)
	stillOpen := strings.Split(view(`"status":"answered"`, `"status":"open"`), `,"response"`)[0] + "}"
	for _, tt := range []struct {
		name   string
		status int
		body   string
		get    string
		gets   int
		want   error // nil: cancelled
		as     types.Status
	}{
		{"says nothing, was answered", 409, `{"error":{` + code + `}}`, answered, 1, ma2h.ErrAlreadyTerminal, types.StatusAnswered},
		{"says nothing, was cancelled", 409, `{"error":{` + code + `}}`, cancelled, 1, nil, ""},
		{"a page, was answered", 409, `<html>`, answered, 1, ma2h.ErrAlreadyTerminal, types.StatusAnswered},
		{"details of another kind", 409, `{"error":{` + code + `,"details":["x"]}}`, answered, 1, ma2h.ErrAlreadyTerminal, types.StatusAnswered},
		{"an unknown status", 409, `{"id":"msg_1","status":"escalated"}`, answered, 1, ma2h.ErrAlreadyTerminal, types.StatusAnswered},
		{"says open", 409, `{"id":"msg_1","status":"open"}`, stillOpen, 1, ma2h.ErrProtocol, ""},
		{"says nothing, still open", 409, `{}`, stillOpen, 1, ma2h.ErrProtocol, ""},
		{"an empty 200, was cancelled", 200, ``, cancelled, 1, nil, ""},
		{"an empty 200, was answered", 200, `{}`, answered, 1, ma2h.ErrAlreadyTerminal, types.StatusAnswered},
		{"an empty 200, still open", 200, `{}`, stillOpen, 1, ma2h.ErrProtocol, ""},
		{"cancelled in a 409", 409, `{"id":"msg_1","status":"cancelled"}`, "", 0, nil, ""},
		{"cancelled in a 200", 200, `{"id":"msg_1","status":"cancelled"}`, "", 0, nil, ""},
		{"another message", 200, `{"id":"msg_2","status":"cancelled"}`, "", 0, ma2h.ErrProtocol, ""},
		{"another message in a 409", 409, `{"error":{` + code + `},"id":"msg_2","status":"answered"}`, "", 0, ma2h.ErrProtocol, ""},
		{"the GET is no message", 409, `{}`, `{}`, 1, ma2h.ErrProtocol, ""},
		{"a task", 400, `{"error":{"code":"validation_error","message":""}}`, "", 0, ma2h.ErrValidation, ""},
		{"201", 201, `{"id":"msg_1","status":"cancelled"}`, "", 0, ma2h.ErrProtocol, ""},
	} {
		err := cancel(t, tt.status, tt.body, tt.get)
		if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) || gets != tt.gets {
			t.Errorf("%s: %v after %d GETs", tt.name, err, gets)
		}
		if lost, ok := errors.AsType[*ma2h.TerminalError](err); ok != (tt.as != "") || ok && (lost.Status != tt.as || string(lost.Resolution) != string(tt.as)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	err := cancel(t, 409, `{"id":"msg_1","status":"delivered"}`, "")
	if lost, ok := errors.AsType[*ma2h.TerminalError](err); !ok || lost.Status != types.StatusDelivered || lost.Resolution != "" {
		t.Errorf("a delivered notify has no resolution: %+v", err)
	}
}

func TestAnAPIErrorSaysWhatItKnowsAndNoMore(t *testing.T) {
	get := func(status int, body string, header ...string) error {
		_, err := connect(t, always(status, body, header...).config()).Message(t.Context(), "msg_1")
		return err
	}
	for want, err := range map[string]error{
		"ma2h: get msg_1: 422 too_big: the Hub refused a field's value, asked to wait 7s": get(422, `{"error":{"code":"too_big","message":"m"}}`, "Retry-After", "7"),
		"ma2h: get msg_1: 404: no such message":                                           get(404, ""),
		"ma2h: submit: 418":                                                               &ma2h.APIError{Op: "submit", Status: 418},
	} {
		if err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestErrorsSayWhatToDoNextAndUnwrap(t *testing.T) {
	api := &ma2h.APIError{Op: "submit", Status: 409, Code: "idempotency_conflict", ID: "k"}
	for _, tt := range []struct {
		err  error
		is   []error
		text []string
	}{
		{&ma2h.SubmitError{Op: types.VerbAsk, Key: "k", Attempts: 3, Status: 503, Unknown: true, Err: context.DeadlineExceeded},
			[]error{ma2h.ErrOutcomeUnknown, context.DeadlineExceeded}, []string{"ask", "k", "3 attempts", "503", "same key"}},
		{&ma2h.SubmitError{Op: types.VerbNotify, Attempts: 1, Unknown: true, Err: context.Canceled}, []error{ma2h.ErrOutcomeUnknown, context.Canceled}, []string{"without a key"}},
		{&ma2h.SubmitError{Op: types.VerbTask, Key: "k", Attempts: 1, Err: context.Canceled}, []error{context.Canceled}, []string{"task"}},
		{&ma2h.ConflictError{Key: "k", API: api}, nil, []string{"k", "§8.1"}},
		{&ma2h.TerminalError{ID: "m", Status: "answered"}, []error{ma2h.ErrAlreadyTerminal}, []string{"m", "answered"}},
		{&ma2h.NoAnswerError{ID: "m", Resolution: "declined"}, []error{ma2h.ErrNoAnswer}, []string{"m", "declined"}},
	} {
		for _, want := range tt.is {
			wants(t, tt.err, want)
		}
		for _, s := range tt.text {
			if !strings.Contains(tt.err.Error(), s) {
				t.Errorf("%q is not in %v", s, tt.err)
			}
		}
	}
	if errors.Is(&ma2h.SubmitError{Err: context.Canceled}, ma2h.ErrOutcomeUnknown) {
		t.Error("what is not unknown reads as unknown")
	}
	if got, ok := errors.AsType[*ma2h.APIError](error(&ma2h.ConflictError{API: api})); !ok || got != api {
		t.Error("the answer is not under the conflict")
	}
}
