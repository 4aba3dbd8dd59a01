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
	// maxApplyWatchBytes is the longest setWatches, some 100 paths, that is served at once, possibly by
	// apply, and not in parts.
	maxApplyWatchBytes = 4 << 10
)

func (s *session) manyChildren(r *request) bool {
	return s.estimateChildrenBytes(r) > maxApplyChildren*assumedNameBytes
}

func (s *session) manyPaths(r *request) bool { return len(r.body) > maxApplyWatchBytes }

func alwaysSlow(*session, *request) bool { return true }
