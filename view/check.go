package view

import (
	"errors"
	"fmt"
	"time"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/tally"
)

// This file reads the replies of members. What is no answer to the question is refused as a whole, so
// that no member can make a page longer than it was asked for, or put rows into another member's place.

// maxText is the longest text in a status, in bytes. Addresses have at most 260, and reasons a few
// hundred.
const maxText = 4096

// errOther means that a reply is about something else.
var errOther = errors.New("the reply is about something else")

// sessionRows returns the sessions of a reply.
func sessionRows(r *proto.SessionRows, first uint64, limit int) (rows []Session, next uint64, err error) {
	switch {
	case r == nil:
		return nil, 0, errOther
	case len(r.Rows) > limit:
		return nil, 0, tooMany(len(r.Rows), limit)
	}
	rows = make([]Session, 0, len(r.Rows))
	for i, row := range r.Rows {
		if row.Id < first || i > 0 && row.Id <= r.Rows[i-1].Id {
			return nil, 0, fmt.Errorf("session %v is out of order", jute.SessionID(row.Id))
		}
		rows = append(rows, Session{
			ID: jute.SessionID(row.Id), Member: row.Member, Address: string(row.Address), Timeout: millis(uint64(row.TimeoutMs)),
			Created: time.UnixMilli(row.CreatedMs), Ephemerals: int(row.Ephemerals),
		})
	}
	if n := len(r.Rows); r.Next != 0 && (r.Next <= first || n > 0 && r.Next <= r.Rows[n-1].Id) {
		return nil, 0, fmt.Errorf("the next page would begin at session %v, which is not after this one", jute.SessionID(r.Next))
	}
	return rows, r.Next, nil
}

// checkFacts checks that a reply has no other sessions than those asked for, in the same order.
func checkFacts(rows []*proto.FactRow, asked []uint64) error {
	for _, row := range rows {
		for len(asked) > 0 && asked[0] != row.Id {
			asked = asked[1:]
		}
		switch {
		case len(asked) == 0:
			return fmt.Errorf("session %v was not asked for, or is out of order", jute.SessionID(row.Id))
		case row.Connection != nil && row.Connection.Session != row.Id:
			return fmt.Errorf("the connection of session %v carries another one", jute.SessionID(row.Id))
		}
		asked = asked[1:]
	}
	return nil
}

// placed checks that the rows of a page are in the order of their places, none before first, and that
// the next page, if there is one, begins after them.
func placed[T any](rows []T, place func(T) tally.Place, first, next tally.Place, limit int) error {
	if len(rows) > limit {
		return tooMany(len(rows), limit)
	}
	last := first
	for i, row := range rows {
		p := place(row)
		if c := p.Compare(last); c < 0 || c == 0 && i > 0 {
			return fmt.Errorf("connection %d is out of order, with path %.100q", p.Connection, p.Path)
		}
		last = p
	}
	if next != (tally.Place{}) && next.Compare(last) <= 0 {
		return fmt.Errorf("the next page would begin at connection %d, %.100q, which is not after this one", next.Connection, next.Path)
	}
	return nil
}

// ascending checks that the paths of a page are ascending, none below first, and that the next page, if
// there is one, begins after them.
func ascending(paths []string, first, next string, limit int) error {
	if len(paths) > limit {
		return tooMany(len(paths), limit)
	}
	for i, path := range paths {
		if path < first || i > 0 && path <= paths[i-1] {
			return fmt.Errorf("the path %.100q is out of order", path)
		}
	}
	if n := len(paths); next != "" && (next <= first || n > 0 && next <= paths[n-1]) {
		return fmt.Errorf("the next page would begin at %.100q, which is not after this one", next)
	}
	return nil
}

func tooMany(rows, limit int) error {
	return fmt.Errorf("%d rows, at most %d were asked for", rows, limit)
}

// connection returns a connection of a reply.
func connection(r *proto.ConnectionRow) *tally.Connection {
	return &tally.Connection{
		Number: r.Number, Addr: string(r.Address), Reading: r.Reading, Writing: r.Writing, Queued: int(r.Queued),
		Received: r.Received, Sent: r.Sent, Session: jute.SessionID(r.Session), Timeout: millis(uint64(r.TimeoutMs)),
		Established: time.UnixMilli(r.EstablishedMs), Replies: r.Replies, Op: jute.Op(r.Op), Xid: r.Xid, Zxid: r.Zxid,
		Replied: micros(r.RepliedUs), LastLatency: micros(r.LastUs), MinLatency: micros(r.MinUs), AvgLatency: micros(r.AvgUs), MaxLatency: micros(r.MaxUs),
		Expires: time.UnixMilli(r.ExpiresMs), TLS: brief(r.Tls), Cipher: brief(r.Cipher),
	}
}

// brief returns a text as long as the name of a cipher suite may be.
func brief(text string) string { return text[:min(len(text), maxName)] }

// maxName is longer than any name of a version of TLS or of a cipher suite, in bytes.
const maxName = 64

// watch returns a watch of a reply.
func watch(r *proto.WatchRow) tally.Watch {
	return tally.Watch{
		Connection: r.Connection, Session: jute.SessionID(r.Session), Path: string(r.Path),
		Data: r.Data, Children: r.Children, Persistent: r.Persistent, Recursive: r.Recursive,
	}
}

// maxTime is the longest time that is shown. A century says as much as any longer time.
const maxTime = 100 * 365 * 24 * time.Hour

// millis returns a number of milliseconds, at most maxTime.
func millis(n uint64) time.Duration {
	return time.Duration(min(n, uint64(maxTime/time.Millisecond))) * time.Millisecond
}

// micros returns a number of microseconds, at most maxTime.
func micros(n uint64) time.Duration {
	return time.Duration(min(n, uint64(maxTime/time.Microsecond))) * time.Microsecond
}
