package server

import "rollcall/zk/jute"

// assumedNameBytes is the assumed length of a name in a list of children, in bytes.
const assumedNameBytes = 32

func (s *session) weighData(r *request) int64 {
	d := jute.NewDecoder(r.body)
	var req jute.GetDataRequest
	req.Decode(&d)
	data, _ := s.tree.NodeSize(req.Path)
	return int64(data)
}

func (s *session) weighChildren(r *request) int64 {
	d := jute.NewDecoder(r.body)
	var req jute.GetChildrenRequest
	req.Decode(&d)
	_, children := s.tree.NodeSize(req.Path)
	return int64(children) * assumedNameBytes
}

// weighUnknown is for an answer whose length one node does not show: it returns the longest frame.
func (s *session) weighUnknown(*request) int64 { return int64(s.limits.MaxBuffer) }

// weighPaths counts the events of all paths in the request.
func (s *session) weighPaths(r *request) int64 { return int64(len(r.body)) }

const (
	// maxApplyChildren is the most names that apply lists itself, which takes a few microseconds.
	maxApplyChildren = 128
	// maxApplyWatchBytes is the longest setWatches, in bytes, that is served at once and not in parts: some
	// 100 paths. Apply may serve it itself.
	maxApplyWatchBytes = 4 << 10
)

func (s *session) manyChildren(r *request) bool {
	return s.weighChildren(r) > maxApplyChildren*assumedNameBytes
}

func (s *session) manyPaths(r *request) bool { return len(r.body) > maxApplyWatchBytes }

func alwaysSlow(*session, *request) bool { return true }
