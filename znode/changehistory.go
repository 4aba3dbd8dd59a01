package znode

import (
	"encoding/binary"
	"iter"
	"slices"
	"sort"

	"rollcall/zk/jute"
)

// changeHistory keeps the latest changes of nodes, in the order of the log, so that a client which comes back gets
// the events of its persistent watches that it has missed (see Replay). It is bounded in bytes. It is a part of
// snapshots, so that it survives a restart, but not of the digest: members may keep different amounts.
//
// Changes are packed into chunks. A change is only ever added, to the last chunk, so a reader needs the tree's read
// lock only to take a view of a chunk. The zero value keeps nothing.
type changeHistory struct {
	limit int64 // of the chunks' memory in bytes; 0: nothing is kept
	// since is the zxid after which every change is kept, or noHistory. Then it is that of the first term after unknownTerm.
	since       int64
	unknownTerm int64
	aclsChanged int64           // the zxid of the last change of an ACL, or a later one
	sealed      []*historyChunk // all but the last, oldest first; replaced when chunks come or go, because snapshots share it
	open        historyChunk    // the last one
	bytes       int64           // memory of the sealed chunks
}

const (
	// historyChunkBytes is the size of a chunk: about a thousand changes. The oldest changes are dropped one chunk at a
	// time.
	historyChunkBytes = 64 << 10
	// MinChangeHistory is the least limit of a history that keeps anything, in bytes: a few chunks.
	MinChangeHistory = 4 * historyChunkBytes
	// chunkOverhead is the approximate memory of a chunk beside its records and lists, in bytes.
	chunkOverhead = 160
	// maxRecordHead is the longest record without its path: a byte and four integers.
	maxRecordHead = 1 + 4*binary.MaxVarintLen64
)

// noHistory is the value of changeHistory.since while nothing is promised: the state comes from a snapshot without a
// history. It may be older than what its clients have seen, after a restore of a backup, so their zxids of its last term
// say nothing about the changes that they have seen. Those of a later term do.
const noHistory = jute.NoHistory

// termShift is the number of bits of a zxid below its term.
const termShift = 32

// historyChunk has consecutive changes. A record has these parts, of which the integers are varints:
//
//	kind: a byte, jute's number of the event of the node
//	zxid, less that of the record before; of the first record, less firstZxid
//	place in lists of the node's access control list
//	place in lists of the parent's, unless the node's data changed
//	length of the path, and the path
type historyChunk struct {
	number      uint64 // consecutive
	firstRecord uint64 // the number of changes before the chunk
	recordCount int
	firstZxid   int64
	lastZxid    int64
	records     []byte
	lists       []*acl // each once
	listBytes   int64
}

func (c *historyChunk) memoryBytes() int64 {
	return chunkOverhead + int64(cap(c.records)) + c.listBytes
}

func (c *historyChunk) endRecord() uint64 { return c.firstRecord + uint64(c.recordCount) }

// keepsChanges reports whether changes are kept at all.
func (h *changeHistory) keepsChanges() bool { return h.limit > 0 }

// KeepsChanges reports whether the state keeps the latest changes for Replay. It needs no lock.
func KeepsChanges(s *State) bool { return s.cfg.ChangeHistory > 0 }

// HistorySince returns the zxid after which the state keeps every change for Replay, or jute.NoHistory. The caller holds at
// least the read lock.
func HistorySince(s *State) int64 {
	if h := &s.watches.history; h.keepsChanges() {
		return h.since
	}
	return noHistory
}

// HistoryACLs returns a zxid after which no ACL was changed, or jute.NoHistory if the state keeps no changes. The caller
// holds at least the read lock.
func HistoryACLs(s *State) int64 {
	if h := &s.watches.history; h.keepsChanges() {
		return h.aclsChanged
	}
	return noHistory
}

// keepsAllAfter reports whether every change after zxid is kept.
func (h *changeHistory) keepsAllAfter(zxid int64) bool { return h.keepsChanges() && zxid >= h.since }

// append adds a change. It needs the tree's write lock.
func (h *changeHistory) append(n *notification, zxid int64) {
	if need := maxRecordHead + len(n.path); cap(h.open.records)-len(h.open.records) < need {
		h.sealOpen()
		h.open.records = make([]byte, 0, max(historyChunkBytes, need))
	}
	c := &h.open
	if c.recordCount == 0 {
		c.firstZxid, c.lastZxid = zxid, zxid
	}
	if h.since == noHistory && zxid>>termShift > h.unknownTerm {
		h.since = zxid>>termShift<<termShift - 1
	}
	c.records = append(c.records, byte(n.event))
	c.records = binary.AppendUvarint(c.records, uint64(zxid-c.lastZxid))
	c.records = binary.AppendUvarint(c.records, c.placeOf(n.acl))
	if n.parent != "" {
		c.records = binary.AppendUvarint(c.records, c.placeOf(n.parentACL))
	}
	c.records = binary.AppendUvarint(c.records, uint64(len(n.path)))
	c.records = append(c.records, n.path...)
	c.lastZxid = zxid
	if c.recordCount++; c.listBytes >= historyChunkBytes { // otherwise long lists could exceed the limit
		h.sealOpen()
	}
}

