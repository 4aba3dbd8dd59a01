package server

import "rollcall/zk/jute"

// assumedNameBytes is the assumed length of a child's name.
const assumedNameBytes = 32

func (s *session) estimateDataBytes(r *request) int64 {
	d := jute.NewDecoder(r.body)
	var req jute.GetDataRequest
	req.Decode(&d)
	data, _ := s.tree.NodeSize(req.Path)
	return int64(data)
}

func (s *session) estimateChildrenBytes(r *request) int64 {
	d := jute.NewDecoder(r.body)
	var req jute.GetChildrenRequest
	req.Decode(&d)
	_, children := s.tree.NodeSize(req.Path)
	return int64(children) * assumedNameBytes
}

// maxReplyBytes returns the longest frame, for a reply whose length does not follow from one node.
func (s *session) maxReplyBytes(*request) int64 { return int64(s.limits.MaxBuffer) }

// estimateEventBytes estimates the events of all paths in the request.
func (s *session) estimateEventBytes(r *request) int64 { return int64(len(r.body)) }

const (
	// maxApplyChildren is the most names that apply lists itself, in a few microseconds.
	maxApplyChildren = 128
	// maxApplyPaths is the most paths of a setWatches that apply serves itself. Each path may be that of a node with a
	// list of its own, which takes up to 10 microseconds to compare, and behind one write there may be as many requests as
	// a connection may have in flight.
	maxApplyPaths = 8
	// maxWatchBytesAtOnce is the longest setWatches that is served at once, and not in parts, if it has no more than
	// pathsPerLock paths.
	maxWatchBytesAtOnce = 4 << 10
)

func (s *session) manyChildren(r *request) bool {
	return s.estimateChildrenBytes(r) > maxApplyChildren*assumedNameBytes
}

func (s *session) manyPaths(r *request) bool { return hasMorePathsThan(r, maxApplyPaths) }

// hasMorePathsThan reports whether r, a setWatches, has more than so many paths, or is too long to be served at
// once. It reads at most so many paths.
func hasMorePathsThan(r *request, most int) bool {
	if len(r.body) > maxWatchBytesAtOnce {
		return true
	}
	paths := newSetWatchesReader(r.op, r.body)
	_ = paths.next(most)
	return paths.hasMore()
}

// hasPersistentPaths reports whether r, a setWatches that is served at once, has watches that stay when they fire. It reads
// all paths.
func hasPersistentPaths(r *request) bool {
	if r.op != jute.OpSetWatches2 {
		return false
	}
	paths := newSetWatchesReader(r.op, r.body)
	_ = paths.next(pathsPerLock)
	return paths.hasPersistent
}

func alwaysSlow(*session, *request) bool { return true }
