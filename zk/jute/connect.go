package jute

// ConnectRequest is the first frame of a client, without a header.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxidSeen    int64
	TimeOut         int32     // the requested timeout, in ms
	SessionID       SessionID // 0 for a new session
	Passwd          []byte
	ReadOnly        bool // a read-only server is acceptable
	HasReadOnly     bool // the last byte is present; old clients do not send it
}

func (r *ConnectRequest) Decode(d *Decoder) {
	r.ProtocolVersion = d.ReadInt32()
	r.LastZxidSeen = d.ReadInt64()
	r.TimeOut = d.ReadInt32()
	r.SessionID = SessionID(d.ReadInt64())
	r.Passwd = d.ReadBytes()
	r.ReadOnly, r.HasReadOnly = d.readTrailingBool()
}

func (r ConnectRequest) Append(b []byte) []byte {
	b = AppendInt32(b, r.ProtocolVersion)
	b = AppendInt64(b, r.LastZxidSeen)
	b = AppendInt32(b, r.TimeOut)
	b = AppendInt64(b, int64(r.SessionID))
	b = AppendBytes(b, r.Passwd)
	return appendTrailingBool(b, r.ReadOnly, r.HasReadOnly)
}

// ConnectResponse is the reply to a ConnectRequest, without a header. If the session is rejected, all fields
// are zero, and Passwd is sixteen zero bytes.
type ConnectResponse struct {
	ProtocolVersion int32
	TimeOut         int32 // the granted timeout, in ms
	SessionID       SessionID
	Passwd          []byte
	ReadOnly        bool // the server is read-only
	HasReadOnly     bool // send the last byte, because the request had one
}

func (r *ConnectResponse) Decode(d *Decoder) {
	r.ProtocolVersion = d.ReadInt32()
	r.TimeOut = d.ReadInt32()
	r.SessionID = SessionID(d.ReadInt64())
	r.Passwd = d.ReadBytes()
	r.ReadOnly, r.HasReadOnly = d.readTrailingBool()
}

func (r ConnectResponse) Append(b []byte) []byte {
	b = AppendInt32(b, r.ProtocolVersion)
	b = AppendInt32(b, r.TimeOut)
	b = AppendInt64(b, int64(r.SessionID))
	b = AppendBytes(b, r.Passwd)
	return appendTrailingBool(b, r.ReadOnly, r.HasReadOnly)
}

// readTrailingBool reads a bool that may be missing at the end of the frame, and reports whether it is present.
func (d *Decoder) readTrailingBool() (v, present bool) {
	if len(d.unread) == 0 {
		return false, false
	}
	return d.ReadBool(), true
}

func appendTrailingBool(b []byte, v, present bool) []byte {
	if !present {
		return b
	}
	return AppendBool(b, v)
}
