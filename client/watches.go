package client

import "rollcall/jute"

// watch is a set of kinds of watches.
type watch uint8

// The kinds. A request asks for one of them; exists for watchExist, which is watchData if the
// node is there.
const (
	watchData watch = 1 << iota
	watchExist
	watchChild
	watchPersistent
	watchRecursive
)

// watches is what a Client watches, by path, as its servers know it: to be set again on
// another connection.
type watches map[string]watch

// watchOf returns which path a request watches if it succeeds, and how.
func watchOf(op jute.Op, body []byte) (path string, kind watch) {
	switch op {
	case jute.OpGetData:
		kind = watchData
	case jute.OpExists:
		kind = watchExist
	case jute.OpGetChildren, jute.OpGetChildren2:
		kind = watchChild
	case jute.OpAddWatch, jute.OpRemoveWatches:
		return watchKept(op, body)
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

// dropped is what each type of removeWatches drops.
var dropped = map[jute.WatcherType]watch{
	jute.WatcherChildren:            watchChild,
	jute.WatcherData:                watchData | watchExist,
	jute.WatcherAny:                 watchData | watchExist | watchChild | watchPersistent | watchRecursive,
	jute.WatcherPersistent:          watchPersistent,
	jute.WatcherPersistentRecursive: watchRecursive,
}

// watchKept is watchOf for addWatch and removeWatches.
func watchKept(op jute.Op, body []byte) (path string, kind watch) {
	d := jute.NewDecoder(body)
	path = string(d.ReadBytes())
	mode := d.ReadInt32()
	switch {
	case op == jute.OpRemoveWatches:
		return path, dropped[jute.WatcherType(mode)]
	case jute.AddWatchMode(mode) == jute.AddWatchPersistentRecursive:
		return path, watchRecursive
	}
	return path, watchPersistent
}

// replied notes what a request that was answered has set or dropped.
func (w *watches) replied(c call, code jute.Code) {
	kind := c.set
	switch {
	case c.op == jute.OpExists && code == jute.NoNode: // it watches for the node to come
	case code != jute.OK:
		return
	case c.op == jute.OpRemoveWatches:
		w.drop(c.path, kind)
		return
	case c.op == jute.OpExists:
		kind = watchData
	}
	if *w == nil {
		*w = make(watches)
	}
	(*w)[c.path] |= kind
}

// fired drops what an event has used up.
func (w *watches) fired(e jute.WatcherEvent) {
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
		w.drop(string(e.Path), kind)
	}
}

func (w *watches) drop(path string, kind watch) {
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

// appendSet appends the requests that set all watches again, and returns how many they are.
// Servers fire at once what has changed since zxid.
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

// newBatch is empty: servers refuse null lists.
func newBatch(zxid int64) watchBatch {
	none := [][]byte{}
	return watchBatch{jute.SetWatches2{RelativeZxid: zxid, Data: none, Exist: none, Child: none, Persistent: none, Recursive: none}}
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

// append writes the request: the older one if that has all there is, for servers before 3.6.
func (b *watchBatch) append(out []byte) []byte {
	if len(b.Persistent)+len(b.Recursive) > 0 {
		return appendRequest(out, jute.XidSetWatches, jute.OpSetWatches2, b.SetWatches2)
	}
	return appendRequest(out, jute.XidSetWatches, jute.OpSetWatches,
		jute.SetWatches{RelativeZxid: b.RelativeZxid, Data: b.Data, Exist: b.Exist, Child: b.Child})
}
