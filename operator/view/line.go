package view

import (
	"cmp"
	"fmt"
	"strings"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// MaxOwnedChildren is the number of ephemeral children that api.Owner lists: enough for those who wait for a lock.
const MaxOwnedChildren = 100

// Values of api.OwnedChild.Turn.
const (
	TurnHolds   = "holds" // the session has the lock
	TurnWaits   = "waits" // the session stands in line
	TurnUnknown = ""      // the names are of no lock that Rollcall knows
)

// CompareInLine orders the names of children as locks and elections do: by the servers' numbers. Names without a number
// come last.
func CompareInLine(a, b string) int {
	_, m, aNumbered := jute.SplitSequence(a)
	_, n, bNumbered := jute.SplitSequence(b)
	switch {
	case aNumbered && bNumbered:
		return cmp.Or(cmp.Compare(m, n), strings.Compare(a, b))
	case aNumbered:
		return -1
	case bNumbered:
		return 1
	}
	return strings.Compare(a, b)
}

// lockKind has the ends of the names before the number, of readers and of those who hold a lock alone.
type lockKind struct{ shared, exclusive string }

// lockKinds are the kinds of locks and elections. Package client's locks have the names of Curator and kazoo. A
// semaphore is not here: the servers do not know how many sessions may hold it.
var lockKinds = []lockKind{
	{exclusive: "lock-"},                         // Curator's mutex and LeaderSelector, go-zookeeper/zk's Lock
	{exclusive: "latch-"},                        // Curator's LeaderLatch
	{shared: "__READ__", exclusive: "__WRIT__"},  // Curator's read-write lock
	{shared: "__rlock__", exclusive: "__lock__"}, // kazoo's Lock, Election, ReadLock and WriteLock
}

// markTurns sets the turn of each child of a lock's parent. The children are in line, the first of all among them.
func markTurns(children []api.OwnedChild) {
	for _, kind := range lockKinds {
		if turns := kind.turns(children); turns != nil {
			for i, turn := range turns {
				children[i].Turn = turn
			}
			return
		}
	}
}

// turns returns the turn of each child, or nil if a name is not of this kind. Readers hold a lock together, until the
// first writer in line. A writer that became a reader as well has two nodes of one number.
func (k lockKind) turns(children []api.OwnedChild) []string {
	var turns []string
	var first int64
	onlyReaders := true
	for i, child := range children {
		before, number, numbered := jute.SplitSequence(child.Name)
		isReader := k.shared != "" && strings.HasSuffix(before, k.shared)
		if !numbered || !isReader && !strings.HasSuffix(before, k.exclusive) {
			return nil
		}
		if i == 0 {
			first = number
		}
		turn := TurnWaits
		if onlyReaders = onlyReaders && isReader; onlyReaders || number == first {
			turn = TurnHolds
		}
		turns = append(turns, turn)
	}
	return turns
}

// ownedChildren returns the ephemeral children of a reply.
func ownedChildren(r *proto.OwnerRow) ([]api.OwnedChild, error) {
	if len(r.Children) > MaxOwnedChildren {
		return nil, errTooManyRows(len(r.Children), MaxOwnedChildren)
	}
	if len(r.Children) > int(r.Ephemerals) {
		return nil, fmt.Errorf("%d ephemeral children of %d", len(r.Children), r.Ephemerals)
	}
	children := []api.OwnedChild{}
	for i, row := range r.Children {
		name := string(row.Name)
		switch {
		case name == "" || strings.Contains(name, "/") || row.Session == 0:
			return nil, fmt.Errorf("a child %.100q of session %v", name, sessionText(row.Session))
		case i > 0 && CompareInLine(children[i-1].Name, name) >= 0:
			return nil, fmt.Errorf("the child %.100q is out of order", name)
		}
		children = append(children, api.OwnedChild{
			Name: name, SessionID: sessionText(row.Session), SessionEnded: row.Ended,
			MemberID: row.Member, Address: string(row.Address),
		})
	}
	if !r.Partial {
		markTurns(children)
	}
	return children, nil
}
