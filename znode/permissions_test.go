package znode

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// permissionRow is a row of testdata/permissions.txt.
type permissionRow struct {
	op       string
	onParent bool
	perms    jute.Perm
	any      bool // it needs no permission
}

// permissionTable reads testdata/permissions.txt.
func permissionTable(t *testing.T) (rows []permissionRow) {
	t.Helper()
	text, err := os.ReadFile("testdata/permissions.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]jute.Perm{
		"READ": jute.PermRead, "WRITE": jute.PermWrite, "CREATE": jute.PermCreate, "DELETE": jute.PermDelete, "ADMIN": jute.PermAdmin,
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := permissionRow{op: fields[0], onParent: fields[1] == "parent", any: fields[2] == "any"}
		for _, name := range fields[2:] {
			row.perms |= names[name]
		}
		if row.any != (row.perms == 0) {
			t.Fatalf("unknown permission in %q", line)
		}
		rows = append(rows, row)
	}
	return rows
}

// permissionOps runs the operations of testdata/permissions.txt on the node "above/node", as k. The multiReads are missing:
// the server makes them of GetData and Children.
var permissionOps = map[string]func(k *client, above string) jute.Code{
	"create":          func(k *client, above string) jute.Code { return k.create(above+"/new", 0).Code },
	"createContainer": func(k *client, above string) jute.Code { return k.container(above + "/new").Code },
	"createTTL": func(k *client, above string) jute.Code {
		return k.createTTL(above+"/new", jute.PersistentWithTTL, 1000).Code
	},
	"create2": func(k *client, above string) jute.Code {
		return k.do(jute.OpCreate2, createOp(above+"/new", "", 0, jute.OpenACL).Append(nil)).Code
	},
	"delete":  func(k *client, above string) jute.Code { return k.delete(above+"/node", -1).Code },
	"setData": func(k *client, above string) jute.Code { return k.setData(above+"/node", "y", -1).Code },
	"setACL":  func(k *client, above string) jute.Code { return k.setACL(above+"/node", jute.OpenACL, -1).Code },

	"multi/create":          createdInMulti(jute.OpCreate, 0),
	"multi/create2":         createdInMulti(jute.OpCreate2, 0),
	"multi/createContainer": createdInMulti(jute.OpCreateContainer, jute.Container),
	"multi/createTTL":       createdInMulti(jute.OpCreateTTL, jute.PersistentWithTTL),
	"multi/delete": func(k *client, above string) jute.Code {
		return k.inMulti(jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(above + "/node"), Version: -1}})
	},
	"multi/setData": func(k *client, above string) jute.Code {
		return k.inMulti(jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte(above + "/node"), Version: -1}})
	},
	"multi/check": func(k *client, above string) jute.Code {
		return k.inMulti(jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte(above + "/node"), Version: -1}})
	},

	"getData":      func(k *client, above string) jute.Code { return k.watchData(above + "/node") },
	"exists":       func(k *client, above string) jute.Code { return k.watchExists(above + "/node") },
	"getChildren":  func(k *client, above string) jute.Code { return k.watchChildren(above + "/node") },
	"getChildren2": func(k *client, above string) jute.Code { return k.listed(above + "/node") },
	"getAllChildrenNumber": func(k *client, above string) jute.Code {
		_, code := k.w.s().TreeView().AllChildrenNumber([]byte(above+"/node"), k.ids)
		return code
	},
	"getACL":      func(k *client, above string) jute.Code { _, code := k.hashes(above + "/node"); return code },
	"getACL/hash": func(k *client, above string) jute.Code { return shown(k.hashes(above + "/node")) },
	"addWatch": func(k *client, above string) jute.Code {
		return k.w.s().AddWatch([]byte(above+"/node"), jute.AddWatchPersistent, k)
	},
	"missed/changed": func(k *client, above string) jute.Code {
		code := jute.Code(jute.NoAuth)
		req := jute.SetWatches2{Data: [][]byte{[]byte(above + "/node")}, Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}
		if set := k.w.s().SetWatches(&req, k, func(jute.EventType, []byte) { code = jute.OK }); set != jute.OK {
			return set
		}
		return code
	},
}

// createdInMulti returns an operation that creates a node in a multi.
func createdInMulti(op jute.Op, mode jute.CreateMode) func(*client, string) jute.Code {
	return func(k *client, above string) jute.Code {
		create := jute.MultiOp{Op: op, Create: createOp(above+"/new", "", mode, jute.OpenACL)}
		if op == jute.OpCreateTTL {
			create.TTL = 1000
		}
		return k.inMulti(create)
	}
}

