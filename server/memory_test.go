package server

import (
	"fmt"
	"testing"

	"rollcall/internal/admission"
	"rollcall/zk/jute"
)

// zxid returns the zxid of the last transaction.
func (w *world) zxid() int64 {
	w.state.RLock()
	defer w.state.RUnlock()
	return w.state.Zxid()
}

// While a member is short of memory, writes that add data are rejected and take no zxid. All other requests succeed. The
// replies of the connection stay in order.
func TestShortOfMemory(t *testing.T) {
	multi := func(ops ...jute.MultiOp) raw { return jute.AppendMulti(nil, ops) }
	op := func(of jute.Op, path, data string) jute.MultiOp {
		return jute.MultiOp{
			Op: of, Create: jute.CreateRequest{Path: []byte(path), Data: []byte(data), ACL: jute.OpenACL}, Delete: jute.DeleteRequest{Path: []byte(path), Version: -1},
			SetData: jute.SetDataRequest{Path: []byte(path), Data: []byte(data), Version: -1}, Check: jute.CheckVersionRequest{Path: []byte(path), Version: -1},
		}
	}
	tests := []struct {
		name string
		op   jute.Op
		rec  record
		want jute.Code
	}{
		{"create", jute.OpCreate, create("/b", "", 0), jute.NoRoom},
		{"create2", jute.OpCreate2, create("/b", "", 0), jute.NoRoom},
		{"container", jute.OpCreateContainer, create("/b", "", jute.Container), jute.NoRoom},
		{"TTL", jute.OpCreateTTL, jute.CreateTTLRequest{CreateRequest: create("/b", "", jute.PersistentWithTTL).(jute.CreateRequest), TTL: 5}, jute.NoRoom},
		{"longer list", jute.OpSetACL, jute.SetACLRequest{Path: []byte("/a"), ACL: listOf(2), Version: -1}, jute.NoRoom},
		{"list that is as long", jute.OpSetACL, jute.SetACLRequest{Path: []byte("/a"), ACL: jute.OpenACL, Version: -1}, jute.OK},
		{"longer data", jute.OpSetData, setData("/a", "12345"), jute.NoRoom},
		{"as long", jute.OpSetData, setData("/a", "abcd"), jute.OK},
		{"shorter", jute.OpSetData, setData("/a", "a"), jute.OK},
		{"no node", jute.OpSetData, setData("/none", ""), jute.NoNode},
		{"unreadable", jute.OpCreate, raw("x"), jute.MarshallingError},
		{"unreadable multi", jute.OpMulti, raw("x"), jute.MarshallingError},
		{"multi that creates", jute.OpMulti, multi(op(jute.OpDelete, "/a", ""), op(jute.OpCreate, "/b", "")), jute.NoRoom},
		{"multi that grows", jute.OpMulti, multi(op(jute.OpCheck, "/a", ""), op(jute.OpSetData, "/a", "12345")), jute.NoRoom},
		{"multi that shrinks", jute.OpMulti, multi(op(jute.OpCheck, "/a", ""), op(jute.OpSetData, "/a", "1"), op(jute.OpDelete, "/old", "")), jute.OK},
		{"delete", jute.OpDelete, jute.DeleteRequest{Path: []byte("/old"), Version: -1}, jute.OK},
		{"read", jute.OpGetData, getData("/a", true), jute.OK},
		{"sync", jute.OpSync, jute.SyncRequest{Path: []byte("/")}, jute.OK},
		{"ping", jute.OpPing, raw(""), jute.OK},
		{"close", jute.OpCloseSession, raw(""), jute.OK},
	}
	for name, tcp := range map[string]bool{"memory": false, "tcp": true} {
		for _, tt := range tests {
			t.Run(name+" "+tt.name, func(t *testing.T) {
				memory := admission.NewMemoryLimiter(1000)
				w := newWorld(t, tcp, func(c *Config) { c.Memory = memory })
				c := w.connect()
				c.must(jute.OpCreate, create("/a", "1234", 0))
				c.must(jute.OpCreate, create("/old", "", 0))
				memory.SetUsed(1001)
				zxid := w.zxid()
				h, rest := c.call(tt.op, tt.rec)
				if h.Err != tt.want {
					t.Errorf("%v, want %v", h.Err, tt.want)
				}
				refused := tt.want == jute.NoRoom
				if refused && (w.zxid() != zxid || h.Zxid != zxid || len(rest) != 0) {
					t.Errorf("zxid %#x in the log and %#x in the reply, was %#x; %d bytes after the header", w.zxid(), h.Zxid, zxid, len(rest))
				}
				if s := w.srv.Stats(); (s.MemoryRejections == 1) != refused || !s.MemoryFull || s.MemoryLimit != 1000 || s.MemoryUsed != 1001 {
					t.Errorf("%d refused; full %t, %d of %d", s.MemoryRejections, s.MemoryFull, s.MemoryUsed, s.MemoryLimit)
				}
				if tt.op != jute.OpCloseSession {
					w.connect()
					memory.SetUsed(0)
					c.must(jute.OpCreate, create("/new", "", 0))
				}
			})
		}
	}
}

