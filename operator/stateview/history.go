package stateview

import (
	"context"
	"iter"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// removalRows returns the removals that this member remembers before a place in the log, newest first.
func (v Viewer) removalRows(ctx context.Context, q *proto.ViewRemovals) *proto.RemovalRows {
	limit, size := rowLimit(q.Limit), 0
	r := &proto.RemovalRows{}
	part := make([]znode.Removal, 0, listedPerLock)
	for zxid, number, more := q.Zxid, q.Part, limit > 0; more && ctx.Err() == nil; more = len(part) == listedPerLock {
		part = v.appendRemovals(part[:0], zxid, number)
		for i := range part {
			one := &part[i]
			zxid, number = one.Zxid, one.TxnPart
			if len(q.Path) > 0 && one.Path != string(q.Path) {
				continue
			}
			if len(r.Rows) == limit || size > view.MaxBytes {
				last := r.Rows[len(r.Rows)-1]
				r.NextZxid, r.NextPart = last.Zxid, last.Part
				return r
			}
			size += len(one.Path) + len(one.Address)
			r.Rows = append(r.Rows, newRemovalRow(one))
		}
	}
	return r
}

// appendRemovals appends the removals before a place, as many as are listed under one hold of the lock.
func (v Viewer) appendRemovals(part []znode.Removal, zxid int64, number uint32) []znode.Removal {
	tree := v.State
	tree.RLock()
	defer tree.RUnlock()
	for one := range tree.RemovalsBefore(zxid, number) {
		if part = append(part, one); len(part) == listedPerLock {
			break
		}
	}
	return part
}

func newRemovalRow(r *znode.Removal) *proto.RemovalRow {
	return &proto.RemovalRow{
		Path: []byte(r.Path), Zxid: r.Zxid, Part: r.TxnPart, RemovedMs: r.AtMs, Cause: removalCauses[r.Cause],
		Member: r.Member, Session: uint64(r.Session), Address: []byte(r.Address),
	}
}

var removalCauses = map[znode.RemovalCause]proto.RemovalCause{
	znode.CauseDeleted:        proto.RemovalCause_REMOVAL_CAUSE_DELETE,
	znode.CauseSessionEnded:   proto.RemovalCause_REMOVAL_CAUSE_SESSION_ENDED,
	znode.CauseTTLExpired:     proto.RemovalCause_REMOVAL_CAUSE_TTL,
	znode.CauseEmptyContainer: proto.RemovalCause_REMOVAL_CAUSE_CONTAINER,
}

// EndFilter selects ends of sessions. The zero value selects all.
type EndFilter struct {
	Session jute.SessionID // 0: of any session
	Address string         // the client's host, or its host and port, as in a view.ClientFilter; "": any
	Before  uint64         // the number of the last end of the previous page; 0: from the newest on
}

// SessionEnds yields the ends of sessions that of selects, newest first. The state keeps the last 10,000. It holds the tree's lock for one part of them at a time.
func (v Viewer) SessionEnds(of EndFilter) iter.Seq[znode.SessionEnd] {
	return func(yield func(znode.SessionEnd) bool) {
		part, from := make([]znode.SessionEnd, 0, listedPerLock), view.NewClientFilter(of.Address)
		for before, more := of.Before, true; more; {
			part = appendEnds(v.State, part[:0], before)
			for _, end := range part {
				wanted := (of.Session == 0 || of.Session == end.Session) && from.Matches(end.Address)
				if wanted && !yield(end) {
					return
				}
				before = end.Number
			}
			more = len(part) == listedPerLock
		}
	}
}

// EndRow returns the row of the end of a session.
func EndRow(e znode.SessionEnd) api.End {
	return api.End{
		ID: e.Session.String(), State: "ended", EndedAt: e.EndedAt().UTC().Truncate(time.Millisecond), Reason: e.Reason.String(),
		EndedBy: e.RequestedBy, Address: e.Address,
		MemberID: e.Member, LeaderID: e.Leader, Term: e.Term, Zxid: view.ZxidText(e.Zxid),
		SilentMs:  e.SilentFor.Milliseconds(),
		TimeoutMs: e.Timeout.Milliseconds(), EphemeralCount: e.EphemeralCount, Number: e.Number,
	}
}

func appendEnds(state *znode.State, part []znode.SessionEnd, before uint64) []znode.SessionEnd {
	state.RLock()
	defer state.RUnlock()
	for end := range state.SessionEndsBefore(before) {
		if part = append(part, end); len(part) == listedPerLock {
			break
		}
	}
	return part
}
