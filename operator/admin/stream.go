package admin

import (
	"net/http"
	"time"

	"rollcall/operator/api"
)

const (
	// heartbeatInterval is the time after which a stream of events gets a comment, so that its reader knows that it
	// works. Readers take one as broken after some of these.
	heartbeatInterval = 5 * time.Second
	// maxStreamTime is the longest life of a stream. A page that was forgotten connects again.
	maxStreamTime = 24 * time.Hour
	// maxAnonymousStreamTime is the same for a reader without credentials. There are few places for streams, and a
	// page that is looked at takes one again at once.
	maxAnonymousStreamTime = 10 * time.Minute
)

func (s *eventStreams) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/events", access: readAccess, content: showsState, timeout: maxStreamTime, responseBody: api.Events{}, failureStatuses: []int{http.StatusServiceUnavailable},
			help: "a stream of events: the status of all members, the time axis, sessions that come and go, and the load", serve: s.serveEvents,
		},
	}
}

// serveEvents sends events until the client leaves, falls behind, or the member stops.
func (s *eventStreams) serveEvents(w http.ResponseWriter, r *http.Request) {
	if q := newQuery(&endpoint{}, r, s.authorizer.administratorOf(r)); q.fault != nil {
		q.fault.write(w, r)
		return
	}
	by, lasts := s.authorizer.administratorOf(r), maxStreamTime
	if by == "" {
		lasts = maxAnonymousStreamTime
	}
	one, failure := s.addReader(by)
	if failure != nil {
		failure.write(w, r)
		return
	}
	defer s.removeReader(one)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	beat, over := time.NewTicker(heartbeatInterval), time.NewTimer(lasts)
	defer beat.Stop()
	defer over.Stop()
	frame := []byte("retry: 1000\n\n")
	for {
		if _, err := w.Write(frame); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-one.endSignal:
			return
		case <-over.C:
			return
		case <-beat.C:
			frame = []byte(":\n\n")
		case frame = <-one.frames:
		}
	}
}