// A rejection comes after the replies to earlier writes that are still on their way.
func TestShortOfMemoryInOrder(t *testing.T) {
	memory := admission.NewMemoryLimiter(1000)
	w := newWorld(t, false, func(c *Config) { c.Memory = memory })
	c := w.connect()
	c.must(jute.OpCreate, create("/a", "1234", 0))
	memory.SetUsed(1001)
	w.hold()
	c.request(jute.OpSetData, setData("/a", "1"))
	first := c.xid
	c.request(jute.OpCreate, create("/b", "", 0))
	w.release()
	c.expect(first, jute.OK)
	c.expect(first+1, jute.NoRoom)
}

// While a member is short of memory, a client that has proved few identities can delete what they protect. One that has proved so many
// that the record of its session would take more memory than before cannot write until there is room, and then with all of them.
func TestShortOfMemoryForIdentities(t *testing.T) {
	memory := admission.NewMemoryLimiter(1000)
	w := newWorld(t, false, func(c *Config) { c.Memory = memory })
	own := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}
	owner := w.connect()
	owner.must(jute.OpAuth, auth("digest", "owner:p"))
	for _, path := range []string{"/a", "/b"} {
		owner.must(jute.OpCreate, node(path, own))
	}
	memory.SetUsed(1001)
	few, many := w.connect(), w.connect()
	few.must(jute.OpAuth, auth("digest", "owner:p"))
	few.must(jute.OpDelete, jute.DeleteRequest{Path: []byte("/a"), Version: -1})
	for i := range DefaultMaxIdentities - 2 {
		many.must(jute.OpAuth, auth("digest", fmt.Sprintf("user%d:p", i)))
	}
	many.must(jute.OpAuth, auth("digest", "owner:p"))
	before := w.countForwarded()
	for range 2 {
		if h, _ := many.call(jute.OpDelete, jute.DeleteRequest{Path: []byte("/b"), Version: -1}); h.Err != jute.NoRoom {
			t.Errorf("%v with many identities, want %v", h.Err, jute.NoRoom)
		}
	}
	many.must(jute.OpGetData, getData("/b", false))
	if n := w.countForwarded() - before; n != 0 {
		t.Errorf("%d transactions are in the log, want none", n)
	}
	if s := w.srv.Stats(); s.MemoryRejections != 2 {
		t.Errorf("%d writes refused, want 2", s.MemoryRejections)
	}
	memory.SetUsed(0)
	many.must(jute.OpDelete, jute.DeleteRequest{Path: []byte("/b"), Version: -1})
	memory.SetUsed(1001)
	many.must(jute.OpSetData, setData("/", "")) // the record has them
	if h, _ := w.connect().call(jute.OpCloseSession, raw("")); h.Err != jute.OK {
		t.Errorf("close: %v", h.Err)
	}
}