// placeOf returns the place of a list in lists, and adds it at its first use.
func (c *historyChunk) placeOf(a *acl) uint64 {
	if mark := c.number + 1; a.historyMark != mark {
		a.historyMark, a.historyPlace = mark, uint64(len(c.lists))
		c.lists = append(c.lists, a)
		c.listBytes += int64(a.memoryBytes())
	}
	return a.historyPlace
}

// sealOpen begins a new chunk if the open one has any record, and drops the oldest ones that exceed the limit.
func (h *changeHistory) sealOpen() {
	old := h.open
	if old.recordCount == 0 {
		return
	}
	h.open = historyChunk{number: old.number + 1, firstRecord: old.endRecord()}
	kept := append(append(make([]*historyChunk, 0, len(h.sealed)+1), h.sealed...), &old)
	for h.bytes += old.memoryBytes(); len(kept) > 0 && h.bytes > h.limit-historyChunkBytes; kept = kept[1:] {
		h.bytes -= kept[0].memoryBytes()
		h.since = kept[0].lastZxid
	}
	h.sealed = kept
}

// all yields the kept changes.
func (h *changeHistory) all() iter.Seq[change] {
	return func(yield func(change) bool) {
		for _, chunk := range append(slices.Clone(h.sealed), &h.open) {
			for v := viewOf(chunk); len(v.unread) > 0; {
				if !yield(v.next()) {
					return
				}
			}
		}
	}
}

// count returns the number of kept changes.
func (h *changeHistory) count() uint64 { return h.open.endRecord() - h.first().firstRecord }

func (h *changeHistory) first() *historyChunk {
	if len(h.sealed) > 0 {
		return h.sealed[0]
	}
	return &h.open
}

// chunk returns the chunk with a number, or nil if it is not kept.
func (h *changeHistory) chunk(number uint64) *historyChunk {
	at := number - h.first().number
	switch {
	case number == h.open.number:
		return &h.open
	case at < uint64(len(h.sealed)):
		return h.sealed[at]
	}
	return nil
}

// historyView is a reader's place in the history, with the rest of its chunk at the time of the view. The reader may
// use it without a lock.
type historyView struct {
	chunk   uint64 // its number
	offset  int    // in the chunk's records
	unread  []byte
	lists   []*acl
	zxid    int64  // of the last change that was read, or the chunk's first one
	records uint64 // the number of changes before the place
}

func viewOf(c *historyChunk) historyView {
	return historyView{chunk: c.number, unread: c.records, lists: c.lists, zxid: c.firstZxid, records: c.firstRecord}
}

// viewAfter returns a view that begins at most a chunk before the first change after zxid. It needs at least the
// read lock.
func (h *changeHistory) viewAfter(zxid int64) historyView {
	i := sort.Search(len(h.sealed), func(i int) bool { return h.sealed[i].lastZxid > zxid })
	if i < len(h.sealed) {
		return viewOf(h.sealed[i])
	}
	return viewOf(&h.open)
}

// withoutRest returns the place alone.
func (v historyView) withoutRest() historyView {
	v.unread, v.lists = nil, nil
	return v
}

// extend returns v with the changes that have come since, or the next chunk if its own is read. It returns false if
// the changes at v are not kept any more. It needs at least the read lock.
func (h *changeHistory) extend(v historyView) (historyView, bool) {
	c := h.chunk(v.chunk)
	switch {
	case c == nil:
		return v, false
	case v.offset == len(c.records) && c != &h.open:
		return viewOf(h.chunk(v.chunk + 1)), true
	case v.offset == 0:
		return viewOf(c), true // its first change may have come since
	}
	v.unread, v.lists = c.records[v.offset:], c.lists
	return v, true
}

// change is one change of a node.
type change struct {
	event     jute.EventType // of the node
	zxid      int64
	path      string // in the history's memory, which never changes
	acl       *acl
	parentACL *acl   // nil if no node's children changed
	number    uint64 // of the changes before it
}

// next takes the next change from the view. The view has one.
func (v *historyView) next() (c change) {
	b := v.unread
	c.event, b = jute.EventType(b[0]), b[1:]
	delta, b := takeUvarint(b)
	place, b := takeUvarint(b)
	c.acl = v.lists[place]
	if c.event != jute.EventNodeDataChanged {
		place, b = takeUvarint(b)
		c.parentACL = v.lists[place]
	}
	length, b := takeUvarint(b)
	c.path, b = borrowString(b[:length]), b[length:]
	v.zxid += int64(delta)
	c.zxid, c.number = v.zxid, v.records
	v.offset += len(v.unread) - len(b)
	v.unread = b
	v.records++
	return c
}

func takeUvarint(b []byte) (uint64, []byte) {
	if b[0] < 0x80 {
		return uint64(b[0]), b[1:]
	}
	v, n := binary.Uvarint(b)
	return v, b[n:]
}
