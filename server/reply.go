package server

import (
	"encoding/binary"
	"time"

	"rollcall/jute"
	"rollcall/znode"
)

const (
	noReplyZxid = -1 // in the reply to an operation that nobody knows
	zxidOffset  = 8  // of the zxid in a reply frame: behind length and xid
)

// answer queues the reply to a request that the log has no part in. The caller holds mu
// and the tree's lock; r is gone afterwards.
func (c *conn) answer(r *request) {
	if (r.op == jute.OpSetWatches || r.op == jute.OpSetWatches2) && r.code == jute.OK {
		if r.code = c.setWatches(r); c.dead { // its events come before the reply
			return
		}
	}
	out := c.output()
	b, mark := jute.BeginFrame(out.b)
	header := jute.ReplyHeader{Xid: r.xid, Zxid: c.zxidOf(r)}
	begin := len(b)
	b = header.Append(b)
	if header.Err = r.code; r.code == jute.OK {
		b, header.Err = c.appendBody(b, r)
	}
	if header.Err != jute.OK {
		b = header.Append(b[:begin]) // and no body
	}
	out.b = jute.EndFrame(b, mark)
	c.srv.stats.refuse(header.Err)
	c.srv.stats.response(len(b) - begin)
	c.replied(r)
}

// zxidOf returns the zxid of a reply that is made now. Zxids never go back on a
// connection, where an old reply had to wait too.
func (c *conn) zxidOf(r *request) int64 {
	switch {
	case r.noZxid:
		return 0
	case r.ends && r.why == unknownOp:
		return noReplyZxid
	}
	c.shown = max(c.shown, c.srv.cfg.State.Zxid())
	return c.shown
}

// replied ends a request whose reply is queued. The caller holds mu.
func (c *conn) replied(r *request) {
	now := time.Now()
	took := now.Sub(r.begun)
	c.srv.stats.reply(took, r.logged && r.op != jute.OpSync)
	c.traffic.reply(r.op, r.xid, c.shown, now.Sub(c.srv.begun), took)
	if r.ends {
		c.endAfter(r.why)
	}
	r.free()
}

// appendBody answers a read: it appends the record behind the reply's header, or returns
// an error, and then what it appended is void. The caller holds mu and the tree's lock.
func (c *conn) appendBody(b []byte, r *request) ([]byte, jute.Code) {
	d := jute.NewDecoder(r.body)
	switch r.op {
	case jute.OpExists:
		return c.exists(b, r, &d)
	case jute.OpGetData:
		return c.getData(b, r, &d)
	case jute.OpGetACL:
		return c.getACL(b, r, &d)
	case jute.OpGetChildren, jute.OpGetChildren2:
		return c.getChildren(b, r, &d)
	case jute.OpMultiRead:
		return c.multiRead(b, r, &d)
	case jute.OpGetEphemerals:
		return c.getEphemerals(b, &d)
	case jute.OpGetAllChildrenNumber:
		return c.getAllChildrenNumber(b, r, &d)
	case jute.OpWhoAmI:
		return whoAmI(b, r), jute.OK
	case jute.OpAddWatch:
		return c.addWatch(b, &d)
	case jute.OpCheckWatches:
		return b, c.checkWatches(&d)
	case jute.OpRemoveWatches:
		return b, c.removeWatches(&d)
	}
	return b, jute.OK // ping, auth, setWatches, setWatches2: a header
}

