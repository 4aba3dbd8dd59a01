package view

import (
	"errors"
	"fmt"
	"math"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/clients"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// This file checks the replies of members. It rejects a wrong reply as a whole, so that no member can make a page
// too long, or put rows into another member's place.

// maxTextBytes limits a text in a status. Addresses have at most 260 bytes, and reasons a few hundred.
const maxTextBytes = 4096

// errUnrelatedReply rejects a reply to another query.
var errUnrelatedReply = errors.New("the reply is about something else")

func parseSessionRows(r *proto.SessionRows, first uint64, limit int) (rows []session, next uint64, err error) {
	switch {
	case r == nil:
		return nil, 0, errUnrelatedReply
	case len(r.Rows) > limit:
		return nil, 0, errTooManyRows(len(r.Rows), limit)
	}
	rows = make([]session, 0, len(r.Rows))
	for i, row := range r.Rows {
		if row.Id < first || i > 0 && row.Id <= r.Rows[i-1].Id {
			return nil, 0, fmt.Errorf("session %v is out of order", jute.SessionID(row.Id))
		}
		rows = append(rows, session{row.Id, api.Session{
			ID: sessionText(row.Id), MemberID: row.Member, Address: string(row.Address),
			TimeoutMs: clampMillis(uint64(row.TimeoutMs)).Milliseconds(),
			CreatedAt: timeOf(row.CreatedMs), EphemeralCount: int(row.Ephemerals),
		}})
	}
	if n := len(r.Rows); r.Next != 0 && (r.Next <= first || n > 0 && r.Next <= r.Rows[n-1].Id) {
		return nil, 0, fmt.Errorf("the next page would begin at session %v, which is not after this one",
			jute.SessionID(r.Next))
	}
	return rows, r.Next, nil
}

// checkFacts checks that a reply has only requested sessions, in the same order.
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

// checkPlaces checks that the rows of a page are in the order of their places, none before first, and that the
// next page begins after them.
func checkPlaces[T any](rows []T, place func(T) clients.WatchPlace, first, next clients.WatchPlace, limit int) error {
	if len(rows) > limit {
		return errTooManyRows(len(rows), limit)
	}
	last := first
	for i, row := range rows {
		p := place(row)
		if c := p.Compare(last); c < 0 || c == 0 && i > 0 {
			return fmt.Errorf("connection %d is out of order, with path %.100q", p.Connection, p.Path)
		}
		last = p
	}
	if next != (clients.WatchPlace{}) && next.Compare(last) <= 0 {
		return fmt.Errorf("the next page would begin at connection %d, %.100q, which is not after this one", next.Connection,
			next.Path)
	}
	return nil
}

// checkAscending checks that the paths of a page ascend, none below first, and that the next page begins after
// them.
func checkAscending(paths []string, first, next string, limit int) error {
	if len(paths) > limit {
		return errTooManyRows(len(paths), limit)
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

func errTooManyRows(rows, limit int) error {
	return fmt.Errorf("%d rows, at most %d were asked for", rows, limit)
}

// apiConnection returns a connection in a member's reply.
func apiConnection(member uint32, r *proto.ConnectionRow) api.Connection {
	c := api.Connection{
		MemberID: member, Number: r.Number, Address: string(r.Address), TLS: truncateName(r.Tls),
		Cipher:    truncateName(r.Cipher),
		SessionID: sessionText(r.Session), TimeoutMs: clampMillis(uint64(r.TimeoutMs)).Milliseconds(),
		EstablishedAt: timeOf(r.EstablishedMs),
		Received:      r.Received, Sent: r.Sent, QueuedRequests: int(r.Queued), LastZxid: ZxidText(r.Zxid),
		LastUs: clampMicros(r.LastUs), MinUs: clampMicros(r.MinUs), AvgUs: clampMicros(r.AvgUs), MaxUs: clampMicros(r.MaxUs),
	}
	c.RequestsPerS = perSecond(r.RecentRequests, r.RecentMs)
	c.BytesPerS = int64(perSecond(r.RecentBytes, r.RecentMs))
	if r.Replies > 0 {
		c.LastOp = jute.Op(r.Op).String()
	}
	return c
}

// minRateSpanMs is the shortest span of a rate. Without it, a connection that is a millisecond old would have done
// thousands of requests a second by its handshake and a read.
const minRateSpanMs = 1000

// perSecond returns the rate of n in a span, rounded to three digits after the point, or 0 if the span is unknown.
func perSecond(n uint64, spanMs uint32) float64 {
	if spanMs == 0 {
		return 0
	}
	return math.Round(float64(n)/float64(max(spanMs, minRateSpanMs))*1e6) / 1e3
}

func truncateName(text string) string { return text[:min(len(text), maxNameBytes)] }

// maxNameBytes exceeds any name of a TLS version or cipher suite.
const maxNameBytes = 64

func apiWatch(member uint32, r *proto.WatchRow) api.Watch {
	return api.Watch{
		MemberID: member, Connection: r.Connection, SessionID: sessionText(r.Session), Path: string(r.Path),
		Data: r.Data, Children: r.Children, Persistent: r.Persistent, Recursive: r.Recursive,
	}
}

// SessionText returns the text of a session id, or "" if id is 0.
func SessionText(id jute.SessionID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

func sessionText(id uint64) string { return SessionText(jute.SessionID(id)) }

// ZxidText returns the text of a zxid.
func ZxidText(zxid int64) string { return fmt.Sprintf("0x%x", uint64(zxid)) }

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// maxShownTime caps all shown times. A century says as much as any longer time.
const maxShownTime = 100 * 365 * 24 * time.Hour

// clampMillis returns n milliseconds, at most maxShownTime.
func clampMillis(n uint64) time.Duration {
	return time.Duration(min(n, uint64(maxShownTime/time.Millisecond))) * time.Millisecond
}

// clampMicros returns n microseconds, at most maxShownTime.
func clampMicros(n uint64) int64 { return int64(min(n, uint64(maxShownTime/time.Microsecond))) }
