package history

import "fmt"

// checkVouches judges (f): no member vouches for the connection that owns a session after another
// member has applied the session's expiry. A check counts at the time for which it was made.
// Vouching at the very moment of the expiry is allowed. Vouching for another connection is not
// judged, because the log rejects all requests of such a connection.
//
// A client may still receive something later, by the time between a check and the wire.
func checkVouches(b *indexedHistory, found func(Violation)) {
	for _, v := range b.Vouches {
		l := b.sessions[v.Session]
		if !v.Allowed || l == nil || l.closed == nil || !l.closed.Expired {
			continue
		}
		first, ok := l.closedElsewhere(v.Member)
		owner := l.closed.Owner
		if !ok || v.At <= first.At || v.Member != owner.Member || v.Conn != 0 && v.Conn != owner.Conn {
			continue
		}
		found(Violation{
			Fault: vouchedDead, Session: v.Session, At: v.At, Index: first.Index, Zxid: first.Zxid,
			Detail: fmt.Sprintf("member %d vouched, %v after member %d had applied the expiry", v.Member, v.At-first.At, first.Member),
		})
	}
}

// closedElsewhere returns the first close that a member other than this one has applied.
func (l *sessionLife) closedElsewhere(member uint32) (first Life, ok bool) {
	for _, c := range l.closes {
		if c.Member != member && (!ok || c.At < first.At) {
			first, ok = c, true
		}
	}
	return first, ok
}
