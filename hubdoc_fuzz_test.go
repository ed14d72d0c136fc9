package ma2h

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/internal/seeds"
	"github.com/ma2h/ma2h-go/internal/transport"
	"github.com/ma2h/ma2h-go/schema"
	"github.com/ma2h/ma2h-go/types"
)

// What a Client reads from a Hub, against a second reader: encoding/json into
// maps, whose names are exact.

// canary stands for what a human or a stranger wrote. No error holds it.
const canary = "CANARY"

// members reads an object, or returns nil.
func members(text []byte) map[string]any {
	var m map[string]any
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}

// at follows names into objects.
func at(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func textAt(v any, names ...string) string {
	s, _ := at(v, names...).(string)
	return s
}

// quiet fails unless err is of the sentinel, short, and holds no canary.
func quiet(t *testing.T, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("%v, want %v", err, sentinel)
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err)} {
		if strings.Contains(text, canary) || len(text) > 400 {
			t.Fatalf("the error quotes the document: %s", text)
		}
	}
}

// oneBody is a Hub that answers everything with the same.
type oneBody struct {
	contentType string
	body        []byte
}

func (o oneBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {o.contentType}}, Request: r,
		Body: io.NopCloser(strings.NewReader(string(o.body))), ContentLength: int64(len(o.body)),
	}, nil
}

const fuzzOrigin = "https://hub.test"

