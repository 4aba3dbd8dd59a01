package client

import "rollcall/zk/jute"

// watch is a set of kinds of watches.
type watch uint8

// A request sets one of these kinds. exists sets watchExist, which becomes watchData if the node exists.
const (
	watchData watch = 1 << iota
	watchExist
	watchChild
	watchPersistent
	watchRecursive
)

// watches holds the watches of a Client by path, as the servers know them, so that they can be set
// again on another connection.
type watches map[string]watch

// watchOf returns the path that a request watches if it succeeds, and the kind of watch.
func watchOf(op jute.Op, body []byte) (path string, kind watch) {
	switch op {
	case jute.OpGetData:
		kind = watchData
	case jute.OpExists:
		kind = watchExist
	case jute.OpGetChildren, jute.OpGetChildren2:
		kind = watchChild
	case jute.OpAddWatch, jute.OpRemoveWatches:
		return persistentWatchOf(op, body)
	default:
		return "", 0
	}
	d := jute.NewDecoder(body)
	name := d.ReadBytes()
	if !d.ReadBool() {
		return "", 0
	}
	return string(name), kind
}

// removedWatches are the kinds that each type of removeWatches removes.
var removedWatches = map[jute.WatcherType]watch{
	jute.WatcherChildren:            watchChild,
	jute.WatcherData:                watchData | watchExist,
	jute.WatcherAny:                 watchData | watchExist | watchChild | watchPersistent | watchRecursive,
	jute.WatcherPersistent:          watchPersistent,
	jute.WatcherPersistentRecursive: watchRecursive,
}

// persistentWatchOf does the same for addWatch and removeWatches. For the latter, kind has the kinds to remove.
func persistentWatchOf(op jute.Op, body []byte) (path string, kind watch) {
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

// requestReplied records the watches that a request has set or removed.
func (w *watches) requestReplied(c call, code jute.Code) {
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

// eventFired removes the one-shot watches that an event has used up.
func (w *watches) eventFired(e jute.WatcherEvent) {
	var kind watch
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

func (w *watches) removeKinds(path string, kind watch) {
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

// appendSet appends the requests that set all watches again, and returns how many requests there
// are. Servers send at once the events that a client has missed since zxid.
func (w *watches) appendSet(out *[]byte, zxid int64) (n int) {
	batch, size := newBatch(zxid), 0
	send := func() {
		*out = batch.append(*out)
		batch, size = newBatch(zxid), 0
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
			batch.add(kind, p)
		}
	}
	if size > 0 {
		send()
	}
	return n
}

// watchBatch is one request that sets watches again.
type watchBatch struct{ jute.SetWatches2 }

// newBatch returns a batch with empty lists, because servers reject null ones.
func newBatch(zxid int64) watchBatch {
	none := [][]byte{}
	return watchBatch{jute.SetWatches2{
		RelativeZxid: zxid, Data: none, Exist: none, Child: none, Persistent: none,
		Recursive: none,
	}}
}

func (b *watchBatch) add(kind watch, path []byte) {
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

// append writes the request. It uses the older one if that can hold everything, for servers before
// 3.6.
func (b *watchBatch) append(out []byte) []byte {
	if len(b.Persistent)+len(b.Recursive) > 0 {
		return appendRequest(out, jute.XidSetWatches, jute.OpSetWatches2, b.SetWatches2)
	}
	return appendRequest(out, jute.XidSetWatches, jute.OpSetWatches,
		jute.SetWatches{RelativeZxid: b.RelativeZxid, Data: b.Data, Exist: b.Exist, Child: b.Child})
}
