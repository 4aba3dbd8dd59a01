package admin

import (
	"context"
	"slices"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/view"
)

const (
	// slowPageRows is the size of the pages of slow requests that a poll reads. One is enough while few requests are slow.
	slowPageRows = 64
	// maxSlowPages limits the pages that a poll reads, down to the oldest request that it needs. Nine members keep at most
	// 72 requests of a second, so 14 s of them are in these pages. A member that is asked in vain is given up earlier.
	maxSlowPages = 16
	// maxSlowEvents limits the requests that are sent after one poll, so that a reader with room for maxUnreadEvents is not
	// dropped. The others are sent after the next polls.
	maxSlowEvents = 128
	// maxSlowPending limits the requests that wait to be sent, with their stages about 2 MiB. Then the oldest are sent as
	// they are.
	maxSlowPending = 1024
	// maxSlowWait is the time after which a request is sent though its stages are not known. A member gives up asking
	// another one earlier, so this is for those whose own member does not reply any more.
	maxSlowWait = 30 * time.Second
)

// slowFollower finds the slow requests that are new.
type slowFollower struct {
	ops      Operations
	begun    bool
	floor    uint64                  // requests with this number or a smaller one may be in no page, and are old
	greatest uint64                  // number of a request that was read
	newest   map[uint32]uint64       // by member, the greatest number of a request that was read
	silent   map[uint32]silentMember // members that did not reply to the last poll
	pending  map[string]pendingSlow  // requests that are not sent yet, by id
	order    []string                // the ids in pending, in the order in which they were found
}

// silentMember is a member that does not reply.
type silentMember struct {
	unheard bool   // it has not replied to any poll: what it knows is old
	since   uint64 // slowFollower.greatest when it last replied
}

// pendingSlow is a request that is not sent yet.
type pendingSlow struct {
	request api.SlowRequest
	of      view.SlowFilter
	found   time.Time
	lost    bool // its member does not list it any more
}

// slowPages are the rows that one poll has read.
type slowPages struct {
	rows   []pendingSlow // newest first
	silent []api.Silence
	last   uint64 // number of the last row
	more   bool   // there are rows behind it
}

// newRequests returns requests whose stages have become known since the call before, oldest first and at most maxSlowEvents.
// The first call returns none. Requests whose member has dropped them, or does not reply for maxSlowWait, are returned as
// they were last seen.
func (f *slowFollower) newRequests(ctx context.Context, now time.Time) (found []api.SlowRequest) {
	p, err := f.readPages(ctx)
	if err != nil {
		return nil // the next poll returns them
	}
	if !f.begun {
		f.newest, f.silent, f.pending = map[uint32]uint64{}, map[uint32]silentMember{}, map[string]pendingSlow{}
		if p.more {
			f.floor = p.last
		}
	}
	f.addRows(p, now)
	f.noteSilent(p)
	f.begun = true
	return f.takeDue(now)
}

// readPages reads the newest requests, down to the oldest one that is needed.
func (f *slowFollower) readPages(ctx context.Context) (p slowPages, err error) {
	page := view.Page{Limit: slowPageRows}
	for range maxSlowPages {
		a, err := f.ops.SlowRequests(ctx, view.SlowFilter{}, page)
		if err != nil {
			return p, err
		}
		for _, r := range a.Items {
			if of, err := view.ParseSlowID(r.ID); err == nil {
				p.rows = append(p.rows, pendingSlow{request: r, of: of})
				p.last = of.Number
			}
		}
		p.silent, p.more = a.Silent, a.NextCursor != ""
		if page.Cursor = a.NextCursor; !p.more || !f.begun || p.last < f.oldestNeeded(p) {
			break
		}
	}
	return p, nil
}

// oldestNeeded returns the number down to which a poll has to read: that of the oldest request whose stages are awaited, and
// for the new ones the greatest number at the last poll to which all members replied that reply now.
func (f *slowFollower) oldestNeeded(p slowPages) uint64 {
	needed := f.greatest
	for _, one := range f.pending {
		if !one.request.Complete && !p.isSilent(one.of.Member) {
			needed = min(needed, one.of.Number)
		}
	}
	for member, s := range f.silent {
		if !s.unheard && !p.isSilent(member) {
			needed = min(needed, s.since)
		}
	}
	return needed
}

func (p *slowPages) isSilent(member uint32) bool {
	return slices.ContainsFunc(p.silent, func(s api.Silence) bool { return s.MemberID == member })
}

// addRows puts the new requests among the pending ones, and replaces those that are pending. It leaves out the rows of a
// member that did not reply to all pages: the next poll has them all.
func (f *slowFollower) addRows(p slowPages, now time.Time) {
	listed, newest := map[string]bool{}, map[uint32]uint64{}
	for _, row := range slices.Backward(p.rows) {
		id, member := row.request.ID, row.of.Member
		if p.isSilent(member) {
			continue
		}
		listed[id] = true
		newest[member] = max(newest[member], row.of.Number)
		old, isPending := f.pending[id]
		switch {
		case isPending:
			old.request = row.request
			f.pending[id] = old
		case f.isNew(row):
			row.found = now
			f.pending[id] = row
			f.order = append(f.order, id)
		}
	}
	for id, one := range f.pending {
		reached := !p.more || p.last < one.of.Number // another member may have one with the same number
		one.lost = reached && !listed[id] && !p.isSilent(one.of.Member)
		f.pending[id] = one
	}
	for member, number := range newest {
		f.newest[member] = max(f.newest[member], number)
	}
}

// isNew reports whether a request that is not pending has to be sent. Of those from before the first reply of its member,
// it has to only if its stages are not known yet.
func (f *slowFollower) isNew(row pendingSlow) bool {
	if !f.begun || f.silent[row.of.Member].unheard {
		return !row.request.Complete
	}
	return row.of.Number > max(f.newest[row.of.Member], f.floor)
}

// noteSilent remembers which members did not reply to a poll, and what was read.
func (f *slowFollower) noteSilent(p slowPages) {
	for member, s := range f.silent {
		if p.isSilent(member) {
			continue
		}
		if s.unheard && p.more {
			f.newest[member] = max(f.newest[member], p.last)
		}
		delete(f.silent, member)
	}
	for _, s := range p.silent {
		if _, known := f.silent[s.MemberID]; !known {
			f.silent[s.MemberID] = silentMember{unheard: !f.begun, since: f.greatest}
		}
	}
	for _, number := range f.newest {
		f.greatest = max(f.greatest, number)
	}
}

// takeDue removes the requests that can be sent from the pending ones, and returns them.
func (f *slowFollower) takeDue(now time.Time) (due []api.SlowRequest) {
	excess := len(f.order) - maxSlowPending
	var waiting []string
	for i, id := range f.order {
		one := f.pending[id]
		isDue := one.request.Complete || one.lost || now.Sub(one.found) >= maxSlowWait || i < excess
		if !isDue || len(due) == maxSlowEvents {
			waiting = append(waiting, id)
			continue
		}
		due = append(due, one.request)
		delete(f.pending, id)
	}
	dropped := max(0, len(waiting)-maxSlowPending)
	for _, id := range waiting[:dropped] {
		delete(f.pending, id)
	}
	f.order = waiting[dropped:]
	return due
}

// sendSlow sends slow requests, to each reader with the path only if the reader may see it.
func (s *eventStreams) sendSlow(requests []api.SlowRequest) {
	for _, r := range requests {
		sent := sentEvent{frame: eventFrame("slow", r), path: r.Path}
		if r.Path != "" {
			r.Path = ""
			sent.withoutPath = eventFrame("slow", r)
		}
		s.send(sent)
	}
}
