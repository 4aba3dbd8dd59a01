package jute

// CreateRequest is the record of create, create2 and createContainer.
type CreateRequest struct {
	Path  []byte
	Data  []byte
	ACL   []ACL
	Flags CreateMode
}

func (r *CreateRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Data = d.ReadBytes()
	r.ACL = d.readACLs(r.ACL)
	r.Flags = CreateMode(d.ReadInt32())
}

// Forget drops the request, so that it keeps no frame alive. It keeps the memory of the ACL for the next Decode.
func (r *CreateRequest) Forget() {
	clear(r.ACL)
	*r = CreateRequest{ACL: r.ACL[:0]}
}

func (r CreateRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	b = AppendBytes(b, r.Data)
	b = appendACLs(b, r.ACL)
	return AppendInt32(b, int32(r.Flags))
}

// CreateTTLRequest is the record of createTTL.
type CreateTTLRequest struct {
	CreateRequest
	TTL int64 // in ms
}

func (r *CreateTTLRequest) Decode(d *Decoder) {
	r.CreateRequest.Decode(d)
	r.TTL = d.ReadInt64()
}

func (r CreateTTLRequest) Append(b []byte) []byte {
	return AppendInt64(r.CreateRequest.Append(b), r.TTL)
}

// Create2Response is the reply to create2, createContainer and createTTL.
type Create2Response struct {
	Path []byte
	Stat Stat
}

func (r *Create2Response) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Stat.Decode(d)
}

func (r Create2Response) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	return r.Stat.Append(b)
}

// SetDataRequest is the record of setData.
type SetDataRequest struct {
	Path    []byte
	Data    []byte
	Version int32 // -1: any version
}

func (r *SetDataRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Data = d.ReadBytes()
	r.Version = d.ReadInt32()
}

func (r SetDataRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	b = AppendBytes(b, r.Data)
	return AppendInt32(b, r.Version)
}

// SetACLRequest is the record of setACL.
type SetACLRequest struct {
	Path    []byte
	ACL     []ACL
	Version int32 // of the ACL; -1: any version
}

func (r *SetACLRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.ACL = d.readACLs(r.ACL)
	r.Version = d.ReadInt32()
}

func (r SetACLRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	b = appendACLs(b, r.ACL)
	return AppendInt32(b, r.Version)
}

// ReconfigRequest is the record of reconfig. The reply is a GetDataResponse.
type ReconfigRequest struct {
	JoiningServers []byte
	LeavingServers []byte
	NewMembers     []byte
	CurConfigID    int64 // -1: any
}

func (r *ReconfigRequest) Decode(d *Decoder) {
	r.JoiningServers = d.ReadBytes()
	r.LeavingServers = d.ReadBytes()
	r.NewMembers = d.ReadBytes()
	r.CurConfigID = d.ReadInt64()
}

func (r ReconfigRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.JoiningServers)
	b = AppendBytes(b, r.LeavingServers)
	b = AppendBytes(b, r.NewMembers)
	return AppendInt64(b, r.CurConfigID)
}
