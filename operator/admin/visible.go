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

// AnonymousAccess limits the content that callers without credentials may read.
type AnonymousAccess struct {
	Reads LocalReads
	// AuthRequired is set if clients must prove themselves. Callers without credentials are then shown neither a path nor data.
	AuthRequired bool
}

// visiblePaths returns which paths are shown.
func (a AnonymousAccess) visiblePaths() pathVisibility {
	switch {
	case a.AuthRequired || a.Reads == ReadNothing:
		return noPaths
	case a.Reads == ReadData:
		return allPaths
	}
	return publicPaths
}

// pathVisibility is the set of paths of nodes that a caller is shown.
type pathVisibility int

const (
	noPaths pathVisibility = iota
	publicPaths
	allPaths
)

// contentKind is the kind of content that an endpoint of the class reads shows. A row without it rejects callers without credentials, so that a
// new row that forgets it shows nothing.
type contentKind int

const (
	contentUnstated contentKind = iota
	// showsState: numbers, names of members, addresses and ids. If there are paths among them, the answer leaves out those that the
	// caller must not see.
	showsState
	// showsPaths: paths of nodes, or what is at one. Callers who are shown no paths are refused.
	showsPaths
)

// pathFilter decides which paths an answer shows. It remembers the last parent, because lists are sorted. It is for one
// goroutine.
type pathFilter struct {
	source         Source
	visibility     pathVisibility
	lastParent     string
	parentIsPublic bool
}

// isVisible reports whether a path is shown.
func (f *pathFilter) isVisible(path string) bool {
	if f.visibility != publicPaths {
		return f.visibility == allPaths
	}
	parent := path[:strings.LastIndexByte(path, '/')+1]
	if parent == "" {
		return false
	}
	if parent != f.lastParent {
		f.lastParent, f.parentIsPublic = parent, f.source.IsPublic(path)
	}
	return f.parentIsPublic
}

// filterEphemerals leaves out the nodes that are not shown.
func (f *pathFilter) filterEphemerals(all iter.Seq2[jute.SessionID, string]) iter.Seq2[jute.SessionID, string] {
	return func(yield func(jute.SessionID, string) bool) {
		for owner, path := range all {
			if f.isVisible(path) && !yield(owner, path) {
				return
			}
		}
	}
}

// filterWatches leaves out the paths that are not shown, and the sessions that have no other.
func (f *pathFilter) filterWatches(all iter.Seq2[jute.SessionID, []string]) iter.Seq2[jute.SessionID, []string] {
	return func(yield func(jute.SessionID, []string) bool) {
		for id, paths := range all {
			var shown []string
			for _, path := range paths {
				if f.isVisible(path) {
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
	f := &pathFilter{source: a.source, visibility: allPaths}
	if a.roleOf(r) < roleReads {
		f.visibility = a.anonymousAccess.visiblePaths()
	}
	return f
}

// checkContent returns a Failure if the caller may not have the reply of an endpoint that shows content.
func (a *authorizer) checkContent(e *endpoint, r *http.Request) *Failure {
	if e.access != readAccess && e.access != metricsAccess || a.roleOf(r) >= neededRoles[e.access] {
		return nil
	}
	switch {
	case a.anonymousAccess.Reads == ReadNothing:
		return &Failure{Status: http.StatusUnauthorized, Text: "admin.localReads=none: " + a.credentialsFault(r)}
	case e.access == metricsAccess || e.content == showsState:
		return nil
	case e.content == showsPaths && a.anonymousAccess.visiblePaths() != noPaths:
		return nil
	}
	return &Failure{Status: http.StatusUnauthorized, Text: "clients must prove themselves here, so paths and data of nodes are shown to nobody without credentials: " + a.credentialsFault(r)}
}
