package jute

// GetDataResponse is the reply to getData and reconfig.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

func (r *GetDataResponse) Decode(d *Decoder) {
	r.Data = d.ReadBytes()
	r.Stat.Decode(d)
}

func (r GetDataResponse) Append(b []byte) []byte {
	b = AppendBytes(b, r.Data)
	return r.Stat.Append(b)
}

// GetACLResponse is the reply to getACL.
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

func (r *GetACLResponse) Decode(d *Decoder) {
	r.ACL = d.readACLs(r.ACL)
	r.Stat.Decode(d)
}

func (r GetACLResponse) Append(b []byte) []byte {
	b = appendACLs(b, r.ACL)
	return r.Stat.Append(b)
}

// GetChildrenResponse is the reply to getChildren.
type GetChildrenResponse struct {
	Children [][]byte // without the parent's path
}

func (r *GetChildrenResponse) Decode(d *Decoder) { r.Children = d.readStrings(r.Children) }

func (r GetChildrenResponse) Append(b []byte) []byte { return appendStrings(b, r.Children) }

// GetChildren2Response is the reply to getChildren2.
type GetChildren2Response struct {
	Children [][]byte // without the parent's path
	Stat     Stat
}

func (r *GetChildren2Response) Decode(d *Decoder) {
	r.Children = d.readStrings(r.Children)
	r.Stat.Decode(d)
}

func (r GetChildren2Response) Append(b []byte) []byte {
	b = appendStrings(b, r.Children)
	return r.Stat.Append(b)
}

// GetAllChildrenNumberResponse is the reply to getAllChildrenNumber.
type GetAllChildrenNumberResponse struct {
	TotalNumber int32 // of descendants
}

func (r *GetAllChildrenNumberResponse) Decode(d *Decoder) { r.TotalNumber = d.ReadInt32() }

func (r GetAllChildrenNumberResponse) Append(b []byte) []byte {
	return AppendInt32(b, r.TotalNumber)
}

// GetEphemeralsResponse is the reply to getEphemerals.
type GetEphemeralsResponse struct {
	Ephemerals [][]byte
}

func (r *GetEphemeralsResponse) Decode(d *Decoder) { r.Ephemerals = d.readStrings(r.Ephemerals) }

func (r GetEphemeralsResponse) Append(b []byte) []byte { return appendStrings(b, r.Ephemerals) }
