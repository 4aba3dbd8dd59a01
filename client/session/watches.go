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
	var kind watchKinds
	switch e.Type {
	case jute.EventNodeCreated, jute.EventNodeDataChanged:
		kind = watchData | watchExist
	case jute.EventNodeDeleted:
		kind = watchData | watchExist | watchChild
	case jute.EventNodeChildrenChanged:
		kind = watchChild
	default:
		return
	}
	if had := (*w)[string(e.Path)]; had&kind != 0 {
		w.removeKinds(string(e.Path), kind)
	}
}

func (w *watches) removeKinds(path string, kind watchKinds) {
	had, ok := (*w)[path]
	if !ok {
		return
	}
	if had &^= kind; had == 0 {
		delete(*w, path)
	} else {
		(*w)[path] = had
	}
}

// appendSetWatches appends the requests that set all watches again, and returns their number. Servers send at once the
// events that a client has missed since zxid.
func (w *watches) appendSetWatches(out *[]byte, zxid int64) (n int) {
	batch, size := newWatchBatch(zxid), 0
	send := func() {
		*out = batch.appendTo(*out)
		batch, size = newWatchBatch(zxid), 0
		n++
	}
	for path, kinds := range *w {
		p := []byte(path)
		for kind := watchData; kind <= watchRecursive; kind <<= 1 {
			if kinds&kind == 0 {
				continue
			}
			if size > 0 && size+len(p)+4 > maxBatch {
				send()
			}
			size += len(p) + 4
			batch.addPath(kind, p)
		}
	}
	if size > 0 {
		send()
	}
	return n
}

// watchBatch is one request that sets watches again.
type watchBatch struct{ jute.SetWatches2 }

// newWatchBatch returns a batch with empty lists, because servers reject null ones.
func newWatchBatch(zxid int64) watchBatch {
	none := [][]byte{}
	return watchBatch{jute.SetWatches2{
		RelativeZxid: zxid, Data: none, Exist: none, Child: none, Persistent: none,
		Recursive: none,
	}}
}

func (b *watchBatch) addPath(kind watchKinds, path []byte) {
	switch kind {
	case watchData:
		b.Data = append(b.Data, path)
	case watchExist:
		b.Exist = append(b.Exist, path)
	case watchChild:
		b.Child = append(b.Child, path)
	case watchPersistent:
		b.Persistent = append(b.Persistent, path)
	case watchRecursive:
		b.Recursive = append(b.Recursive, path)
	}
}

// appendTo writes the request. It uses the older one if that can hold everything, for servers before
// 3.6.
func (b *watchBatch) appendTo(out []byte) []byte {
	if len(b.Persistent)+len(b.Recursive) > 0 {
		return appendRequest(out, jute.XidSetWatches, jute.OpSetWatches2, b.SetWatches2)
	}
	return appendRequest(out, jute.XidSetWatches, jute.OpSetWatches,
		jute.SetWatches{RelativeZxid: b.RelativeZxid, Data: b.Data, Exist: b.Exist, Child: b.Child})
}
