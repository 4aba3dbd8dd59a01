package follower

import "rollcall/proto"

// lostReports are what the last leaders have said about members that they did not hear: each ping replaces what the one before has
// said. The next leader gets it, because it counts the silence of the sessions of members that are lost. It is not safe for
// concurrent use.
type lostReports struct{ newest, previous lostReport }

// lostReport is a leader's report in a term.
type lostReport struct {
	nonce  uint64
	report *proto.LostMembers // nil: none
}

// record records the report of a ping. Pings come on several streams, and a later one may come first.
func (l *lostReports) record(ping *proto.Ping) {
	r := ping.GetLost()
	known := l.newest.report
	switch {
	case r == nil || known.GetTerm() > r.Term || known.GetTerm() == r.Term && known.GetOrder() >= r.Order:
		return
	case ping.Nonce != l.newest.nonce:
		l.previous = l.newest
	}
	l.newest = lostReport{ping.Nonce, r}
}

// before returns the newest report of a term before that with a nonce, or nil.
func (l *lostReports) before(nonce uint64) *proto.LostMembers {
	if l.newest.nonce == nonce {
		return l.previous.report
	}
	return l.newest.report
}
