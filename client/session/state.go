package session

import (
	"cmp"
	"time"
)

// State is the state of a session.
type State int

// These are all states. Expired, Closed and AuthFailed are final. A Session begins in Connecting. From Connected,
// Reconnected and ReadOnly it goes to Suspended when the connection breaks.
const (
	Connecting  State = iota + 1 // the Session tries its first connection
	Connected                    // requests pass, for the first time on this session
	Suspended                    // there is no connection; the Session tries to connect
	Reconnected                  // requests pass again, on the same session
	ReadOnly                     // reads pass: the server has no leader; the Session searches for one that has
	Expired                      // the servers have expired the session, or the Session has given up
	Closed                       // by Close or Abandon
	AuthFailed                   // a server has rejected the login or an identity
)

var stateNames = map[State]string{
	Connecting: "connecting", Connected: "connected", Suspended: "suspended", Reconnected: "reconnected",
	ReadOnly: "read-only", Expired: "expired", Closed: "closed", AuthFailed: "auth failed",
}

// String returns the state's name.
func (s State) String() string { return cmp.Or(stateNames[s], "no state") }

// IsConnected reports whether requests pass in this state, if only reads.
func (s State) IsConnected() bool { return s == Connected || s == Reconnected || s == ReadOnly }

// IsFinal reports whether no other state follows.
func (s State) IsFinal() bool { return s == Expired || s == Closed || s == AuthFailed }

// Change is a change of a session's state.
type Change struct {
	State  State
	Err    error     // the reason of Suspended, Expired and AuthFailed; nil with the others
	Server string    // the server of the connection, or of the last one; "" before the first
	At     time.Time // when it was noticed

	LastZxid int64 // the greatest in a reply or event before it
}

// reportState calls the caller's function with a change. All changes are reported by the reader, so they come in order.
func (r *reader) reportState(s State, why error) {
	if s != Connecting && (s != Closed || why != nil) {
		id, _ := r.c.Identity()
		r.c.log.Info("session "+s.String(), "session", id, "server", r.lastServer, "reason", why)
	}
	if r.c.cfg.OnState != nil {
		r.c.deferWritesToReader()
		r.c.cfg.OnState(Change{State: s, Err: why, Server: r.lastServer, At: time.Now(), LastZxid: r.c.LastZxid()})
	}
}

// reportConnected reports that requests pass on l.
func (r *reader) reportConnected(l *link) {
	r.lastServer = l.server.addr
	switch {
	case l.readOnly:
		r.reportState(ReadOnly, nil)
	case r.wasConnected:
		r.reportState(Reconnected, nil)
	default:
		r.wasConnected = true
		r.reportState(Connected, nil)
	}
}
