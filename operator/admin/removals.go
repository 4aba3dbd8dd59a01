package admin

import (
	"slices"

	"rollcall/operator/api"
	"rollcall/operator/view"
)

func (e *ensembleAPI) listRemovals(q *query) (any, error) {
	path, p := "", q.pageParameters()
	if q.values.Has("path") {
		path = q.pathParameter()
	}
	if q.fault != nil {
		return nil, q.fault
	}
	a, err := e.ops.NodeRemovals(q.Context(), path, p)
	if err != nil {
		return nil, err
	}
	a.Items = slices.DeleteFunc(a.Items, func(r api.Removal) bool { return !q.paths.isVisible(r.Path) })
	ends := e.sessionEnds(a.Items)
	for i := range a.Items {
		if r := &a.Items[i]; r.Cause == view.CauseSessionEnded && ends[r.SessionID] != nil {
			r.End = ends[r.SessionID]
			r.Address, r.MemberID = r.End.Address, r.End.MemberID
		}
	}
	return a, nil
}

// sessionEnds returns the ends of the sessions whose ends have removed a node, as far as they are kept.
func (e *ensembleAPI) sessionEnds(removals []api.Removal) map[string]*api.End {
	ends, missing := map[string]*api.End{}, 0
	for _, r := range removals {
		if _, there := ends[r.SessionID]; r.Cause == view.CauseSessionEnded && !there {
			ends[r.SessionID] = nil
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	for end := range e.ops.SessionEnds(0, "", 0) {
		if known, wanted := ends[end.Session.String()]; !wanted || known != nil {
			continue
		}
		row := apiEnd(end)
		ends[row.ID] = &row
		if missing--; missing == 0 {
			break
		}
	}
	return ends
}
