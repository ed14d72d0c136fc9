package ma2htest

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

const callbackURL = "https://bot.example/ma2h"

// receiver is a callback that answers what a test says and notes what it got.
type receiver struct {
	hub    *Hub
	mu     sync.Mutex
	got    []arrived
	answer func(n int) int // by number of the arrival, from 1; nil is 204
}

type arrived struct {
	at     time.Time
	header http.Header
	body   []byte
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.got = append(r.got, arrived{r.hub.Now(), req.Header.Clone(), body})
	n := len(r.got)
	r.mu.Unlock()
	status := http.StatusNoContent
	if r.answer != nil {
		status = r.answer(n)
	}
	if status == http.StatusFound {
		w.Header().Set("Location", callbackURL+"/elsewhere")
	}
	w.WriteHeader(status)
}

func (r *receiver) arrivals() []arrived {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrived(nil), r.got...)
}

// first answers those statuses, and then the last of them.
func first(statuses ...int) func(int) int {
	return func(n int) int { return statuses[min(n, len(statuses))-1] }
}

func serve(t testing.TB, hub *Hub, answer func(int) int) *receiver {
	t.Helper()
	r := &receiver{hub: hub, answer: answer}
	hub.ServeCallback(callbackURL, r)
	return r
}

// pushAsk is an ask that wants its answer pushed.
func pushAsk(key string, callback fields, more ...fields) string {
	cb := fields{"mode": "push", "url": callbackURL}
	for k, v := range callback {
		cb[k] = v
	}
	base := fields{"request": fields{
		"mode":              "select",
		"options":           []fields{{"value": "ship", "label": "Ship"}, {"value": "hold", "label": "Hold"}},
		"allowed_resolvers": []string{alice},
		"callback":          cb,
	}, "state": fields{"sealed": "blob"}}
	return envelope("ask", key, append([]fields{base}, more...)...).json()
}

func pushTask(key string) string {
	return envelope("task", key, fields{"action": fields{
		"instructions": "Rotate the key.", "allowed_resolvers": []string{alice},
		"callback": fields{"mode": "push", "url": callbackURL},
	}}).json()
}

// answered submits and answers "hold".
func answered(t testing.TB, hub *Hub, body string) string {
	t.Helper()
	id := memory(t, hub).submit(body)
	if err := hub.Answer(id, "hold"); err != nil {
		t.Fatal(err)
	}
	return id
}
