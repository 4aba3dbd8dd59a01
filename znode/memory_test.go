package znode

import (
	"testing"

	"rollcall/zk/jute"
)

// A state keeps no entry alive that it has applied. What it decodes from an entry shares the entry's memory, so a few bytes
// would keep up to 1 MiB.
func TestStateKeepsNoEntries(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	list := aclOf(jute.PermAll, "world", "anyone", "ip", "127.0.0.1", "ip", "127.0.0.2")
	for n := len(list); n > 0; n-- { // fewer operations and shorter lists each time, so that they overwrite no others
		create := createOp("/n", "data", jute.PersistentSequential, list[:n])
		var creates, sets []jute.MultiOp
		for range n {
			creates = append(creates, jute.MultiOp{Op: jute.OpCreate, Create: create})
			sets = append(sets, jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte("/a"), Version: anyVersion}})
		}
		k.do(jute.OpMulti, jute.AppendMulti(nil, append(creates, jute.MultiOp{Op: jute.OpGetData}))) // malformed
		k.multi(append(sets, creates...)...)                                                         // /a does not exist
		k.multi(creates...)
		k.do(jute.OpCreate, create.Append(nil))
	}
	longAndShort := []jute.MultiOp{
		{Op: jute.OpCreate, Create: createOp("/long", "", 0, list)},
		{Op: jute.OpCreate, Create: createOp("/short", "", 0, list[:1])},
	}
	k.must(k.create("/a", 0))
	k.setACL("/a", list, anyVersion)
	k.setACL("/a", aclOf(jute.PermAll, "ip", "127.0.0.1", "ip", "nowhere"), anyVersion)
	k.setData("/a", "more data", anyVersion)
	k.multi(longAndShort...)
	if n := w.kept(); n > 0 {
		t.Errorf("%d of %d entries are kept", n, len(w.read))
	}
}
