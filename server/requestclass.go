package server

import "rollcall/zk/jute"

// requestClass groups the requests whose latencies are counted together.
type requestClass uint8

const (
	classOther   requestClass = iota // whoAmI, auth, sasl, and unknown opcodes
	classConnect                     // a session is opened or resumed; not a request of its own in ZooKeeper's protocol
	classPing
	classRead
	classWrite // creates and multis, too
	classSync
	classWatch // sets, checks or removes watches, and reads nothing
	classClose // closeSession
	numClasses
)

var classNames = [numClasses]string{
	classOther: "other", classConnect: "connect", classPing: "ping", classRead: "read", classWrite: "write",
	classSync: "sync", classWatch: "watch", classClose: "close",
}

func classOf(op jute.Op) requestClass {
	switch op {
	case jute.OpPing:
		return classPing
	case jute.OpCloseSession:
		return classClose
	}
	switch op.Class() {
	case jute.ClassCreate, jute.ClassWrite:
		return classWrite
	case jute.ClassRead:
		return classRead
	case jute.ClassSync:
		return classSync
	case jute.ClassWatch:
		return classWatch
	}
	return classOther
}

// eventNames are the types of events that clients get, by the names in metrics.
var eventNames = map[jute.EventType]string{
	jute.EventNodeCreated: "created", jute.EventNodeDeleted: "deleted",
	jute.EventNodeDataChanged: "changed", jute.EventNodeChildrenChanged: "children",
}

// numEvents is above the greatest type of events.
const numEvents = jute.EventNodeChildrenChanged + 1

// updateClasses are the classes that change the state, and readClasses the others. Connects are in neither,
// because ZooKeeper's metrics do not count them.
var (
	updateClasses = []requestClass{classWrite, classClose}
	readClasses   = []requestClass{classPing, classRead, classSync, classWatch, classOther}
)
