package ma2h

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP implements http.Handler.
func (h *CallbackHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := h.serve(w, r)
	if out.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(out.RetryAfter.Seconds()))))
	}
	if out.Status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(out.Status)
	_, _ = io.WriteString(w, answers[out.Status])
}

// answers are the bodies: a code and nothing that an attacker could learn
// from.
var answers = map[int]string{
	http.StatusOK:                    `{}`,
	http.StatusBadRequest:            `{"error":{"code":"validation_error"}}`,
	http.StatusUnauthorized:          `{"error":{"code":"unauthenticated"}}`,
	http.StatusForbidden:             `{"error":{"code":"not_authorized"}}`,
	http.StatusNotFound:              `{"error":{"code":"not_found"}}`,
	http.StatusMethodNotAllowed:      `{"error":{"code":"validation_error"}}`,
	http.StatusRequestEntityTooLarge: `{"error":{"code":"validation_error"}}`,
	http.StatusUnsupportedMediaType:  `{"error":{"code":"validation_error"}}`,
	http.StatusServiceUnavailable:    `{"error":{"code":"unavailable"}}`,
}

func (h *CallbackHandler) serve(w http.ResponseWriter, r *http.Request) Outcome {
	if !h.made() {
		return h.Process(r.Context(), nil, nil)
	}
	if r.Method != http.MethodPost {
		return h.done(r.Context(), Outcome{Err: errMethod})
	}
	if !isApplicationJSON(r.Header.Get("Content-Type")) {
		return h.done(r.Context(), Outcome{Err: errType})
	}
	// A stranger is not waited for: the credential comes before the body.
	if err := h.checkToken(r.Header); err != nil {
		return h.done(r.Context(), Outcome{Err: err})
	}
	body, err := h.read(w, r)
	if err != nil {
		return h.done(r.Context(), Outcome{Err: err})
	}
	return h.Process(r.Context(), r.Header, body)
}

// isApplicationJSON looks at the type alone: a parameter that is written wrong
// harms nobody.
func isApplicationJSON(ct string) bool {
	if ct == "application/json" {
		return true // as nearly all write it
	}
	ct, _, _ = mime.ParseMediaType(ct)
	return ct == "application/json"
}

func (h *CallbackHandler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	most := int64(h.cfg.Verifier.cfg.MaxBody)
	if r.ContentLength > most {
		return nil, errTooLarge
	}
	// A writer that cannot set deadlines leaves slow bodies to the server.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.cfg.ReadTimeout))
	var body []byte
	var err error
	if r.Body != nil {
		body, err = readAll(http.MaxBytesReader(w, r.Body, most), min(r.ContentLength, maxPresize))
	}
	switch {
	case err != nil:
		// The deadline stays: the server drains what is left of the body.
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, errTooLarge
		}
		return nil, errBody
	case len(body) == 0 && r.ContentLength != 0, int64(len(body)) < r.ContentLength:
		return nil, errConsumed
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// maxPresize bounds what is allocated on the word of a Content-Length.
const maxPresize = 64 << 10

func readAll(r io.Reader, size int64) ([]byte, error) {
	var b bytes.Buffer
	if size > 0 {
		b.Grow(int(size) + bytes.MinRead)
	}
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// checkToken compares in constant time, and by digest so that the length of
// the secret does not show.
func (h *CallbackHandler) checkToken(head http.Header) error {
	if len(h.tokens) == 0 {
		return nil
	}
	name := h.cfg.APIKeyHeader
	if h.bearer {
		name = "Authorization"
	}
	got, ok := only(head, name)
	if h.bearer {
		scheme, token, _ := strings.Cut(got, " ")
		ok, got = ok && strings.EqualFold(scheme, "Bearer"), token
	}
	if !ok {
		return errToken
	}
	found := 0
	g := sha256.Sum256([]byte(got))
	for _, w := range h.tokens {
		found |= subtle.ConstantTimeCompare(g[:], w[:])
	}
	if found != 1 {
		return errToken
	}
	return nil
}

// only returns the one line of a header, under any case of its name: the map
// given to Process may not have been made by net/http.
func only(head http.Header, name string) (value string, ok bool) {
	lines := 0
	for n, values := range head {
		if strings.EqualFold(n, name) {
			for _, value = range values {
				lines++
			}
		}
	}
	return value, lines == 1
}
