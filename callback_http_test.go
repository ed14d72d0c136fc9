package ma2h_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/ma2h/ma2h-go"
)

// report: B066
func TestABodyOfExactlyTheBoundIsTaken(t *testing.T) {
	for over, want := range []int{200, 413} {
		r := newCallbackRig(t, func(_ *CallbackConfig, v *VerifierConfig) { v.MaxBody = len(trustBody) - over })
		if w := r.post(trustHead(t, "j"), trustBody); w.Code != want || len(r.acts()) != 1-over {
			t.Errorf("%d bytes over: answered %d", over, w.Code)
		}
		if out := r.Process(t.Context(), trustHead(t, "j"), []byte(trustBody)); out.Status != want || len(r.acts()) != 1-over {
			t.Errorf("%d bytes over: Process gives %v", over, out)
		}
		// Of unknown length.
		req := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(trustBody)))
		req.Header = trustHead(t, "j")
		w := httptest.NewRecorder()
		if r.ServeHTTP(w, req); w.Code != want || len(r.acts()) != 1-over {
			t.Errorf("%d bytes over, chunked: answered %d", over, w.Code)
		}
	}
}

// A Hub that sends nothing at all is at fault itself, unlike one whose body
// somebody has taken.
func TestAnEmptyPushIsMalformed(t *testing.T) {
	r := newCallbackRig(t)
	if w := r.post(trustHead(t, "j"), ""); w.Code != 400 || len(r.acts()) != 0 || r.store.diary() != nil {
		t.Errorf("answered %d", w.Code)
	}
}

// req: HND-03
func TestTheBodyOfAStrangerIsNotRead(t *testing.T) {
	r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.BearerToken = []string{"token-of-the-hub"} })
	for token, want := range map[string]int{"Bearer another": 401, "Bearer token-of-the-hub": 200} {
		body := &bodyReader{Reader: strings.NewReader(trustBody)}
		req := httptest.NewRequest(http.MethodPost, "/", body)
		req.Header, req.Body = trustHead(t, "j"), body
		req.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != want || (body.n > 0) != (want == 200) || len(r.acts()) != map[int]int{200: 1}[want] {
			t.Errorf("%s: answered %d after %d bytes", token, w.Code, body.n)
		}
		r.acted = nil
	}
}

// Nothing but a header's one line is a credential, whatever made the map.
//
// req: HND-03
func TestAHeaderThatIsNoCredentialIsRefusedAndNotTrippedOver(t *testing.T) {
	r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.BearerToken = []string{"t"} })
	for _, lines := range [][]string{{}, {""}, {" "}, {"Bear"}, {"Bearer"}, {"Bearer  t"}, {"Bearert"}, {"t"}} {
		head := trustHead(t, "j")
		head["Authorization"] = lines
		if out := r.Process(t.Context(), head, []byte(trustBody)); out.Status != 401 || !errors.Is(out.Err, ErrToken) || len(r.acts()) != 0 {
			t.Errorf("%q: %v", lines, out)
		}
	}
	head := trustHead(t, "j")
	head["Authorization"] = []string{"Bearer t"}
	if out := r.Process(t.Context(), head, []byte(trustBody)); out.Status != 200 || len(r.acts()) != 1 {
		t.Errorf("the credential: %v", out)
	}
}

func TestOnlyARefusalOfTheMethodSaysWhichIsAllowed(t *testing.T) {
	r := newCallbackRig(t)
	for want, body := range map[int]string{200: trustBody, 400: "{"} {
		if w := r.post(trustHead(t, "j"), body); w.Code != want || w.Header().Get("Allow") != "" {
			t.Errorf("answered %d, Allow: %s", w.Code, w.Header().Get("Allow"))
		}
	}
}

// req: HND-05
func TestA503AsksForAsLongAsIsConfigured(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "5", time.Second: "1", 1500 * time.Millisecond: "2", time.Nanosecond: "1", time.Minute: "60"} {
		r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.RetryAfter = d })
		r.store.failing("Lookup", errors.New("down"))
		if w := r.post(trustHead(t, "j"), trustBody); w.Code != 503 || w.Header().Get("Retry-After") != want {
			t.Errorf("%s: answered %d, Retry-After %q", d, w.Code, w.Header().Get("Retry-After"))
		}
	}
}

// report: B066
func TestTheReadTimeoutIsTheOneConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for d, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 3 * time.Second: 3 * time.Second, time.Nanosecond: time.Nanosecond} {
			r := newCallbackRig(t, func(c *CallbackConfig, _ *VerifierConfig) { c.ReadTimeout = d })
			var deadlines []time.Time
			req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(trustBody))
			req.Header = trustHead(t, "j")
			r.ServeHTTP(deadlineNoter{httptest.NewRecorder(), &deadlines}, req)
			if !slices.EqualFunc(deadlines, []time.Time{time.Now().Add(want), {}}, time.Time.Equal) {
				t.Errorf("%s: the deadlines are %v at %v", d, deadlines, time.Now())
			}
		}
	})
}

type deadlineNoter struct {
	*httptest.ResponseRecorder
	set *[]time.Time
}

func (w deadlineNoter) SetReadDeadline(t time.Time) error {
	*w.set = append(*w.set, t)
	return nil
}

// A Content-Length is the word of a stranger.
//
// report: B066
func TestWhatIsAnnouncedIsNotAllocatedBeforeItComes(t *testing.T) {
	r := newCallbackRig(t)
	head := trustHead(t, "j")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 50
	for range n {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		req.Header, req.ContentLength = head, 1<<20
		w := httptest.NewRecorder()
		if r.ServeHTTP(w, req); w.Code != 503 {
			t.Fatalf("answered %d", w.Code)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 1<<19 {
		t.Errorf("a request that announces 1 MiB and brings 2 bytes allocates %d", each)
	}
}
