package server

import (
	"bytes"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/znode"
)

const (
	// maxLevels is how many levels the path of a new node may have. A change of a node looks for watches and quotas on each
	// level, which reads the path once for each of them.
	maxLevels = 512
	// maxGrowth is how many times as long as a request the access control lists may be that it stores. Entries of scheme auth
	// stand for all identities of the client, so a short request could store long lists.
	maxGrowth = 4
	// maxQuotaNodes is how many nodes of quotas a request may create: the two of one quota. With each of them the usage is
	// counted, on all members, which costs as much as the subtree has nodes.
	maxQuotaNodes = 2
)

// expense is what a write costs every member, as far as bounds limit it. The sum over a multi counts, because two bounds that a
// client controls are a product.
type expense struct {
	limits   *Limits
	ids      []*proto.Identity
	most     int        // bytes of lists that may be stored
	lists    int        // bytes of lists that are stored
	last     []jute.ACL // the list before: equal lists are stored once
	quotas   int        // nodes of quotas that are created
	exceeded jute.Code  // the answer; OK: no bound is exceeded
}

// Afford returns OK if a write of a client with these identities may enter the log, or the answer: BadArguments for a path that is
// too long or too deep and for more than one quota, InvalidACL for lists that are too long. A record that cannot be read costs
// nothing. Afford reads the record once, and needs no more memory than one of its operations has. lists is what Txn.lists must be.
func (s *Server) Afford(op jute.Op, record []byte, ids []*proto.Identity) (lists uint32, code jute.Code) {
	e := expense{limits: &s.cfg.Limits, ids: ids, most: maxGrowth * (len(record) + bytesOf(ids))}
	d := jute.NewDecoder(record)
	switch {
	case op.Creates():
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
		jute.EachOfMulti(record, func(op *jute.MultiOp) (more bool) {
			if op.Op.Creates() {
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
	if len(req.Path) > e.limits.MaxPath || bytes.Count(req.Path, []byte("/")) > maxLevels {
		e.exceeded = jute.BadArguments
		return
	}
	if _, ok := znode.QuotaOf(string(req.Path)); ok {
		if e.quotas++; e.quotas > maxQuotaNodes {
			e.exceeded = jute.BadArguments
			return
		}
	}
	e.list(req.ACL)
}

// list counts a list as the node would get it.
func (e *expense) list(list []jute.ACL) {
	entries, size := znode.Expanded(list, e.ids)
	if !jute.SameACL(list, e.last) {
		e.lists += size
		e.last = append(e.last[:0], list...)
	}
	if entries > e.limits.MaxACL || e.lists > e.most {
		e.exceeded = jute.InvalidACL
	}
}
