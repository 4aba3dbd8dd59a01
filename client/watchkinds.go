package client

import "rollcall/zk/jute"

// watchKind is the kind of a watch at the servers. Each can be set once on a path.
type watchKind int

const (
	dataWatch     watchKind = iota // of GetWatch and ExistsWatch
	childrenWatch                  // of ChildrenWatch
	nodeWatch                      // of Node
	treeWatch                      // of Tree and TreeWithoutState
	watchKinds
	onceKinds = nodeWatch // those before it fire once; several Watches share one of the others
)

// firedBy lists the watches that each type of event uses up.
var firedBy = map[EventType][]watchKind{
	NodeCreated:     {dataWatch},
	DataChanged:     {dataWatch},
	NodeDeleted:     {dataWatch, childrenWatch},
	ChildrenChanged: {childrenWatch},
}

// removalTypes are the types of removeWatches.
var removalTypes = [watchKinds]jute.WatcherType{
	jute.WatcherData, jute.WatcherChildren, jute.WatcherPersistent, jute.WatcherPersistentRecursive,
}

// addMode returns the mode of addWatch.
func (k watchKind) addMode() jute.AddWatchMode {
	if k == treeWatch {
		return jute.AddWatchPersistentRecursive
	}
	return jute.AddWatchPersistent
}
