package admin

import (
	"context"
	"slices"

	"rollcall/operator/api"
	"rollcall/operator/view"
)

// maxSlowEvents limits the slow requests that one poll reads: the newest ones. Each member keeps at most 8 of a second.
const maxSlowEvents = 64

// slowFollower finds the slow requests that are new.
type slowFollower struct {
	ops     Operations
	begun   bool
	silent  map[uint32]bool   // members that have not replied to any poll: what they know is old
	newest  map[uint32]uint64 // by member, the greatest number of a request that was read
	pending map[string]bool   // ids of the requests of the last poll whose stages were not known
}

// newRequests returns the requests whose stages have become known since the call before, oldest first. The first call
// returns none.
func (f *slowFollower) newRequests(ctx context.Context) (found []api.SlowRequest) {
	a, err := f.ops.SlowRequests(ctx, view.SlowFilter{}, view.Page{Limit: maxSlowEvents})
	if err != nil {
		return nil // the next poll returns them
	}
	if !f.begun {
		f.silent, f.newest = map[uint32]bool{}, map[uint32]uint64{}
		for _, s := range a.Silent {
			f.silent[s.MemberID] = true
		}
	}
	pending := map[string]bool{}
	for _, r := range slices.Backward(a.Items) {
		of, err := view.ParseSlowID(r.ID)
		isNew := f.pending[r.ID] || f.begun && !f.silent[of.Member] && of.Number > f.newest[of.Member]
		switch {
		case err != nil:
			continue
		case r.Complete && isNew:
			found = append(found, r)
		case !r.Complete:
			pending[r.ID] = true
		}
		f.newest[of.Member] = max(f.newest[of.Member], of.Number)
	}
	for member := range f.silent {
		if !slices.ContainsFunc(a.Silent, func(s api.Silence) bool { return s.MemberID == member }) {
			delete(f.silent, member)
		}
	}
	f.begun, f.pending = true, pending
	return found
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
