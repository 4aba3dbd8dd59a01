package quorum

import (
	"crypto/rand"
	"slices"

	"rollcall/quorum/wire"
)

func drawEnsemble() (id wire.EnsembleID) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return id
}

// Follows reports whether the configuration that is committed, as far as this member knows, is what the server
// list wants. Of the servers to add, to make voters or to move, only those in present count.
func (n *Node) Follows(present []uint32) bool {
	return n.status.configurationCommitted() && follows(n.status.Configuration(), n.list.servers(), present)
}

func follows(have, want []wire.Peer, present []uint32) bool {
	for _, h := range have {
		if w, stays := find(want, h.ID); !stays || w.Observer && !h.Observer {
			return false
		}
	}
	for _, w := range want {
		if h, in := find(have, w.ID); (!in || h.Line() != w) && slices.Contains(present, w.ID) {
			return false
		}
	}
	return true
}