func fuzzClient(t testing.TB, rt http.RoundTripper) *Client {
	t.Helper()
	c, err := NewClient(Config{HubURL: fuzzOrigin, Credential: Bearer("token"), Agent: Agent{ID: "deploybot/dev-team", RunID: "run_1"}, HTTPClient: &http.Client{Transport: rt}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A capability document is what a second reader and the schema see in it, or
// ErrProtocol. Whatever it names, the mailbox is at the configured origin.
//
// req: DISC-02, DISC-04, DISC-13
func FuzzACapabilityDocumentIsReadAsTheSecondReaderReadsIt(f *testing.F) {
	full := `{"ma2h_version":"0.4","max_body_bytes":65536,"max_part_bytes":262144,"max_context_parts":16,"auth_schemes":["bearer","CANARY"],` +
		`"callback_auth_schemes":["hmac"],"signature_algs":["hmac-sha256"],"rate_limit":{"requests_per_minute":60,"inbox_depth":1000},"retention_days":30,` +
		`"replay_window_seconds":120,"inbound":{"enabled":true,"poll_url":"https://hub.test/v1/inbox","ack_url":"https://hub.test/v1/inbox/ack","max_batch":32,` +
		`"visibility_timeout_seconds":60,"retention_days":30,"signature_algs":["ed25519"],"webhook_supported":true},"ack":{"enabled":true},"presence":{"enabled":true,"freshness_seconds":90}}`
	corpus := seeds.For(f)
	corpus.Add([]byte(full))
	for _, edit := range [][2]string{
		{`"0.4"`, `"0.3"`}, {`"0.4"`, `"0.9"`}, {`"0.4"`, `"1.0"`}, {`"0.4"`, `"0.03"`}, {`"ma2h_version":"0.4"`, `"CANARY":1`}, {`"ma2h_version"`, `"Ma2h_version"`},
		{`65536`, `6.5536E4`}, {`65536`, `0`}, {`65536`, `-1`}, {`65536`, `1e400`}, {`65536`, `"CANARY"`}, {`:16`, `:0`}, {`:16`, `:0.5`}, {`:32`, `:9007199254740993`},
		{`"enabled":true,"poll`, `"Enabled":true,"poll`}, {`"inbound":{"enabled":true`, `"inbound":{"enabled":false`}, {`"ack":{"enabled":true}`, `"ack":null`}, {`"ack":{"enabled":true}`, `"ack":{}`},
		{`https://hub.test/v1/inbox"`, `https://CANARY.test/v1/inbox"`}, {`https://hub.test/v1/inbox"`, `https://hub.test@CANARY/"`}, {`https://hub.test/v1/inbox"`, `//hub.test/v1/inbox"`},
		{`https://hub.test/v1/inbox"`, `https://hub.test/a?b=c#d"`}, {`https://hub.test/v1/inbox"`, `http://hub.test/v1/inbox"`},
		{`{"ma2h_version"`, `{"ma2h_version":"0.2","ma2h_version"`}, {`CANARY`, `\ud800`}, {`}}`, `},"later":[{"a":null}]}`}, {`}}`, `}`},
	} {
		corpus.Add([]byte(strings.Replace(full, edit[0], edit[1], 1)))
	}
	for _, s := range []string{"", "null", "[]", `"CANARY"`, "<html>CANARY</html>"} {
		corpus.Add([]byte(s))
	}
	corpus.Counted(33)
	f.Fuzz(func(t *testing.T, body []byte) {
		c := fuzzClient(t, oneBody{"application/json", body})
		doc, err := c.Capabilities(context.Background())
		if err != nil {
			if quiet(t, err, ErrProtocol); doc != nil || c.caps.doc != nil {
				t.Fatal("a document came with an error, or was kept")
			}
			return
		}
		if err := schema.Validate(types.V04, schema.Capability, body); err != nil {
			t.Fatalf("the schema refuses what was taken: %v", err)
		}
		m := members(body)
		enabled := func(leg string) bool { return at(m, leg, "enabled") == true }
		if doc.Version != textAt(m, "ma2h_version") || doc.OffersInbound() != enabled("inbound") || doc.OffersAck() != enabled("ack") || doc.OffersPresence() != enabled("presence") {
			t.Fatalf("%s reads as %+v", body, doc)
		}
		number := func(got int64, names ...string) {
			if want, _ := at(m, names...).(float64); want != float64(got) {
				t.Fatalf("%s of %s reads as %d", strings.Join(names, "."), body, got)
			}
		}
		number(doc.MaxBodyBytes, "max_body_bytes")
		number(doc.MaxPartBytes, "max_part_bytes")
		number(doc.RetentionDays, "retention_days")
		number(doc.ReplayWindowSeconds, "replay_window_seconds")
		if (doc.MaxContextParts != nil) != (m["max_context_parts"] != nil) {
			t.Fatalf("max_context_parts of %s reads as %v", body, doc.MaxContextParts)
		} else if doc.MaxContextParts != nil {
			number(*doc.MaxContextParts, "max_context_parts")
		}
		if i := doc.Inbound; i != nil {
			number(i.MaxBatch, "inbound", "max_batch")
			number(i.VisibilityTimeoutSeconds, "inbound", "visibility_timeout_seconds")
		}
		ep, err := (&Inbox{client: c}).endpoints(context.Background())
		switch {
		case err != nil && doc.OffersInbound():
			quiet(t, err, ErrProtocol)
		case err != nil:
			quiet(t, err, ErrUnsupported)
		default:
			for _, target := range []string{ep.drain(0, time.Minute), ep.ackURL} {
				u, err := url.Parse(target)
				if err != nil || u.Scheme+"://"+u.Host != fuzzOrigin || u.User != nil {
					t.Fatalf("the mailbox is at %q", target)
				}
			}
			if ep.maxBatch < 1 || ep.maxBatch > maxRows || ep.visibility <= 0 || ep.visibility > 24*time.Hour {
				t.Fatalf("%+v", ep)
			}
		}
	})
}

// errorSentinels are all that a refusal of a Hub can mean.
var errorSentinels = []error{
	ErrValidation, ErrVersion, ErrUnauthenticated, ErrAgentIDMismatch, ErrNotAuthorized, ErrNotFound, ErrGone, ErrIdempotencyConflict,
	ErrAlreadyTerminal, ErrNotAcknowledgeable, ErrInvalidField, ErrRateLimited, ErrRedirect, ErrUnavailable, ErrProtocol,
}

// A refusal is exactly one sentinel, that of a known code or else that of its
// status, and prints nothing of its text.
//
// req: ERR-04, ERR-07
func FuzzARefusalIsOneSentinelAndPrintsNoneOfItsText(f *testing.F) {
	corpus := seeds.For(f)
	n := 0
	for code := range kinds {
		corpus.Add(uint8(n), 400+n, "application/json", "", []byte(`{"error":{"code":"`+code+`","message":"CANARY"}}`))
		n++
	}
	for i, status := range []int{300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 409, 410, 418, 422, 429, 500, 501, 503, 599} {
		corpus.Add(uint8(i), status, "application/problem+json; charset=utf-8", "120", []byte(`{"error":{"code":"of_a_later_minor","message":"CANARY\u202e\u0007"},"id":"CANARY"}`))
	}
	for i, body := range []string{
		"", "null", "{}", "[]", "CANARY", "<html>CANARY", `{"error":null}`, `{"error":"CANARY"}`, `{"error":{"code":7}}`, `{"error":{"Code":"not_found"}}`, `{"Error":{"code":"not_found"}}`,
		`{"error":{"code":"not_found","code":"gone"}}`, `{"error":{"code":"\u006eot_found"}}`, `{"error":{"code":"\u200bnot_found"}}`, `{"error":{"code":"x","message":"` + strings.Repeat("é", 400) + canary + `"}}`,
		`{"error":{"code":"` + strings.Repeat("x", 70) + `"}}`,
	} {
		corpus.Add(uint8(i), 409, "application/json", "soon", []byte(body))
	}
	corpus.Counted(12 + 19 + 16)
	ops := []touchpoint{opSubmit, opGet, opCancel, opAck, opDiscover, opPresence, opInbox, opInboxAck}
	f.Fuzz(func(t *testing.T, op uint8, status int, contentType, retryAfter string, body []byte) {
		if status < 100 || status > 999 || status/100 == 2 {
			return
		}
		h := http.Header{"Content-Type": {contentType}, "Retry-After": {retryAfter}}
		e := apiError(ops[int(op)%len(ops)], "msg_1", &transport.Reply{Status: status, Header: h, Body: body}, time.Unix(0, 0))
		var is []error
		for _, s := range errorSentinels {
			if errors.Is(e, s) {
				is = append(is, s)
			}
		}
		if len(is) != 1 || e.Status != status || e.RetryAfter < 0 {
			t.Fatalf("%+v is %v", e, is)
		}
		// What it says of itself is what a second reader finds, or nothing.
		code, message := textAt(members(body), "error", "code"), textAt(members(body), "error", "message")
		mt, _, _ := mime.ParseMediaType(contentType)
		if e.Code != "" && (mt != "" && !strings.HasPrefix(mt, "application/") || !strings.HasPrefix(visible(code), e.Code)) || !strings.HasPrefix(visible(message), e.Message) {
			t.Fatalf("%s is read as code %q and message %q", body, e.Code, e.Message)
		}
		if want := kinds[e.Code]; want != nil && is[0] != want {
			t.Fatalf("code %q means %v", e.Code, is[0])
		}
		if len(e.Code) > limits.MaxErrorCode || len(e.Message) > limits.MaxErrorMessage {
			t.Fatalf("a code of %d and a message of %d bytes", len(e.Code), len(e.Message))
		}
		for _, text := range []string{e.Error(), fmt.Sprintf("%+v %#v", e, e), e.LogValue().String()} {
			if strings.Contains(text, canary) && !strings.Contains(e.Code, canary) || len(text) > 600 || strings.IndexFunc(text, unicode.IsControl) >= 0 {
				t.Fatalf("it prints %q", text)
			}
		}
	})
}

// visible is s without what moves the cursor or turns the line.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return -1
		}
		return r
	}, s)
}

