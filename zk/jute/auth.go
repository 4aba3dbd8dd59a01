package jute

// AuthPacket is the record of auth, which has no response record.
type AuthPacket struct {
	Type   int32 // 0, unused
	Scheme []byte
	Auth   []byte
}

func (r *AuthPacket) Decode(d *Decoder) {
	r.Type = d.ReadInt32()
	r.Scheme = d.ReadBytes()
	r.Auth = d.ReadBytes()
}

func (r AuthPacket) Append(b []byte) []byte {
	b = AppendInt32(b, r.Type)
	b = AppendBytes(b, r.Scheme)
	return AppendBytes(b, r.Auth)
}

// SASLToken is the record of sasl and of its reply.
type SASLToken struct {
	Token []byte
}

func (r *SASLToken) Decode(d *Decoder) { r.Token = d.ReadBytes() }

func (r SASLToken) Append(b []byte) []byte { return AppendBytes(b, r.Token) }

// WhoAmIResponse is the reply to whoAmI, which has no request record.
type WhoAmIResponse struct {
	ClientInfo []ClientInfo
}

func (r *WhoAmIResponse) Decode(d *Decoder) {
	n, null := d.ReadCount(minClientInfoSize)
	if null {
		r.ClientInfo = nil
		return
	}
	r.ClientInfo = sliceOfLen(r.ClientInfo, n)
	for i := range r.ClientInfo {
		r.ClientInfo[i].Decode(d)
	}
}

func (r WhoAmIResponse) Append(b []byte) []byte {
	if r.ClientInfo == nil {
		return AppendCount(b, -1)
	}
	b = AppendCount(b, len(r.ClientInfo))
	for i := range r.ClientInfo {
		b = r.ClientInfo[i].Append(b)
	}
	return b
}

// ClientInfo is an identity of a connection.
type ClientInfo struct {
	AuthScheme []byte
	User       []byte // never a password or its hash
}

func (r *ClientInfo) Decode(d *Decoder) {
	r.AuthScheme = d.ReadBytes()
	r.User = d.ReadBytes()
}

func (r ClientInfo) Append(b []byte) []byte {
	b = AppendBytes(b, r.AuthScheme)
	return AppendBytes(b, r.User)
}

// minClientInfoSize is the size of the smallest ClientInfo: two empty strings.
const minClientInfoSize = 2 * minStringSize
