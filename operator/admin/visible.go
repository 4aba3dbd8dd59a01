package admin

import (
	"iter"
	"net/http"
	"strings"

	"rollcall/zk/jute"
)

// LocalReads is the content that callers without credentials may read: over HTTP on the member's own machine, and by four-letter commands.
type LocalReads int

const (
	// ReadState: no data of nodes, and no path below a node that not everybody may read. It is the default.
	ReadState LocalReads = iota
	// ReadNothing: nothing over HTTP but open endpoints, and no path by four-letter commands.
	ReadNothing
	// ReadData: all paths, and the data of nodes that everybody may read.
	ReadData
)

// Anonymous limits the content that callers without credentials may read.
type Anonymous struct {
	Reads LocalReads
	// Proven is set if clients must prove themselves. Callers without credentials are then shown neither a path nor data.
	Proven bool
}

// paths returns which paths are shown.
func (a Anonymous) paths() sight {
	switch {
	case a.Proven || a.Reads == ReadNothing:
		return noPaths
	case a.Reads == ReadData:
		return allPaths
	}
	return publicPaths
}

// sight is the set of paths of nodes that a caller is shown.
type sight int

const (
	noPaths sight = iota
	publicPaths
	allPaths
)

// content is the kind of content that an endpoint of the class reads shows. A row without it rejects callers without credentials, so that a
// new row that forgets it shows nothing.
type content int

const (
	unstated content = iota
	// showsState: numbers, names of members, addresses and ids. If there are paths among them, the answer leaves out those that the
	// caller must not see.
	showsState
	// showsPaths: paths of nodes, or what is at one. Callers who are shown no paths are refused.
	showsPaths
)

// pathFilter decides which paths an answer shows. It remembers the last parent, because lists are sorted. It is for one
// goroutine.
type pathFilter struct {
	source Source
	sight  sight
	parent string
	public bool
}

// shows reports whether a path is shown.
func (f *pathFilter) shows(path string) bool {
	if f.sight != publicPaths {
		return f.sight == allPaths
	}
	parent := path[:strings.LastIndexByte(path, '/')+1]
	if parent == "" {
		return false
	}
	if parent != f.parent {
		f.parent, f.public = parent, f.source.Public(path)
	}
	return f.public
}

// ephemerals leaves out the nodes that are not shown.
func (f *pathFilter) ephemerals(all iter.Seq2[jute.SessionID, string]) iter.Seq2[jute.SessionID, string] {
	return func(yield func(jute.SessionID, string) bool) {
		for owner, path := range all {
			if f.shows(path) && !yield(owner, path) {
				return
			}
		}
	}
}

// watches leaves out the paths that are not shown, and the sessions that have no other.
func (f *pathFilter) watches(all iter.Seq2[jute.SessionID, []string]) iter.Seq2[jute.SessionID, []string] {
	return func(yield func(jute.SessionID, []string) bool) {
		for id, paths := range all {
			var shown []string
			for _, path := range paths {
				if f.shows(path) {
					shown = append(shown, path)
				}
			}
			if len(shown) > 0 && !yield(id, shown) {
				return
			}
		}
	}
}

// pathFilterFor returns the filter of the paths that the reply to a request shows.
func (a *authorizer) pathFilterFor(r *http.Request) *pathFilter {
	f := &pathFilter{source: a.source, sight: allPaths}
	if a.role(r) < roleReads {
		f.sight = a.anonymous.paths()
	}
	return f
}

// rejectContent returns a Failure if the caller may not have the reply of an endpoint that shows content.
func (a *authorizer) rejectContent(e *endpoint, r *http.Request) *Failure {
	if e.class != reads && e.class != measures || a.role(r) >= neededRoles[e.class] {
		return nil
	}
	switch {
	case a.anonymous.Reads == ReadNothing:
		return &Failure{Status: http.StatusUnauthorized, Text: "admin.localReads=none: " + a.credentialsFault(r)}
	case e.class == measures || e.shows == showsState:
		return nil
	case e.shows == showsPaths && a.anonymous.paths() != noPaths:
		return nil
	}
	return &Failure{Status: http.StatusUnauthorized, Text: "clients must prove themselves here, so paths and data of nodes are shown to nobody without credentials: " + a.credentialsFault(r)}
}
