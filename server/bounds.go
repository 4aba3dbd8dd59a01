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
	// maxGrowth limits the ratio of the bytes that a request stores to its own length. Entries of scheme auth stand for all
	// identities of the client, and a list takes memory beside its text, so a short request could store long lists.
	maxGrowth = 4
	// freeGrowth is the number of bytes that a request may store in addition: some short lists. One takes three times as many bytes as the
	// shortest request that stores it.
	freeGrowth = 4 << 10
)

// expense is the cost of a write on every member, as far as bounds limit it. The sum over a multi counts, because two bounds that a
// client controls are a product.
type expense struct {
	limits   *Limits
	ids      []*proto.Identity
	most     int        // bytes that may be stored
	stored   int        // bytes of paths, data and lists that are stored
	lists    int        // bytes of the encoded lists that are stored
	all      int        // levels of the paths
	levels   int        // without those that a path shares with the one before it
	path     []byte     // the path before
	last     []jute.ACL // the list before: equal lists are stored once
	exceeded jute.Code  // the answer; OK: no bound is exceeded
}

// Afford returns OK if a write of a client with these identities may enter the log, or the answer: BadArguments for a path that is
// too long or too deep, and for paths that have too many levels together, InvalidACL for lists that are too long. A record that cannot be read costs nothing. Afford reads the record once, and needs no more memory than one of its
// operations has. lists is what Txn.lists must be.
func (w *WriteLimits) Afford(op jute.Op, record []byte, ids []*proto.Identity) (lists uint32, code jute.Code) {
	e := expense{limits: w.limits, ids: ids, most: maxGrowth*(len(record)+bytesOf(ids)) + freeGrowth}
	d := jute.NewDecoder(record)
	switch {
	case op.IsCreate():
		var req jute.CreateRequest
		if req.Decode(&d); d.Err() == nil {
			e.create(&req)
		}
	case op == jute.OpSetACL:
		var req jute.SetACLRequest
		if req.Decode(&d); d.Err() == nil {
			e.list(req.ACL)
		}
	case op == jute.OpMulti:
		jute.EachMultiOp(record, func(op *jute.MultiOp) (more bool) {
			e.walk(op.Path())
			e.stored += len(op.SetData.Data)
			if op.Op.IsCreate() {
				e.create(&op.Create)
			}
			return e.exceeded == jute.OK
		})
	}
	if e.lists > len(record) {
		lists = uint32(e.lists)
	}
	return lists, e.exceeded
}

func bytesOf(ids []*proto.Identity) (n int) {
	for _, id := range ids {
		n += len(id.GetScheme()) + len(id.GetId())
	}
	return n
}

func (e *expense) create(req *jute.CreateRequest) {
	levels := bytes.Count(req.Path, slash)
	if len(req.Path) > e.limits.MaxPath || levels > maxLevels || levels > freeLevels && levels*len(req.Path) > maxPathReads {
		e.exceeded = jute.BadArguments
		return
	}
	e.stored += len(req.Path) + len(req.Data)
	e.list(req.ACL)
}

var slash = []byte("/")

// walk counts the levels of a path that are not above the path before it.
func (e *expense) walk(path []byte) {
	shared := 0
	for shared < min(len(path), len(e.path)) && path[shared] == e.path[shared] {
		shared++
	}
	e.levels += 1 + bytes.Count(path[shared:], slash)
	e.all += bytes.Count(path, slash)
	e.path = append(e.path[:0], path...)
	if e.levels > maxNewLevels || e.all > maxAllLevels {
		e.exceeded = jute.BadArguments
	}
}

// list counts a list as the node would get it.
func (e *expense) list(list []jute.ACL) {
	entries, size := znode.ExpandedSize(list, e.ids)
	if !jute.EqualACLs(list, e.last) {
		e.stored += znode.ACLMemory(entries, size)
		e.lists += size
		e.last = append(e.last[:0], list...)
	}
	if entries > e.limits.MaxACL || e.stored > e.most {
		e.exceeded = jute.InvalidACL
	}
}