func (c *conn) exists(b []byte, r *request, d *jute.Decoder) ([]byte, jute.Code) {
	var req jute.ExistsRequest
	if req.Decode(d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	stat, code := c.srv.cfg.State.Exists(req.Path, r.ids, c.watcher(req.Watch))
	return stat.Append(b), code
}

func (c *conn) getData(b []byte, r *request, d *jute.Decoder) ([]byte, jute.Code) {
	var req jute.GetDataRequest
	if req.Decode(d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	data, stat, code := c.srv.cfg.State.GetData(req.Path, r.ids, c.watcher(req.Watch))
	return jute.GetDataResponse{Data: data, Stat: stat}.Append(b), code
}

func (c *conn) getACL(b []byte, r *request, d *jute.Decoder) ([]byte, jute.Code) {
	var req jute.GetACLRequest
	if req.Decode(d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	acl, stat, code := c.srv.cfg.State.GetACL(req.Path, r.ids)
	return jute.GetACLResponse{ACL: acl, Stat: stat}.Append(b), code
}

func (c *conn) getChildren(b []byte, r *request, d *jute.Decoder) ([]byte, jute.Code) {
	var req jute.GetChildrenRequest
	if req.Decode(d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	names, stat, code := c.srv.cfg.State.Children(req.Path, r.ids, c.watcher(req.Watch))
	b = appendNames(b, names)
	if r.op == jute.OpGetChildren2 {
		b = stat.Append(b)
	}
	return b, code
}

// multiRead answers each operation for itself, up to Limits.MaxUnread bytes: a small
// request could ask for any amount. It sets no watches.
func (c *conn) multiRead(b []byte, r *request, d *jute.Decoder) ([]byte, jute.Code) {
	ops, err := jute.DecodeMulti(d, nil)
	if err != nil || len(ops) > 0 && ops[0].Op.IsWrite() {
		return b, jute.MarshallingError
	}
	begin := len(b)
	for i := range ops {
		op := &ops[i]
		mark := len(b)
		if mark-begin > c.srv.cfg.Limits.MaxUnread {
			return b[:begin], jute.MarshallingError
		}
		b = jute.MultiHeader{Type: op.Op}.Append(b)
		var code jute.Code
		switch op.Op {
		case jute.OpGetData:
			var res jute.GetDataResponse
			res.Data, res.Stat, code = c.srv.cfg.State.GetData(op.GetData.Path, r.ids, nil)
			b = res.Append(b)
		case jute.OpGetChildren:
			var names []string
			names, _, code = c.srv.cfg.State.Children(op.GetChildren.Path, r.ids, nil)
			b = appendNames(b, names)
		}
		switch code {
		case jute.OK:
		case jute.MarshallingError: // a null path spoils the whole
			return b, code
		default:
			b = appendError(b[:mark], code)
		}
	}
	return jute.AppendMultiEnd(b), jute.OK
}

// setWatches queues the events that the client has missed and sets the other watches.
func (c *conn) setWatches(r *request) jute.Code {
	var req jute.SetWatches2
	d := jute.NewDecoder(r.body)
	if r.op == jute.OpSetWatches2 {
		req.Decode(&d)
	} else {
		var old jute.SetWatches
		old.Decode(&d)
		req = jute.SetWatches2{
			RelativeZxid: old.RelativeZxid, Data: old.Data, Exist: old.Exist, Child: old.Child,
			Persistent: [][]byte{}, Recursive: [][]byte{},
		}
	}
	if d.Err() != nil {
		return jute.MarshallingError
	}
	return c.srv.cfg.State.SetWatches(&req, c, func(t jute.EventType, path []byte) {
		if !c.dead {
			c.event(t, string(path), missedZxid)
		}
	})
}

// missedZxid is the zxid of events that setWatches catches up with: nobody knows theirs.
const missedZxid = -1

func (c *conn) getEphemerals(b []byte, d *jute.Decoder) ([]byte, jute.Code) {
	var req jute.GetEphemeralsRequest
	if req.Decode(d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	return appendNames(b, c.srv.cfg.State.GetEphemerals(c.session, req.PrefixPath)), jute.OK
}

func (c *conn) getAllChildrenNumber(b []byte, r *request, d *jute.Decoder) ([]byte, jute.Code) {
	var req jute.GetAllChildrenNumberRequest
	if req.Decode(d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	n, code := c.srv.cfg.State.AllChildrenNumber(req.Path, r.ids)
	return jute.AppendInt32(b, int32(n)), code
}

func (c *conn) addWatch(b []byte, d *jute.Decoder) ([]byte, jute.Code) {
	var req jute.AddWatchRequest
	if req.Decode(d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	code := c.srv.cfg.State.AddWatch(req.Path, req.Mode, c)
	return jute.ErrorResponse{Err: code}.Append(b), code
}

func (c *conn) checkWatches(d *jute.Decoder) jute.Code {
	var req jute.CheckWatchesRequest
	if req.Decode(d); d.Err() != nil {
		return jute.MarshallingError
	}
	return c.srv.cfg.State.CheckWatches(req.Path, req.Type, c)
}

func (c *conn) removeWatches(d *jute.Decoder) jute.Code {
	var req jute.RemoveWatchesRequest
	if req.Decode(d); d.Err() != nil {
		return jute.MarshallingError
	}
	return c.srv.cfg.State.RemoveWatches(req.Path, req.Type, c)
}

func whoAmI(b []byte, r *request) []byte {
	var res jute.WhoAmIResponse
	for _, id := range r.ids {
		res.ClientInfo = append(res.ClientInfo, clientInfo(id))
	}
	return res.Append(b)
}

// watcher is c if it wants to hear.
func (c *conn) watcher(wanted bool) znode.Watcher {
	if !wanted {
		return nil
	}
	return c
}

func appendNames(b []byte, names []string) []byte {
	b = jute.AppendCount(b, len(names))
	for _, name := range names {
		b = jute.AppendString(b, name)
	}
	return b
}

// appendApplied appends the reply to a request of the log. The caller holds mu and the
// tree's lock.
func (c *conn) appendApplied(b []byte, r *request, res *znode.Result) []byte {
	zxid := res.Zxid
	if zxid == 0 {
		zxid = c.srv.cfg.State.Zxid() // a sync, or a write that took none
	}
	c.shown = max(c.shown, zxid)
	b, mark := jute.BeginFrame(b)
	c.srv.stats.refuse(res.Code)
	b = jute.ReplyHeader{Xid: r.xid, Zxid: c.shown, Err: res.Code}.Append(b)
	if res.Code == jute.OK {
		b = appendResult(b, r, res)
	}
	c.srv.stats.response(len(b) - mark - lengthSize)
	return jute.EndFrame(b, mark)
}

// appendReply queues a reply that was made when others were still to come before it:
// they may have shown the client a later zxid.
func (c *conn) appendReply(frame []byte) {
	out := c.output()
	binary.BigEndian.PutUint64(frame[zxidOffset:], uint64(c.shown))
	out.b = append(out.b, frame...)
}

// appendResult appends the record of a successful write or sync.
func appendResult(b []byte, r *request, res *znode.Result) []byte {
	switch r.op {
	case jute.OpCreate:
		return jute.AppendString(b, res.Path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return res.Stat.Append(jute.AppendString(b, res.Path))
	case jute.OpSetData, jute.OpSetACL:
		return res.Stat.Append(b)
	case jute.OpSync:
		return syncResponse(b, r.body)
	case jute.OpMulti:
		for i := range res.Multi {
			b = appendOpResult(b, &res.Multi[i])
		}
		return jute.AppendMultiEnd(b)
	}
	return b // delete, closeSession: a header
}

func syncResponse(b, body []byte) []byte {
	var req jute.SyncRequest
	d := jute.NewDecoder(body)
	req.Decode(&d)
	return jute.SyncResponse(req).Append(b)
}

// appendOpResult appends one result of a multi that writes.
func appendOpResult(b []byte, res *znode.OpResult) []byte {
	if res.Op == jute.OpError {
		return appendError(b, res.Code)
	}
	b = jute.MultiHeader{Type: res.Op}.Append(b)
	switch res.Op {
	case jute.OpCreate:
		return jute.AppendString(b, res.Path)
	case jute.OpCreate2:
		return res.Stat.Append(jute.AppendString(b, res.Path))
	case jute.OpSetData:
		return res.Stat.Append(b)
	}
	return b // delete, check
}

func appendError(b []byte, code jute.Code) []byte {
	b = jute.MultiHeader{Type: jute.OpError, Err: code}.Append(b)
	return jute.ErrorResponse{Err: code}.Append(b)
}