// inMulti runs one operation in a multi, and returns its code there.
func (c *client) inMulti(op jute.MultiOp) jute.Code {
	c.w.t.Helper()
	r := c.multi(op)
	if r.Code != jute.OK {
		return r.Code
	}
	return r.Multi[0].Code
}

// listed reads a node's children in parts.
func (c *client) listed(path string) jute.Code {
	_, _, code := c.w.s().TreeView().ChildrenAfter([]byte(path), "", 10, 1000, c.ids)
	return code
}

// hashes reads a node's list, and reports whether it shows the hashes of digest entries.
func (c *client) hashes(path string) (shown bool, code jute.Code) {
	list, _, code := c.w.s().GetACL([]byte(path), c.ids)
	return slices.ContainsFunc(list, func(e jute.ACL) bool { return string(e.ID.ID) == unrelated[1] }), code
}

func shown(shown bool, code jute.Code) jute.Code {
	if code == jute.OK && !shown {
		return jute.NoAuth
	}
	return code
}

// permissionEvents are the events of the table: the watch that k sets, and the change that super makes. The node is "above/node",
// and gets list if the change creates it.
var permissionEvents = map[string]struct {
	watch  func(k *client, above string) jute.Code
	change func(super *client, above string, list []jute.ACL) Result
}{
	"event/created": {
		func(k *client, above string) jute.Code { return k.watchExists(above + "/new") },
		func(super *client, above string, list []jute.ACL) Result {
			return super.createACL(above+"/new", 0, list)
		},
	},
	"event/deleted": {
		func(k *client, above string) jute.Code { return k.watchData(above + "/node") },
		func(super *client, above string, _ []jute.ACL) Result { return super.delete(above+"/node", -1) },
	},
	"event/changed": {
		func(k *client, above string) jute.Code { return k.watchData(above + "/node") },
		func(super *client, above string, _ []jute.ACL) Result { return super.setData(above+"/node", "y", -1) },
	},
	"event/childCreated": {
		func(k *client, above string) jute.Code { return k.watchChildren(above) },
		func(super *client, above string, _ []jute.ACL) Result { return super.create(above+"/new", 0) },
	},
	"event/childDeleted": {
		func(k *client, above string) jute.Code { return k.watchChildren(above) },
		func(super *client, above string, _ []jute.ACL) Result { return super.delete(above+"/node", -1) },
	},
}

// unrelated is the scheme and id of an entry that has all permissions, for a client that does not exist.
var unrelated = []string{"digest", "unrelated:hash"}

// permissionSchemes are the ways in which an entry can let a client in: the entry's scheme and id, the identity of a
// client that it lets in, and of one that it does not.
var permissionSchemes = []struct {
	name, scheme, id      string
	in, out               []string
	addressIn, addressOut string
	all                   bool // the client has all permissions, whatever the entry says
	rules                 Rules
}{
	{name: "world", scheme: "world", id: "anyone"},
	{name: "digest", scheme: "digest", id: "u:h", in: []string{"digest", "u:h"}, out: []string{"digest", "u:other"}},
	{name: "digest of a name of sasl", scheme: "digest", id: "u:h", in: []string{"digest", "u:h"}, out: []string{"sasl", "u:h"}, rules: Rules{SASL: true}},
	{name: "auth", scheme: "auth", in: []string{"digest", "u:h"}, out: []string{"digest", "u:other"}},
	{name: "ip", scheme: "ip", id: "10.1.2.3", addressIn: "10.1.2.3", addressOut: "10.1.2.4"},
	{name: "ip with bits", scheme: "ip", id: "10.1.0.0/16", addressIn: "10.1.9.9", addressOut: "10.2.0.1"},
	{name: "ip of 16 bytes", scheme: "ip", id: "2001:db8::/32", addressIn: "2001:db8::5", addressOut: "2001:db9::5"},
	{name: "sasl", scheme: "sasl", id: "bob", in: []string{"sasl", "bob"}, out: []string{"sasl", "eve"}, rules: Rules{SASL: true}},
	{name: "super user of sasl", scheme: "sasl", id: "bob", in: []string{"sasl", "super"}, out: []string{"sasl", "eve"}, rules: Rules{SASL: true}},
	{name: "x509", scheme: "x509", id: "CN=bob", in: []string{"x509", "CN=bob"}, out: []string{"x509", "CN=eve"}, rules: Rules{X509: true}},
	{name: "super", scheme: "digest", id: "u:h", in: []string{"super", ""}, out: []string{"digest", "super:"}, all: true},
}

