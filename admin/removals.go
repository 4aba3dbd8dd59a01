package admin

import (
	"slices"

	"rollcall/api"
	"rollcall/jute"
	"rollcall/view"
)

func (e *ensembleAPI) removals(q *query) (any, error) {
	path, p := "", q.page()
	if q.values.Has("path") {
		path = q.path()
	}
	if q.err != nil {
		return nil, q.err
	}
	a, err := e.ops.Removals(q.Context(), path, p)
	if err != nil {
		return nil, err
	}
	a.Rows = slices.DeleteFunc(a.Rows, func(r view.Removal) bool { return !q.paths.shows(r.Path) })
	ends := e.endsOf(a.Rows)
	return listOf(a, func(r view.Removal) api.Removal { return removalRow(r, ends[r.Session]) }), nil
}

// endsOf returns the ends of the sessions whose ends have removed a node, as far as they are kept.
func (e *ensembleAPI) endsOf(removals []view.Removal) map[jute.SessionID]*api.End {
	ends, missing := map[jute.SessionID]*api.End{}, 0
	for _, r := range removals {
		if _, there := ends[r.Session]; r.Cause == view.SessionEnded && !there {
			ends[r.Session] = nil
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	for end := range e.ops.Ends(0, "", 0) {
		if known, wanted := ends[end.Session]; !wanted || known != nil {
			continue
		}
		row := endRow(end)
		ends[end.Session] = &row
		if missing--; missing == 0 {
			break
		}
	}
	return ends
}

// removalRow returns a removal as it is sent. end is that of the removal's session, or nil.
func removalRow(r view.Removal, end *api.End) api.Removal {
	row := api.Removal{
		Path: r.Path, Removed: at(r.Removed), Zxid: hexOf(r.Zxid), Cause: r.Cause.String(),
		Session: idOf(r.Session), Address: r.Address, Member: r.Member,
	}
	if r.Cause == view.SessionEnded && end != nil {
		row.End, row.Address, row.Member = end, end.Address, end.Member
	}
	return row
}
