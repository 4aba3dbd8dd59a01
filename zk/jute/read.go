package jute

// GetDataResponse answers getData and reconfig.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

// Decode reads the record.
func (r *GetDataResponse) Decode(d *Decoder) {
	r.Data = d.ReadBytes()
	r.Stat.Decode(d)
}

// Append writes the record.
func (r GetDataResponse) Append(b []byte) []byte {
	b = AppendBytes(b, r.Data)
	return r.Stat.Append(b)
}

// GetACLResponse answers getACL.
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

// Decode reads the record.
func (r *GetACLResponse) Decode(d *Decoder) {
	r.ACL = d.readACLs(r.ACL)
	r.Stat.Decode(d)
}

// Append writes the record.
func (r GetACLResponse) Append(b []byte) []byte {
	b = appendACLs(b, r.ACL)
	return r.Stat.Append(b)
}

// GetChildrenResponse answers getChildren.
type GetChildrenResponse struct {
	Children [][]byte // without the parent's path
}

// Decode reads the record.
func (r *GetChildrenResponse) Decode(d *Decoder) {
	r.Children = d.readStrings(r.Children)
}

// Append writes the record.
func (r GetChildrenResponse) Append(b []byte) []byte {
	return appendStrings(b, r.Children)
}

// GetChildren2Response answers getChildren2.
type GetChildren2Response struct {
	Children [][]byte // without the parent's path
	Stat     Stat
}

// Decode reads the record.
func (r *GetChildren2Response) Decode(d *Decoder) {
	r.Children = d.readStrings(r.Children)
	r.Stat.Decode(d)
}

// Append writes the record.
func (r GetChildren2Response) Append(b []byte) []byte {
	b = appendStrings(b, r.Children)
	return r.Stat.Append(b)
}

// GetAllChildrenNumberResponse answers getAllChildrenNumber.
type GetAllChildrenNumberResponse struct {
	TotalNumber int32 // how many descendants
}

// Decode reads the record.
func (r *GetAllChildrenNumberResponse) Decode(d *Decoder) {
	r.TotalNumber = d.ReadInt32()
}

// Append writes the record.
func (r GetAllChildrenNumberResponse) Append(b []byte) []byte {
	return AppendInt32(b, r.TotalNumber)
}

// GetEphemeralsResponse answers getEphemerals.
type GetEphemeralsResponse struct {
	Ephemerals [][]byte // paths
}

// Decode reads the record.
func (r *GetEphemeralsResponse) Decode(d *Decoder) {
	r.Ephemerals = d.readStrings(r.Ephemerals)
}

// Append writes the record.
func (r GetEphemeralsResponse) Append(b []byte) []byte {
	return appendStrings(b, r.Ephemerals)
}