// identified opens a session that has an address, and an identity unless it is nil.
func (w *world) identified(address string, identity []string) *client {
	k := w.connect()
	if address != "" {
		k.ids = []*proto.Identity{{Scheme: "ip", Id: address}}
	}
	if identity != nil {
		k.auth(identity[0], identity[1])
	} else {
		k.do(jute.OpIdentify, nil)
	}
	return k
}

// Every operation needs the permissions that the table says, by each bit alone and by all other bits, with the entries of every
// scheme. The list of the other node, which is not the one that the table says, has nothing for the client.
func TestPermissionBits(t *testing.T) {
	const multiReads = 2
	rows := permissionTable(t)
	if all := len(permissionOps) + len(permissionEvents) + multiReads; len(rows) != all {
		t.Fatalf("the table has %d rows, want one for each of %d operations", len(rows), all)
	}
	for _, scheme := range permissionSchemes {
		t.Run(scheme.name, func(t *testing.T) {
			w := newWorld(t)
			scheme.rules.TTLNodes = true
			w.rule(scheme.rules)
			super := w.connect().auth("super", "")
			in, cells := w.identified(scheme.addressIn, scheme.in), 0
			clients := map[*client]bool{in: true}
			if scheme.scheme != "world" {
				clients[w.identified(scheme.addressOut, scheme.out)] = false
			}
			for _, row := range rows {
				if strings.HasPrefix(row.op, "multiRead/") {
					continue
				}
				for _, perms := range singleBits() {
					list := append(aclOf(jute.PermAll, unrelated...), aclOf(perms, scheme.scheme, scheme.id)...)
					for k, granted := range clients {
						cells++
						above := fmt.Sprintf("/%d", cells)
						want := jute.Code(jute.NoAuth)
						if row.any || granted && (scheme.all || perms&row.perms != 0) {
							want = jute.OK
						}
						if got := row.run(in, super, k, above, list); got != want {
							t.Errorf("%s with the bits %#b, granted to the client: %t: %v, want %v", row.op, perms, granted, got, want)
						}
					}
				}
			}
		})
	}
}

// singleBits returns no bit, each bit alone, one that has no meaning, and all except each.
func singleBits() []jute.Perm {
	bits := []jute.Perm{0, 32, 32 | jute.PermAll}
	for bit := jute.PermRead; bit <= jute.PermAdmin; bit <<= 1 {
		bits = append(bits, bit, jute.PermAll&^bit)
	}
	return bits
}

// run makes the nodes "above" and "above/node", of which one gets list, and returns the code of k's operation. For an event it
// returns OK if k has had it. The entries of scheme auth in list stand for the client in.
func (row permissionRow) run(in, super, k *client, above string, list []jute.ACL) jute.Code {
	node := above + "/node"
	in.must(super.create(above, 0))
	in.must(super.create(node, 0))
	event, isEvent := permissionEvents[row.op]
	if isEvent {
		if code := event.watch(k, above); code != jute.OK && code != jute.NoNode {
			return code
		}
		k.events = nil
	}
	lists := map[string][]jute.ACL{above: aclOf(jute.PermAll, unrelated...), node: list}
	if row.onParent {
		lists[above], lists[node] = lists[node], lists[above]
	}
	in.must(in.setACL(node, lists[node], -1))
	in.must(in.setACL(above, lists[above], -1))
	if !isEvent {
		return permissionOps[row.op](k, above)
	}
	created, _, _ := in.w.s().GetACL([]byte(node), super.ids) // with the entries that auth stands for
	in.must(event.change(super, above, created))
	if len(k.events) == 0 {
		return jute.NoAuth
	}
	return jute.OK
}

// A reconfig needs WRITE on the node of the list of servers, and no other bit will do.
func TestPermissionBitsOfReconfig(t *testing.T) {
	for _, perms := range singleBits() {
		w := listedWorld(t)
		super, user := w.connect().auth("super", ""), w.connect().auth("digest", "u:p")
		super.must(super.setACL(ConfigPath, aclOf(perms, "digest", "u:p"), -1))
		want := jute.Code(jute.NoAuth)
		if perms&jute.PermWrite != 0 {
			want = jute.OK
		}
		if r := user.reconfig("", "3", "", -1, everybody...); r.Code != want {
			t.Errorf("with the bits %#b: %v, want %v", perms, r.Code, want)
		}
	}
}
