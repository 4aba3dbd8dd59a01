package client

import "rollcall/zk/jute"

// sharedKind is the kind of a watch that several Watches share.
type sharedKind int

const (
	nodeWatch sharedKind = iota
	treeWatch
	sharedKinds
)

// addMode returns the mode of addWatch.
func (k sharedKind) addMode() jute.AddWatchMode {
	if k == treeWatch {
		return jute.AddWatchPersistentRecursive
	}
	return jute.AddWatchPersistent
}
