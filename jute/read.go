package jute

// ExistsRequest is the record of exists.
type ExistsRequest struct {
	Path  []byte
	Watch bool
}

// Decode reads the record.
func (r *ExistsRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Watch = d.ReadBool()
}

// Append writes the record.
func (r ExistsRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	return AppendBool(b, r.Watch)
}

// ExistsResponse answers exists.
type ExistsResponse struct {
	Stat Stat
}

// Decode reads the record.
func (r *ExistsResponse) Decode(d *Decoder) {
	r.Stat.Decode(d)
}

// Append writes the record.
func (r ExistsResponse) Append(b []byte) []byte {
	return r.Stat.Append(b)
}

// GetDataRequest is the record of getData.
type GetDataRequest struct {
	Path  []byte
	Watch bool
}

// Decode reads the record.
func (r *GetDataRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Watch = d.ReadBool()
}

// Append writes the record.
func (r GetDataRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	return AppendBool(b, r.Watch)
}

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

// GetACLRequest is the record of getACL.
type GetACLRequest struct {
	Path []byte
}

// Decode reads the record.
func (r *GetACLRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
}

// Append writes the record.
func (r GetACLRequest) Append(b []byte) []byte {
	return AppendBytes(b, r.Path)
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

// GetChildrenRequest is the record of getChildren and getChildren2.
type GetChildrenRequest struct {
	Path  []byte
	Watch bool
}

// Decode reads the record.
func (r *GetChildrenRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Watch = d.ReadBool()
}

// Append writes the record.
func (r GetChildrenRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	return AppendBool(b, r.Watch)
}

// GetChildrenResponse answers getChildren.
type GetChildrenResponse struct {
	Children [][]byte // names, without the parent's path
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
	Children [][]byte // names, without the parent's path
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

// GetAllChildrenNumberRequest is the record of getAllChildrenNumber.
type GetAllChildrenNumberRequest struct {
	Path []byte
}

// Decode reads the record.
func (r *GetAllChildrenNumberRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
}

// Append writes the record.
func (r GetAllChildrenNumberRequest) Append(b []byte) []byte {
	return AppendBytes(b, r.Path)
}

// GetAllChildrenNumberResponse answers getAllChildrenNumber.
type GetAllChildrenNumberResponse struct {
	TotalNumber int32 // of descendants
}

// Decode reads the record.
func (r *GetAllChildrenNumberResponse) Decode(d *Decoder) {
	r.TotalNumber = d.ReadInt32()
}

// Append writes the record.
func (r GetAllChildrenNumberResponse) Append(b []byte) []byte {
	return AppendInt32(b, r.TotalNumber)
}

// GetEphemeralsRequest is the record of getEphemerals.
type GetEphemeralsRequest struct {
	PrefixPath []byte
}

// Decode reads the record.
func (r *GetEphemeralsRequest) Decode(d *Decoder) {
	r.PrefixPath = d.ReadBytes()
}

// Append writes the record.
func (r GetEphemeralsRequest) Append(b []byte) []byte {
	return AppendBytes(b, r.PrefixPath)
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

// SyncRequest is the record of sync.
type SyncRequest struct {
	Path []byte
}

// Decode reads the record.
func (r *SyncRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
}

// Append writes the record.
func (r SyncRequest) Append(b []byte) []byte {
	return AppendBytes(b, r.Path)
}

// SyncResponse answers sync.
type SyncResponse struct {
	Path []byte // the request's
}

// Decode reads the record.
func (r *SyncResponse) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
}

// Append writes the record.
func (r SyncResponse) Append(b []byte) []byte {
	return AppendBytes(b, r.Path)
}
