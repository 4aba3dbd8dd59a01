package jute

// WatcherType selects the watches of checkWatches and removeWatches.
type WatcherType int32

const (
	WatcherChildren            WatcherType = 1
	WatcherData                WatcherType = 2
	WatcherAny                 WatcherType = 3
	WatcherPersistent          WatcherType = 4
	WatcherPersistentRecursive WatcherType = 5
)

// AddWatchMode is the kind of watch that addWatch sets.
type AddWatchMode int32

const (
	AddWatchPersistent          AddWatchMode = 0
	AddWatchPersistentRecursive AddWatchMode = 1
)

// AddWatchRequest is the record of addWatch. The reply is an ErrorResponse.
type AddWatchRequest struct {
	Path []byte
	Mode AddWatchMode
}

func (r *AddWatchRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Mode = AddWatchMode(d.ReadInt32())
}

func (r AddWatchRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	return AppendInt32(b, int32(r.Mode))
}

// WatcherRequest is the record of checkWatches and removeWatches, which have no response record.
type WatcherRequest struct {
	Path []byte
	Type WatcherType
}

// These requests concern watches that are already set.
type (
	CheckWatchesRequest  = WatcherRequest
	RemoveWatchesRequest = WatcherRequest
)

func (r *WatcherRequest) Decode(d *Decoder) {
	r.Path = d.ReadBytes()
	r.Type = WatcherType(d.ReadInt32())
}

func (r WatcherRequest) Append(b []byte) []byte {
	b = AppendBytes(b, r.Path)
	return AppendInt32(b, int32(r.Type))
}

// SetWatches sets a client's watches again after a reconnect: paths by kind of watch. It has no
// response record.
type SetWatches struct {
	RelativeZxid int64 // the last zxid that the client has seen
	Data         [][]byte
	Exist        [][]byte
	Child        [][]byte
}

func (r *SetWatches) Decode(d *Decoder) {
	r.RelativeZxid = d.ReadInt64()
	r.Data = d.readStrings(r.Data)
	r.Exist = d.readStrings(r.Exist)
	r.Child = d.readStrings(r.Child)
}

func (r SetWatches) Append(b []byte) []byte {
	b = AppendInt64(b, r.RelativeZxid)
	b = appendStrings(b, r.Data)
	b = appendStrings(b, r.Exist)
	return appendStrings(b, r.Child)
}

// SetWatches2 is SetWatches plus the watches that addWatch sets.
type SetWatches2 struct {
	RelativeZxid int64 // the last zxid that the client has seen
	Data         [][]byte
	Exist        [][]byte
	Child        [][]byte
	Persistent   [][]byte
	Recursive    [][]byte
}

func (r *SetWatches2) Decode(d *Decoder) {
	r.RelativeZxid = d.ReadInt64()
	r.Data = d.readStrings(r.Data)
	r.Exist = d.readStrings(r.Exist)
	r.Child = d.readStrings(r.Child)
	r.Persistent = d.readStrings(r.Persistent)
	r.Recursive = d.readStrings(r.Recursive)
}

func (r SetWatches2) Append(b []byte) []byte {
	b = AppendInt64(b, r.RelativeZxid)
	b = appendStrings(b, r.Data)
	b = appendStrings(b, r.Exist)
	b = appendStrings(b, r.Child)
	b = appendStrings(b, r.Persistent)
	return appendStrings(b, r.Recursive)
}
