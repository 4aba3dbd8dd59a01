package session

import "rollcall/zk/jute"

// watchKinds is a set of kinds of watches.
type watchKinds uint8

// A request sets one of these kinds. exists sets watchExist, which becomes watchData if the node exists.
const (
	watchData watchKinds = 1 << iota
	watchExist
	watchChild
	watchPersistent
	watchRecursive
	countOfKinds = iota
)

// watches holds the watches of a Session by path, as the servers know them, so that they can be set
// again on another connection.
type watches map[string]watchKinds

// requestedWatch returns the path that a request watches if it succeeds, and the kind of watch.
func requestedWatch(op jute.Op, body []byte) (path string, kind watchKinds) {
	switch op {
	case jute.OpGetData:
		kind = watchData
	case jute.OpExists:
		kind = watchExist
	case jute.OpGetChildren, jute.OpGetChildren2:
		kind = watchChild
	case jute.OpAddWatch, jute.OpRemoveWatches:
		return requestedPersistentWatch(op, body)
	case jute.OpSetWatches2:
		return requestedResume(body)
	default:
		return "", 0
	}
	if len(body) == 0 || body[len(body)-1] == 0 { // the record ends with whether to watch
		return "", 0
	}
	d := jute.NewDecoder(body)
	return string(d.ReadBytes()), kind
}

// removedWatches are the kinds that each type of removeWatches removes.
var removedWatches = map[jute.WatcherType]watchKinds{
	jute.WatcherChildren:            watchChild,
	jute.WatcherData:                watchData | watchExist,
	jute.WatcherAny:                 watchData | watchExist | watchChild | watchPersistent | watchRecursive,
	jute.WatcherPersistent:          watchPersistent,
	jute.WatcherPersistentRecursive: watchRecursive,
}

// firedWatches are the kinds that each type of event uses up.
var firedWatches = map[jute.EventType]watchKinds{
	jute.EventNodeCreated:         watchData | watchExist,
	jute.EventNodeDataChanged:     watchData | watchExist,
	jute.EventNodeDeleted:         watchData | watchExist | watchChild,
	jute.EventNodeChildrenChanged: watchChild,
}

// requestedPersistentWatch does the same for addWatch and removeWatches. For the latter, kind has the kinds to remove.
func requestedPersistentWatch(op jute.Op, body []byte) (path string, kind watchKinds) {
	d := jute.NewDecoder(body)
	path = string(d.ReadBytes())
	mode := d.ReadInt32()
	switch {
	case op == jute.OpRemoveWatches:
		return path, removedWatches[jute.WatcherType(mode)]
	case jute.AddWatchMode(mode) == jute.AddWatchPersistentRecursive:
		return path, watchRecursive
	}
	return path, watchPersistent
}

// requestedResume does the same for a setWatches2 of a caller, which sets one recursive watch.
func requestedResume(body []byte) (path string, kind watchKinds) {
	var r jute.SetWatches2
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() != nil || len(r.Recursive) != 1 {
		return "", 0
	}
	return string(r.Recursive[0]), watchRecursive
}

// updateAfterReply records the watches that a request has set or removed.
func (w *watches) updateAfterReply(c call, code jute.Code) {
	kind := c.watchKind
	switch {
	case c.op == jute.OpExists && code == jute.NoNode: // it waits for the node's creation
	case code != jute.OK:
		return
	case c.op == jute.OpRemoveWatches:
		w.removeKinds(c.path, kind)
		return
	case c.op == jute.OpExists:
		kind = watchData
	}
	if *w == nil {
		*w = make(watches)
	}
	(*w)[c.path] |= kind
}

// removeFired removes the one-shot watches that an event has used up.
func (w *watches) removeFired(e jute.WatcherEvent) {
	if kinds := firedWatches[e.Type]; (*w)[string(e.Path)]&kinds != 0 {
		w.removeKinds(string(e.Path), kinds)
	}
}

func (w *watches) removeKinds(path string, kinds watchKinds) {
	if left := (*w)[path] &^ kinds; left == 0 {
		delete(*w, path)
	} else {
		(*w)[path] = left
	}
}

// appendSetWatches appends the requests that set all watches again, and returns their number. Servers send at once the
// events that a client has missed since zxid.
func (w *watches) appendSetWatches(out *[]byte, zxid int64) (n int) {
	batch, size := emptyBatch, 0
	send := func() {
		*out = batch.appendTo(*out, zxid)
		batch, size = emptyBatch, 0
		n++
	}
	for path, kinds := range *w {
		p := []byte(path)
		for i := range batch {
			if kinds&(1<<i) == 0 {
				continue
			}
			if size > 0 && size+len(p)+4 > maxBatch {
				send()
			}
			size += len(p) + 4
			batch[i] = append(batch[i], p)
		}
	}
	if size > 0 {
		send()
	}
	return n
}

// watchBatch has the paths of one request that sets watches again, for each kind in the order of the constants.
type watchBatch [countOfKinds][][]byte

// emptyBatch has no null lists, because servers reject them.
var emptyBatch = watchBatch{{}, {}, {}, {}, {}}

// appendTo writes the request. It uses the older one if that can hold everything, for servers before
// 3.6.
func (b watchBatch) appendTo(out []byte, zxid int64) []byte {
	if len(b[3])+len(b[4]) > 0 {
		return appendRequest(out, jute.XidSetWatches, jute.OpSetWatches2, jute.SetWatches2{
			RelativeZxid: zxid, Data: b[0], Exist: b[1], Child: b[2], Persistent: b[3], Recursive: b[4],
		})
	}
	return appendRequest(out, jute.XidSetWatches, jute.OpSetWatches,
		jute.SetWatches{RelativeZxid: zxid, Data: b[0], Exist: b[1], Child: b[2]})
}
