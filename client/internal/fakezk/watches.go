package fakezk

import (
	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// watches are those of a connection: by table and path, a set of modes.
type watches struct{ data, children map[string]int }

// These are modes of watches in a table.
const (
	modeOnce = 1 << iota
	modePersistent
	modeRecursive
)

func newWatches() watches { return watches{data: map[string]int{}, children: map[string]int{}} }

// addWatch adds a mode of watch. A server before 3.9 replaces the others.
func addWatch(table map[string]int, path string, mode int, before39 bool) {
	if before39 {
		table[path] = 0
	}
	table[path] |= mode
}

func clearWatch(table map[string]int, path string, mask int) {
	if table[path] &^= mask; table[path] == 0 {
		delete(table, path)
	}
}

// addPersistent adds a watch of addWatch.
func (w *watches) addPersistent(path string, mode jute.AddWatchMode, before39 bool) {
	if mode == jute.AddWatchPersistentRecursive {
		addWatch(w.data, path, modeRecursive, before39)
		return
	}
	addWatch(w.data, path, modePersistent, before39)
	addWatch(w.children, path, modePersistent, before39)
}

// changeWatch carries out addWatch, removeWatches or checkWatches. arg is the mode or the type of the watch.
func (w *watches) changeWatch(op jute.Op, path string, arg int32, before39 bool) (jute.Code, record) {
	if op == jute.OpAddWatch {
		w.addPersistent(path, jute.AddWatchMode(arg), before39)
		return jute.OK, jute.ErrorResponse{}
	}
	once := modeOnce
	if before39 {
		once = modeOnce | modePersistent | modeRecursive
		if arg > int32(jute.WatcherAny) {
			return jute.MarshallingError, nil
		}
	}
	masks := map[jute.WatcherType][2]int{
		jute.WatcherChildren: {0, once}, jute.WatcherData: {once, 0}, jute.WatcherAny: {-1, -1},
		jute.WatcherPersistent: {modePersistent, modePersistent}, jute.WatcherPersistentRecursive: {modeRecursive, 0},
	}
	mask := masks[jute.WatcherType(arg)]
	if w.data[path]&mask[0] == 0 && w.children[path]&mask[1] == 0 {
		return jute.NoWatcher, nil
	}
	if op == jute.OpRemoveWatches {
		clearWatch(w.data, path, mask[0])
		clearWatch(w.children, path, mask[1])
	}
	return jute.OK, nil
}

func decodeSetWatches(op jute.Op, d *jute.Decoder) (r jute.SetWatches2) {
	if op == jute.OpSetWatches2 {
		r.Decode(d)
		return r
	}
	var old jute.SetWatches
	old.Decode(d)
	return jute.SetWatches2{RelativeZxid: old.RelativeZxid, Data: old.Data, Exist: old.Exist, Child: old.Child}
}

// setWatches sets a client's watches again, and sends the events that it has missed.
func (c *conn) setWatches(r jute.SetWatches2) {
	s := c.server
	notify := func(typ jute.EventType, path string) { c.sendEvent(typ, path, -1) }
	setOnce := func(paths [][]byte, table map[string]int, changed jute.EventType, last func(*node) int64) {
		for _, p := range paths {
			switch n := s.nodes[string(p)]; {
			case n == nil:
				notify(jute.EventNodeDeleted, string(p))
			case last(n) > r.RelativeZxid:
				notify(changed, string(p))
			default:
				addWatch(table, string(p), modeOnce, s.Before39)
			}
		}
	}
	setOnce(r.Data, c.data, jute.EventNodeDataChanged, func(n *node) int64 { return n.stat.Mzxid })
	for _, p := range r.Exist {
		if s.nodes[string(p)] != nil {
			notify(jute.EventNodeCreated, string(p))
		} else {
			addWatch(c.data, string(p), modeOnce, s.Before39)
		}
	}
	setOnce(r.Child, c.children, jute.EventNodeChildrenChanged, func(n *node) int64 { return n.stat.Pzxid })
	for _, p := range r.Persistent {
		c.addPersistent(string(p), jute.AddWatchPersistent, s.Before39)
	}
	for _, p := range r.Recursive {
		c.addPersistent(string(p), jute.AddWatchPersistentRecursive, s.Before39)
	}
	c.replay(r)
}

// replay sends the events that persistent watches have missed, if the server keeps all changes after the client's zxid.
func (c *conn) replay(r jute.SetWatches2) {
	s := c.server
	if s.Ensemble == "" || r.RelativeZxid <= 0 || r.RelativeZxid < s.historyFrom {
		return
	}
	missed := newWatches()
	for _, p := range r.Persistent {
		missed.addPersistent(string(p), jute.AddWatchPersistent, false)
	}
	for _, p := range r.Recursive {
		missed.addPersistent(string(p), jute.AddWatchPersistentRecursive, false)
	}
	all := c.watches
	defer func() { c.watches = all }()
	c.watches = missed
	for _, old := range s.history {
		if n := s.nodes[old.path]; old.zxid > r.RelativeZxid && (n == nil || !n.secret) {
			c.notify([]change{old})
		}
	}
}

func (c *conn) sendEvent(typ jute.EventType, path string, zxid int64) {
	if c.server.muted {
		return
	}
	if c.server.Before39 {
		zxid = -1
	}
	out := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}.Append(nil)
	c.out <- jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: []byte(path)}.Append(out)
}

// sendChanges sends the events of changes to all connections. One that lags gets them later.
func (s *Server) sendChanges(changes []change) {
	if s.Ensemble != "" {
		s.history = append(s.history, changes...)
	}
	for _, other := range s.sessions {
		switch c := other.link; {
		case c == nil:
		case c.lag != nil:
			c.lag.changes = append(c.lag.changes, changes...)
		default:
			c.notify(changes)
		}
	}
}

// notify sends the events of changes for which the connection has watches.
func (c *conn) notify(changes []change) {
	for _, change := range changes {
		told := c.fireWatches(c.data, change.typ, change)
		switch change.typ {
		case jute.EventNodeDataChanged:
			continue
		case jute.EventNodeDeleted:
			if told {
				clearWatch(c.children, change.path, modeOnce)
			} else {
				c.fireWatches(c.children, change.typ, change)
			}
		}
		change.path = nodepath.Parent(change.path)
		c.fireWatches(c.children, jute.EventNodeChildrenChanged, change)
	}
}

// fireWatches sends an event to the watches of one table, and reports whether it did.
func (c *conn) fireWatches(table map[string]int, typ jute.EventType, change change) bool {
	notify := table[change.path] != 0
	if typ != jute.EventNodeChildrenChanged {
		for above := change.path; ; above = nodepath.Parent(above) {
			notify = notify || table[above]&modeRecursive != 0
			if above == "/" {
				break
			}
		}
	}
	clearWatch(table, change.path, modeOnce)
	if notify {
		c.sendEvent(typ, change.path, change.zxid)
	}
	return notify
}

// lag is what a connection sees of the tree while its server is behind.
type lag struct {
	nodes   tree
	changes []change // that its server has not applied
}

// nodes returns the nodes that the connection reads.
func (c *conn) nodes() tree {
	if c.lag != nil {
		return c.lag.nodes
	}
	return c.server.nodes
}

// catchUp makes the connection see all changes.
func (c *conn) catchUp() {
	if late := c.lag; late != nil {
		c.lag = nil
		c.notify(late.changes)
	}
}
