package server

import (
	"bytes"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// maxLevels limits the levels of the path of a new node. A change of a node looks for watches and quotas on each
	// level, which reads the path once for each of them.
	maxLevels = 128
	// maxPathReads limits the product of a path's bytes and its levels, for a path of more than freeLevels levels. A path of
	// maxLevels may have 2 KiB.
	maxPathReads = 256 << 10
	freeLevels   = 4
	// maxNewLevels limits the levels of all paths of a request, without those that a path shares with the one
	// before it. After a snapshot, a change copies each node above it. maxAllLevels limits them with those.
	maxNewLevels = 64 << 10
	maxAllLevels = 256 << 10
	// maxStoredRatio limits the ratio of the bytes that a request stores to its own length. Entries of scheme auth stand for all
	// identities of the client, and a list takes memory beside its text, so a short request could store long lists.
	maxStoredRatio = 4
	// freeStoredBytes is the number of bytes that a request may store in addition: some short lists. One takes three times as many bytes as the
	// shortest request that stores it.
	freeStoredBytes = 4 << 10
)

// writeCost is the cost of a write on every member, as far as bounds limit it. The sum over a multi counts, because two bounds that a
// client controls are a product.
type writeCost struct {
	limits       *Limits
	ids          []*proto.Identity
	maxStored    int        // bytes that may be stored
	storedBytes  int        // bytes of paths, data and lists that are stored
	listBytes    int        // bytes of the encoded lists that are stored
	totalLevels  int        // levels of the paths
	newLevels    int        // without those that a path shares with the one before it
	previousPath []byte     // the path before
	previousList []jute.ACL // the list before: equal lists are stored once
	rejectCode   jute.Code  // the answer; OK: no bound is exceeded
}

// CheckCost returns OK if a write of a client with these identities may enter the log, or the answer: BadArguments for a path that is
// too long or too deep, and for paths that have too many levels together, InvalidACL for lists that are too long. A record that cannot be read costs nothing. Afford reads the record once, and needs no more memory than one of its
// operations has. lists is what Txn.lists must be.
func (w *WriteLimits) CheckCost(op jute.Op, record []byte, ids []*proto.Identity) (lists uint32, code jute.Code) {
	e := writeCost{limits: w.limits, ids: ids, maxStored: maxStoredRatio*(len(record)+identityBytes(ids)) + freeStoredBytes}
	d := jute.NewDecoder(record)
	switch {
	case op.IsCreate():
		var req jute.CreateRequest
		if req.Decode(&d); d.Err() == nil {
			e.addCreate(&req)
		}
	case op == jute.OpSetACL:
		var req jute.SetACLRequest
		if req.Decode(&d); d.Err() == nil {
			e.addList(req.ACL)
		}
	case op == jute.OpMulti:
		jute.EachMultiOp(record, func(op *jute.MultiOp) (more bool) {
			e.addMultiPath(op.Path())
			e.storedBytes += len(op.SetData.Data)
			if op.Op.IsCreate() {
				e.addCreate(&op.Create)
			}
			return e.rejectCode == jute.OK
		})
	}
	if e.listBytes > len(record) {
		lists = uint32(e.listBytes)
	}
	return lists, e.rejectCode
}

func identityBytes(ids []*proto.Identity) (n int) {
	for _, id := range ids {
		n += len(id.GetScheme()) + len(id.GetId())
	}
	return n
}

func (e *writeCost) addCreate(req *jute.CreateRequest) {
	levels := bytes.Count(req.Path, slash)
	if len(req.Path) > e.limits.MaxPath || levels > maxLevels || levels > freeLevels && levels*len(req.Path) > maxPathReads {
		e.rejectCode = jute.BadArguments
		return
	}
	e.storedBytes += len(req.Path) + len(req.Data)
	e.addList(req.ACL)
}

var slash = []byte("/")

// addMultiPath counts the levels of a path that are not above the path before it.
func (e *writeCost) addMultiPath(path []byte) {
	shared := 0
	for shared < min(len(path), len(e.previousPath)) && path[shared] == e.previousPath[shared] {
		shared++
	}
	e.newLevels += 1 + bytes.Count(path[shared:], slash)
	e.totalLevels += bytes.Count(path, slash)
	e.previousPath = append(e.previousPath[:0], path...)
	if e.newLevels > maxNewLevels || e.totalLevels > maxAllLevels {
		e.rejectCode = jute.BadArguments
	}
}

// addList counts a list as the node would get it.
func (e *writeCost) addList(list []jute.ACL) {
	entries, size := znode.ExpandedSize(list, e.ids)
	if !jute.EqualACLs(list, e.previousList) {
		e.storedBytes += znode.ACLMemory(entries, size)
		e.listBytes += size
		e.previousList = append(e.previousList[:0], list...)
	}
	if entries > e.limits.MaxACL || e.storedBytes > e.maxStored {
		e.rejectCode = jute.InvalidACL
	}
}
