package server

import (
	"bytes"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// maxLevels limits the levels of a new node's path. Changing a node looks for watches and quotas on each
	// level, which reads the path once per level.
	maxLevels = 128
	// maxPathReads limits a path's bytes times its levels, if it has more than freeLevels levels. A path of
	// maxLevels may have 2 KiB.
	maxPathReads = 256 << 10
	freeLevels   = 4
	// maxNewLevels limits the levels of all paths of a request, without those that a path shares with its
	// predecessor: after a snapshot, a change copies each node above it. maxAllLevels includes the shared
	// ones.
	maxNewLevels = 64 << 10
	maxAllLevels = 256 << 10
	// maxStoredRatio limits the bytes that a request stores to a multiple of its own length. A short request
	// could otherwise store long lists: an entry of scheme auth expands to all identities of the client, and
	// a list takes more memory than its text.
	maxStoredRatio = 4
	// freeStoredBytes is added to that limit, so that a short request may store a few short lists. They take
	// three times as much memory as the shortest request that stores them.
	freeStoredBytes = 4 << 10
)

// writeCost adds up the cost of a write on every member. The bounds apply to the sum over a multi, because a
// client controls both the operations and their sizes.
type writeCost struct {
	limits       *Limits
	ids          []*proto.Identity
	maxStored    int // limit of storedBytes
	multiSteps   int // of the operations of a multi
	storedBytes  int // of paths, data and lists
	listBytes    int // of the encoded lists
	totalLevels  int // with the shared ones
	newLevels    int // without the shared ones
	previousPath []byte
	previousList []jute.ACL // equal lists are stored once
	rejectCode   jute.Code  // OK if no bound is exceeded
}

// CheckCost returns OK if a write of a client with these identities may enter the log. It returns
// BadArguments for a path that is too long or too deep, for paths with too many levels in all, and for a multi whose
// operations take apply too long (znode.MaxMultiSteps). It returns InvalidACL for lists that are too long. A record that cannot be decoded costs nothing. CheckCost reads the
// record once and decodes one operation at a time. lists is the value for Txn.acl_bytes.
func (w *WriteLimits) CheckCost(op jute.Op, record []byte, ids []*proto.Identity) (lists uint32, code jute.Code) {
	e := writeCost{
		limits: w.limits, ids: ids,
		maxStored: maxStoredRatio*(len(record)+identityBytes(ids)) + freeStoredBytes,
	}
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
			if e.multiSteps += znode.MultiOpSteps(op.Op, len(ids)); e.multiSteps > znode.MaxMultiSteps {
				e.rejectCode = jute.BadArguments
			}
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
	if len(req.Path) > e.limits.MaxPath || levels > maxLevels || levels > freeLevels &&
		levels*len(req.Path) > maxPathReads {
		e.rejectCode = jute.BadArguments
		return
	}
	e.storedBytes += len(req.Path) + len(req.Data)
	e.addList(req.ACL)
}

var slash = []byte("/")

// addMultiPath counts the levels of a path in a multi.
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

// addList counts an ACL as the node would store it.
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
