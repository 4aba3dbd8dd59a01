package server

import (
	"iter"

	"rollcall/zk/jute"
)

// setWatchesReader reads a jute.SetWatches or jute.SetWatches2 in parts, in the order of its lists. It needs memory for one
// part, however long the record is. The frame must not change meanwhile.
type setWatchesReader struct {
	d        jute.Decoder
	numLists int
	list     int // the one that is read; -1: none yet
	left     int // its paths that are not yet read
	part     jute.SetWatches2

	hasPersistent bool // persistent or recursive watches were read
	pathBytes     int  // of the paths that were read
}

// firstPersistentList is the first list whose watches stay when they fire.
const firstPersistentList = 3

// newSetWatchesReader returns a reader of the body of a request, whose op is OpSetWatches or jute.OpSetWatches2.
func newSetWatchesReader(op jute.Op, body []byte) *setWatchesReader {
	r := &setWatchesReader{d: jute.NewDecoder(body), numLists: 3, list: -1}
	if op == jute.OpSetWatches2 {
		r.numLists = 5
	}
	r.part.RelativeZxid = r.d.ReadInt64()
	return r
}

// next returns a record of the next paths, at most so many, which is valid until the next call. In the part in which a
// list would begin, it is null if it is null in the whole record. Without an error it is never nil.
func (r *setWatchesReader) next(most int) *jute.SetWatches2 {
	lists := [...]*[][]byte{&r.part.Data, &r.part.Exist, &r.part.Child, &r.part.Persistent, &r.part.Recursive}
	for _, l := range lists {
		*l = append(*l, nil)[:0] // not null
	}
	for r.hasMore() {
		switch {
		case r.left == 0:
			null := false
			r.list++
			if r.left, null = r.d.ReadCount(lengthSize); null {
				*lists[r.list] = nil
			}
		case most == 0:
			return &r.part
		default:
			to, path := lists[r.list], r.d.ReadBytes()
			*to = append(*to, path)
			r.hasPersistent = r.hasPersistent || r.list >= firstPersistentList
			r.pathBytes += len(path)
			most, r.left = most-1, r.left-1
		}
	}
	return &r.part
}

// steps yields what next returns for the next paths: at most so many, in steps of at most so many.
func (r *setWatchesReader) steps(most, each int) iter.Seq[*jute.SetWatches2] {
	return func(yield func(*jute.SetWatches2) bool) {
		for left := most; left > 0 && r.hasMore(); left -= each {
			if !yield(r.next(min(each, left))) {
				return
			}
		}
	}
}

// relativeZxid returns the zxid of the last change that the client has seen.
func (r *setWatchesReader) relativeZxid() int64 { return r.part.RelativeZxid }

// hasMore reports whether next has more to read.
func (r *setWatchesReader) hasMore() bool {
	return r.d.Err() == nil && (r.left > 0 || r.list+1 < r.numLists)
}

// err returns what jute.Decoder.Err does.
func (r *setWatchesReader) err() error { return r.d.Err() }