// A 200 of the Hub to a GET, a cancel or a drain, and its 202 to a submit, are
// read as a second reader reads them, or are ErrProtocol.
//
// req: PUL-01
// report: B034
func FuzzAnAnswerIsReadAsTheSecondReaderReadsIt(f *testing.F) {
	answered := `{"ma2h_version":"0.3","type":"ask","created_at":"2026-06-01T12:00:00Z","agent":{"id":"deploybot/dev-team","run_id":"run_1","runtime":"other"},` +
		`"title":"CANARY","idempotency_key":"k","request":{"mode":"confirm","allowed_resolvers":["human:alice"]},"id":"msg_1","status":"answered",` +
		`"response":{"ma2h_version":"0.3","in_reply_to":"msg_1","resolution_id":"res_1","agent":{"id":"deploybot/dev-team","run_id":"run_1"},"resolution":"answered",` +
		`"response":{"value":"approve","actor":"human:alice","resolved_at":"2026-06-01T13:00:00Z","comment":"CANARY"},"state":{"n":1.50}}}`
	drained := `{"messages":[{"directive":{"ma2h_version":"0.4","type":"directive","id":"dir_1","from":"human:alice","to":"agent:a","created_at":"2026-06-21T12:00:00Z","title":"CANARY"},` +
		`"signature":"MA2H-Signature: t=1,jti=j,v1=x"},{"message":{},"signature":"s"},7]}`
	corpus := seeds.For(f)
	for _, s := range []string{
		answered, drained, `{"id":"msg_1","status":"open","poll_url":"https://hub.test/v1/messages/msg_1"}`, `{"id":"msg_1","status":"cancelled"}`,
		`{"error":{"code":"already_terminal","message":"CANARY","details":{"id":"msg_1","status":"answered"}}}`, `{"error":{"status":"expired"},"status":"answered"}`,
		`{"messages":[]}`, `{"messages":null}`, `{"messages":[],"messages":[]}`, `{"Messages":[],"messages":[{"CANARY":1}]}`, `{"messages":[{}]} {}`, `{"messages":[`, "", "[]", "null", "CANARY",
		`{"status":"delivered","id":"msg_1","poll_url":""}`, "{\"messages\":[{\"CANARY\":\"\xff\"}]}",
	} {
		corpus.Add([]byte(s))
	}
	for _, edit := range [][2]string{
		{`"status":"answered"`, `"status":"open"`}, {`"status":"answered"`, `"status":"CANARY"`}, {`"id":"msg_1"`, `"id":"msg_2"`}, {`"in_reply_to":"msg_1"`, `"in_reply_to":"msg_2"`},
		{`"resolution":"answered"`, `"resolution":"declined"`}, {`"value":"approve"`, `"VALUE":"deny","value":"approve"`}, {`"value":"approve"`, `"value":"deny","value":"approve"`},
		{`"value":"approve"`, `"value":{"n":9007199254740993}`}, {`"value":"approve"`, `"value":7`}, {`"actor":"human:alice"`, `"actor":"system:default_on_expire"`}, {`1.50`, `1e400`},
		{`"approve"`, `"\u0061pprove"`}, {`"ma2h_version":"0.3","in`, `"ma2h_version":"0.2","in`}, {`"response":{"value"`, `"Response":{"value"`}, {`"state":{"n":1.50}`, `"state":null,"defaulted":true`},
	} {
		corpus.Add([]byte(strings.Replace(answered, edit[0], edit[1], 1)))
	}
	corpus.Counted(33)
	f.Fuzz(func(t *testing.T, body []byte) {
		reply := &transport.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
		m := members(body)

		if got, err := readMessage("msg_1", reply); err != nil {
			quiet(t, err, ErrProtocol)
		} else {
			sameMessage(t, got, m)
		}

		if end := cancelOutcome(body); end.Status != "" {
			found := false
			for _, path := range [][]string{nil, {"error"}, {"error", "details"}} {
				found = found || textAt(at(m, path...), "status") == string(end.Status) && textAt(at(m, path...), "id") == end.ID
			}
			if !found {
				t.Fatalf("%s: a cancel reads as %v", body, end)
			}
		}

		if ack, err := fuzzReader.readAck(types.VerbAsk, "k", reply); err != nil {
			quiet(t, err, ErrProtocol)
		} else if ack.ID != textAt(m, "id") || ack.ID == "" || string(ack.Status) != textAt(m, "status") {
			t.Fatalf("%s: an ack reads as %+v", body, ack)
		}

		rows, err := readBatch(body)
		if err != nil {
			if quiet(t, err, ErrProtocol); rows != nil {
				t.Fatal("rows came with an error")
			}
			return
		}
		var batch map[string][]json.RawMessage
		list, _ := m["messages"].([]any)
		if _ = json.Unmarshal(body, &batch); list == nil || len(rows) != min(len(list), maxRows) {
			t.Fatalf("%s: %d rows", body, len(rows))
		}
		for i, r := range rows {
			var came any
			if json.Unmarshal(r, &came) != nil || !reflect.DeepEqual(came, list[i]) {
				t.Fatalf("row %d of %s is %s", i, body, r)
			}
			e, err := r.entry()
			switch {
			case err != nil:
				if strings.Contains(err.Error(), canary) {
					t.Fatal(err)
				}
			case e.Signature != textAt(came, "signature"), e.Directive != nil && !reflect.DeepEqual(any(members(e.Directive)), at(came, "directive")):
				t.Fatalf("row %s reads as %s and %q", r, e.Directive, e.Signature)
			}
			if r.content() != row(bytes.Clone(r)).content() {
				t.Fatal("a row is not itself")
			}
		}
	})
}

