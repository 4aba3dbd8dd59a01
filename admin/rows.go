package admin

import (
	"fmt"
	"time"

	"rollcall/api"
	"rollcall/jute"
	"rollcall/view"
	"rollcall/znode"
)

// This file turns what the member knows into the types of package api.

// listOf returns a page as it is sent.
func listOf[T, R any](a view.Answer[T], row func(T) R) api.List[R] {
	page := api.List[R]{Items: make([]R, len(a.Rows)), Next: string(a.Next), Silent: silences(a.Silent)}
	for i := range a.Rows {
		page.Items[i] = row(a.Rows[i])
	}
	return page
}

func silences(all []view.Silence) []api.Silence {
	rows := make([]api.Silence, len(all))
	for i, s := range all {
		rows[i] = api.Silence{Member: s.Member, Reason: s.Reason.String(), Detail: s.Detail}
	}
	return rows
}

func memberRow(s view.Status) api.Member {
	row := api.Member{
		Member: s.Member, Console: s.Console, Role: s.Role, Leader: s.Leader, Term: s.Term, Clients: s.Clients, Quorum: s.Quorum, Election: s.Election,
		Zxid: hexOf(s.Zxid), Applied: s.Applied, Committed: s.Committed, Sessions: s.Sessions, Connections: s.Connections, Watches: s.Watches,
		DataBytes: s.DataBytes, LogBytes: s.LogBytes, Snapshot: s.SnapshotIndex, Digest: s.Digest.String(), DigestIndex: s.DigestIndex,
		Version: s.Version, Started: at(s.Started), ClockMs: s.ClockAhead.Milliseconds(), Joining: s.Joining, Drained: s.Drained, NoMemory: s.NoMemory, Removed: s.Removed, Exposed: s.Exposed, Stalled: s.Stalled, Damaged: s.Damaged,
	}
	if s.LagKnown {
		row.Lag = &s.Lag
	}
	if !s.SnapshotAt.IsZero() {
		written := at(s.SnapshotAt)
		row.SnapshotAt = &written
	}
	return row
}

func sessionRow(s view.Session) api.Session {
	row := api.Session{
		ID: s.ID.String(), State: s.State.String(), Member: s.Member, Address: s.Address, TimeoutMs: s.Timeout.Milliseconds(),
		Created: at(s.Created), Ephemerals: s.Ephemerals, Watches: s.Watches,
	}
	if s.Timed {
		left, heard := s.Left.Milliseconds(), s.Heard.Milliseconds()
		row.LeftMs, row.HeardMs = &left, &heard
	}
	if s.Connection != nil {
		c := connectionRow(view.Connection{Member: s.Member, Connection: *s.Connection})
		row.Connection = &c
	}
	return row
}

func connectionRow(c view.Connection) api.Connection {
	row := api.Connection{
		TLS: c.TLS, Cipher: c.Cipher,
		Member: c.Member, Number: c.Number, Address: c.Addr, Session: idOf(c.Session), TimeoutMs: c.Timeout.Milliseconds(), Established: at(c.Established),
		Received: c.Received, Sent: c.Sent, Queued: c.Queued, LastZxid: hexOf(c.Zxid),
		LastUs: c.LastLatency.Microseconds(), MinUs: c.MinLatency.Microseconds(), AvgUs: c.AvgLatency.Microseconds(), MaxUs: c.MaxLatency.Microseconds(),
	}
	if c.Replies > 0 {
		row.LastOp = c.Op.String()
	}
	return row
}

func watchRow(w view.Watch) api.Watch {
	return api.Watch{
		Member: w.Member, Connection: w.Connection, Session: idOf(w.Session), Path: w.Path,
		Data: w.Data, Children: w.Children, Persistent: w.Persistent, Recursive: w.Recursive,
	}
}

func ownerRow(path string, o view.Owner) api.Owner {
	row := api.Owner{Path: path, Kind: o.Kind.String(), ID: idOf(o.ID), Ended: o.Ended, Silent: silences(o.Silent)}
	if o.ID != 0 && !o.Ended {
		s := sessionRow(o.Session)
		row.Session = &s
	}
	return row
}

func endRow(e znode.End) api.End {
	return api.End{
		ID: e.Session.String(), State: "ended", Ended: at(e.At()), Reason: e.Reason.String(), By: e.By, Address: e.Address,
		Member: e.Member, Leader: e.Leader, Term: e.Term, Zxid: hexOf(e.Zxid), SilentMs: e.Silent.Milliseconds(),
		TimeoutMs: e.Timeout.Milliseconds(), Ephemerals: e.Ephemerals, Number: e.Number,
	}
}

// at returns a time in UTC, in milliseconds.
func at(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// idOf returns the id of a session, or "" if there is none.
func idOf(id jute.SessionID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

// hexOf returns a zxid as operators see it.
func hexOf(zxid int64) string { return fmt.Sprintf("0x%x", uint64(zxid)) }
