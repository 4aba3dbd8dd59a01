package admin

import (
	"iter"
	"net/http"
	"strings"

	"rollcall/zk/jute"
)

// LocalReads is the content that callers without credentials may read, over HTTP on the member's own machine and
// by four-letter commands.
type LocalReads int

const (
	// ReadState, the default, allows no data, and no path below a node that not everyone may read.
	ReadState LocalReads = iota
	// ReadNothing allows only open endpoints over HTTP, and no path in four-letter commands.
	ReadNothing
	// ReadData allows all paths, and the data of nodes that everyone may read.
	ReadData
)

// AnonymousAccess limits the content that callers without credentials may read.
type AnonymousAccess struct {
	Reads LocalReads
	// AuthRequired is set if clients must authenticate. Callers without credentials then see no path and no
	// data.
	AuthRequired bool
}

func (a AnonymousAccess) visiblePaths() pathVisibility {
	switch {
	case a.AuthRequired || a.Reads == ReadNothing:
		return noPaths
	case a.Reads == ReadData:
		return allPaths
	}
	return publicPaths
}

// pathVisibility is the set of node paths that a caller may see.
type pathVisibility int

const (
	noPaths pathVisibility = iota
	publicPaths
	allPaths
)

// contentKind is the kind of content that a readAccess endpoint shows. A row without it rejects callers without
// credentials, so that a new row that forgets it shows nothing.
type contentKind int

const (
	contentUnstated contentKind = iota
	// showsState: numbers, names of members, addresses and ids. The reply omits paths that the caller must not
	// see.
	showsState
	// showsPaths: paths of nodes or their content. Callers who may see no paths are rejected.
	showsPaths
)

// pathFilter selects the paths that a reply shows. It caches the last parent, because lists are sorted. It is
// for one goroutine.
type pathFilter struct {
	source         Source
	visibility     pathVisibility
	lastParent     string
	parentIsPublic bool
}

// isVisible reports whether the caller may see a path.
func (f *pathFilter) isVisible(path string) bool {
	if f.visibility != publicPaths {
		return f.visibility == allPaths
	}
	parent := path[:strings.LastIndexByte(path, '/')+1]
	if parent == "" {
		return false
	}
	if parent != f.lastParent {
		f.lastParent, f.parentIsPublic = parent, f.source.HasPublicAncestors(path)
	}
	return f.parentIsPublic
}

// filterEphemerals omits hidden nodes.
func (f *pathFilter) filterEphemerals(all iter.Seq2[jute.SessionID, string]) iter.Seq2[jute.SessionID, string] {
	return func(yield func(jute.SessionID, string) bool) {
		for owner, path := range all {
			if f.isVisible(path) && !yield(owner, path) {
				return
			}
		}
	}
}

// filterWatches omits hidden paths, and sessions without other ones.
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

func (a *authorizer) pathFilterFor(r *http.Request) *pathFilter {
	f := &pathFilter{source: a.source, visibility: allPaths}
	if a.roleOf(r) < roleReads {
		f.visibility = a.anonymousAccess.visiblePaths()
	}
	return f
}

// checkContent returns a Failure if the caller may not have the content of the endpoint's reply.
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
	return &Failure{
		Status: http.StatusUnauthorized,
		Text: "clients must prove themselves here, so paths and data of nodes are never shown without credentials: " +
			a.credentialsFault(r),
	}
}