var fuzzReader = &Client{cfg: Config{Agent: Agent{ID: "deploybot/dev-team"}}}

func sameMessage(t *testing.T, got *Message, m map[string]any) {
	t.Helper()
	if got.Wire.ID != "msg_1" || textAt(m, "id") != "msg_1" || string(got.Wire.Status) != textAt(m, "status") {
		t.Fatalf("%v reads as %v", m, got.Wire)
	}
	r := got.Response
	if ended := Resolution(got.Wire.Status).Known(); ended != (r != nil) {
		t.Fatalf("status %s has the Response %v", got.Wire.Status, r)
	}
	if r == nil {
		return
	}
	detail := at(m, "response", "response")
	value := at(detail, "value")
	text, isText := r.Text()
	want, wantText := value.(string)
	if !r.Pulled() || !r.PayloadBound() || r.MessageID() != "msg_1" || r.ResolutionID() != textAt(m, "response", "resolution_id") ||
		string(r.Resolution()) != textAt(m, "status") || r.Actor() != textAt(detail, "actor") || r.Comment() != textAt(detail, "comment") ||
		isText != wantText || text != want || r.Answered("approve") != (want == "approve" && r.Resolution() == Answered) {
		t.Fatalf("%v reads as %v", m, r)
	}
	if object, ok := value.(map[string]any); ok {
		var got map[string]any
		if err := r.Decode(&got); err != nil || !reflect.DeepEqual(got, object) {
			t.Fatalf("%v reads as %v, %v", object, got, err)
		}
	}
	if state := at(m, "response", "state"); state != nil || r.State() != nil {
		if got := members(r.State()); !reflect.DeepEqual(any(got), state) {
			t.Fatalf("the state %v reads as %v", state, got)
		}
	}
}
