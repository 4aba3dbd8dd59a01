package jute

// These xids have a special meaning. Clients number their other requests from 1.
const (
	XidNotification = -1 // not a reply: a WatcherEvent follows
	XidPing         = -2
	XidAuth         = -4
	XidSetWatches   = -8
)

// RequestHeader begins every frame of a client except the first.
type RequestHeader struct {
	Xid int32
	Op  Op
}

func (h *RequestHeader) Decode(d *Decoder) {
	h.Xid = d.ReadInt32()
	h.Op = Op(d.ReadInt32())
}

func (h RequestHeader) Append(b []byte) []byte {
	return AppendInt32(AppendInt32(b, h.Xid), int32(h.Op))
}

// ReplyHeader begins every frame of a server except the first. A record follows only if Err is OK
// and the operation has one.
type ReplyHeader struct {
	Xid  int32 // of the request
	Zxid int64
	Err  Code
}

func (h *ReplyHeader) Decode(d *Decoder) {
	h.Xid = d.ReadInt32()
	h.Zxid = d.ReadInt64()
	h.Err = Code(d.ReadInt32())
}

func (h ReplyHeader) Append(b []byte) []byte {
	b = AppendInt32(b, h.Xid)
	b = AppendInt64(b, h.Zxid)
	return AppendInt32(b, int32(h.Err))
}

// ErrorResponse is the body of a failed operation's result in a multi. It is also the body of
// addWatch's reply, where it is OK.
type ErrorResponse struct {
	Err Code
}

func (r *ErrorResponse) Decode(d *Decoder) { r.Err = Code(d.ReadInt32()) }

func (r ErrorResponse) Append(b []byte) []byte { return AppendInt32(b, int32(r.Err)) }
