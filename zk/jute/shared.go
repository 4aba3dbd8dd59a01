package jute

// Several operations have records with the same layout. Each such layout is one type, with an alias
// for every operation that uses it.

// PathRecord holds only a path.
type PathRecord struct {
	Path []byte
}

// These requests and replies are a path.
type (
	CreateResponse              = PathRecord
	GetACLRequest               = PathRecord
	GetAllChildrenNumberRequest = PathRecord
	GetEphemeralsRequest        = PathRecord // of the node at or below which the ephemeral nodes are
	SyncRequest                 = PathRecord
	SyncResponse                = PathRecord // the request's
)

func (r *PathRecord) Decode(d *Decoder) { r.Path = d.ReadBytes() }

func (r PathRecord) Append(b []byte) []byte { return AppendBytes(b, r.Path) }

// WatchedPath is a path, and whether to set a watch on it.
type WatchedPath struct {
	Path  []byte
	Watch bool
}

// These reads can set a watch. getChildren2 has the same record as getChildren.
type (
	ExistsRequest      = WatchedPath
	GetDataRequest     = WatchedPath
	GetChildrenRequest = WatchedPath
)

func (r *WatchedPath) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Watch = d.ReadBool()
}

func (r WatchedPath) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	return AppendBool(b, r.Watch)
}

// VersionedPath is a path, and the version that the node must have.
type VersionedPath struct {
	Path    []byte
	Version int32 // -1: any version
}

// These writes depend only on a version. They have no response record.
type (
	DeleteRequest       = VersionedPath
	CheckVersionRequest = VersionedPath
)

func (r *VersionedPath) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Version = d.ReadInt32()
}

func (r VersionedPath) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	return AppendInt32(b, r.Version)
}

// StatRecord holds only a Stat.
type StatRecord struct {
	Stat Stat
}

// These replies are a Stat.
type (
	ExistsResponse  = StatRecord
	SetDataResponse = StatRecord
	SetACLResponse  = StatRecord
)

func (r *StatRecord) Decode(d *Decoder) { r.Stat.Decode(d) }

func (r StatRecord) Append(b []byte) []byte { return r.Stat.Append(b) }
