package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"rollcall/operator/api"
	"rollcall/operator/past"
	"rollcall/operator/past/served"
	"rollcall/operator/view"
)

func underV1(r *http.Request) bool {
	return r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/")
}

// serveJSON serves an endpoint under /v1/.
func (h *HTTP) serveJSON(e *endpoint, w http.ResponseWriter, r *http.Request) {
	q := newQuery(e, r, h.authorizer.administratorOf(r))
	q.paths = h.authorizer.pathFilterFor(r)
	q.rejectHiddenPath()
	q.rejectUnknownMember(h.health.source.Ensemble())
	e.writeReply(q, w, r)
}

// writeReply writes the reply to a checked request under /v1/, or its fault.
func (e *endpoint) writeReply(q *query, w http.ResponseWriter, r *http.Request) {
	var answer any
	var err error
	if q.fault == nil {
		answer, err = e.replyJSON(q)
	}
	switch {
	case q.fault != nil:
		q.fault.write(w, r)
	case err != nil:
		failureFrom(err).write(w, r)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

// failureFrom returns the Failure for an error of the member.
func failureFrom(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	if errors.Is(err, view.ErrBadCursor) {
		return &Failure{
			Status: http.StatusBadRequest,
			Text:   "from: this is not the next of an earlier page of this list; leave it out to begin with the first page",
		}
	}
	return &Failure{Status: http.StatusServiceUnavailable, Text: strings.TrimPrefix(err.Error(), "view: ")}
}

// pastFailure returns the Failure for an error of package served. command is the command that shows the same.
func pastFailure(err error, command string) *Failure {
	text := strings.TrimPrefix(err.Error(), "past: ")
	switch {
	case errors.Is(err, past.ErrTooLarge):
		return &Failure{
			Status: http.StatusNotImplemented, Reason: api.ReasonTooLarge,
			Text: text + " on a member, which has clients; use the command rollcall " + command + ", which builds the state in its own process",
		}
	case errors.Is(err, served.ErrTooSlow):
		return &Failure{
			Status: http.StatusServiceUnavailable,
			Text: text + ": a member builds states for a quarter of a processor's time; use the command rollcall " + command +
				", which builds the state in its own process",
		}
	case errors.Is(err, past.ErrTooEarly), errors.Is(err, past.ErrTooLate), errors.Is(err, past.ErrNeverGiven), errors.Is(err, past.ErrGap):
		return &Failure{Status: http.StatusNotFound, Text: text}
	case errors.Is(err, served.ErrBusy):
		return &Failure{Status: http.StatusServiceUnavailable, Text: text + "; try again"}
	}
	return failureFrom(err)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if text, isText := v.(json.RawMessage); isText {
		_, _ = w.Write(text) // a client that left needs no reply
		return
	}
	e := json.NewEncoder(w) // it writes everything at once, from a buffer that it uses again
	e.SetEscapeHTML(false)  // no browser takes it for HTML, and a page of paths could have six times the bytes
	if err := e.Encode(v); isEncodingFault(err) {
		panic("admin: the types of package api do not encode: " + err.Error())
	}
}

// isEncodingFault reports whether err is a fault of the value, and not of a client that left.
func isEncodingFault(err error) bool {
	_, value := errors.AsType[*json.UnsupportedValueError](err)
	_, typed := errors.AsType[*json.UnsupportedTypeError](err)
	_, marshaler := errors.AsType[*json.MarshalerError](err)
	return value || typed || marshaler
}
