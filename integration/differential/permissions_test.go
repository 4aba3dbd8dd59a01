package differential

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// permissionRow is a row of znode's table of permissions.
type permissionRow struct {
	op       string
	onParent bool
	perms    []string // "any": it needs none
}

// permissionTable reads znode's table of permissions.
func permissionTable(t *testing.T) (rows []permissionRow) {
	t.Helper()
	text, err := os.ReadFile("../../znode/testdata/permissions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); !strings.HasPrefix(line, "#") {
			rows = append(rows, permissionRow{op: fields[0], onParent: fields[1] == "parent", perms: fields[2:]})
		}
	}
	return rows
}

// permissionBits are no bit, each bit alone, and one that has no meaning.
var permissionBits = []struct {
	name string
	bits jute.Perm
}{
	{"none", 0},
	{"READ", jute.PermRead},
	{"WRITE", jute.PermWrite},
	{"CREATE", jute.PermCreate},
	{"DELETE", jute.PermDelete},
	{"ADMIN", jute.PermAdmin},
	{"32", 32},
}

// unrelated lets in a client that does not exist.
var unrelated = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("unrelated:hash")}}

// permissionSchemes are the entries that 3.8.0 takes without TLS and SASL, with the credentials of a client. in reports
// whether the entry lets that client in. The client's address is 127.0.0.1.
var permissionSchemes = []struct {
	name, scheme, id string
	auth             string
	in, super        bool
}{
	{name: "world", scheme: "world", id: "anyone", in: true},
	{name: "digest", scheme: "digest", id: hashed("u:p"), auth: "u:p", in: true},
	{name: "digest of another", scheme: "digest", id: hashed("u:p"), auth: "u:other"},
	{name: "auth", scheme: "auth", auth: "u:p", in: true},
	{name: "ip", scheme: "ip", id: "127.0.0.1", in: true},
	{name: "ip of another", scheme: "ip", id: "127.0.0.2"},
	{name: "ip with bits", scheme: "ip", id: "127.0.0.0/8", in: true},
	{name: "ip with bits of others", scheme: "ip", id: "10.0.0.0/8"},
	{name: "super", scheme: "digest", id: hashed("u:p"), auth: "super:secret", in: true, super: true},
}

// hashed returns the id of scheme digest of a user and a password.
func hashed(userAndPassword string) string {
	user, _, _ := strings.Cut(userAndPassword, ":")
	sum := sha1.Sum([]byte(userAndPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// operations is the record of a multi.
type operations []jute.MultiOp

func (ops operations) Append(b []byte) []byte { return jute.AppendMulti(b, ops) }

// permissionRequest returns the request of a row, about the node "above/node" or a new one beside it.
func permissionRequest(op, above string) (jute.Op, wire.Record) {
	node, create := []byte(above+"/node"), jute.CreateRequest{Path: []byte(above + "/new"), Data: []byte{}, ACL: jute.OpenACL}
	group, name, inGroup := strings.Cut(op, "/")
	if !inGroup {
		name = group
	}
	code := opByName[name]
	switch code {
	case jute.OpCreateContainer:
		create.Flags = jute.Container
	case jute.OpCreateTTL:
		create.Flags = jute.PersistentWithTTL
	}
	const ttl, anyVersion = 1000, -1
	versioned, watched := jute.DeleteRequest{Path: node, Version: anyVersion}, jute.GetDataRequest{Path: node}
	set := jute.SetDataRequest{Path: node, Data: []byte("y"), Version: anyVersion}
	switch group {
	case "multi":
		return jute.OpMulti, operations{{Op: code, Create: create, TTL: ttl, Delete: versioned, Check: versioned, SetData: set}}
	case "multiRead":
		return jute.OpMultiRead, operations{{Op: code, GetData: watched, GetChildren: watched}}
	case "getACL":
		return jute.OpGetACL, jute.GetACLRequest{Path: node}
	case "missed":
		none := [][]byte{}
		return jute.OpSetWatches, jute.SetWatches{RelativeZxid: 1, Data: [][]byte{node}, Exist: none, Child: none}
	}
	return code, map[jute.Op]wire.Record{
		jute.OpCreate: create, jute.OpCreate2: create, jute.OpCreateContainer: create, jute.OpCreateTTL: jute.CreateTTLRequest{CreateRequest: create, TTL: ttl},
		jute.OpDelete: versioned, jute.OpSetData: set, jute.OpSetACL: jute.SetACLRequest{Path: node, ACL: jute.OpenACL, Version: anyVersion},
		jute.OpGetData: watched, jute.OpExists: watched, jute.OpGetChildren: watched, jute.OpGetChildren2: watched,
		jute.OpGetAllChildrenNumber: jute.GetAllChildrenNumberRequest{Path: node}, jute.OpAddWatch: jute.AddWatchRequest{Path: node},
	}[code]
}

// permissionEvents are the events of the table: the read that sets a watch, its path below "above", and the change.
var permissionEvents = map[string]struct {
	read      jute.Op
	path      string
	change    jute.Op
	isCreated bool
}{
	"event/created":      {read: jute.OpExists, path: "/new", change: jute.OpCreate, isCreated: true},
	"event/deleted":      {read: jute.OpGetData, path: "/node", change: jute.OpDelete},
	"event/changed":      {read: jute.OpGetData, path: "/node", change: jute.OpSetData},
	"event/childCreated": {read: jute.OpGetChildren, change: jute.OpCreate},
	"event/childDeleted": {read: jute.OpGetChildren, change: jute.OpDelete},
}

// permissionClient is the client of one scheme on one target.
type permissionClient struct {
	*wire.Conn
	target *target
	xid    int32
}

// ask sends a request, and returns the reply and the events before it.
func (c *permissionClient) ask(op jute.Op, rec wire.Record) (wire.Reply, []jute.WatcherEvent, error) {
	c.xid++
	_ = c.SetDeadline(time.Now().Add(patience)) // fails only on a closed connection; Call reports that
	return c.Call(step{Do: op.String()}.xid(c.xid), op, rec)
}

// openPermissionClient opens a session on the target's first member.
func openPermissionClient(z *target, auth string) (*permissionClient, error) {
	conn, err := dial(z.addrs[0])
	if err != nil {
		return nil, err
	}
	c := &permissionClient{Conn: conn, target: z}
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Open(timeout); err != nil || auth == "" {
		return c, err
	}
	r, _, err := c.ask(jute.OpAuth, jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte(auth)})
	if err == nil && r.Err != jute.OK {
		err = fmt.Errorf("auth: %w", r.Err)
	}
	return c, err
}

// permitted makes the nodes "above" and "above/node", of which one gets list, and reports whether the operation of a row is
// permitted to c. The other node's list has nothing for c.
func (c *permissionClient) permitted(row permissionRow, above string, list []jute.ACL) (bool, error) {
	node := above + "/node"
	for _, path := range []string{above, node} {
		if r, err := c.target.ask(jute.OpCreate, jute.CreateRequest{Path: []byte(path), Data: []byte{}, ACL: jute.OpenACL}); err != nil || r.Err != jute.OK {
			return false, fmt.Errorf("create %s: %v, %w", path, r, err)
		}
	}
	event, isEvent := permissionEvents[row.op]
	if isEvent {
		if _, _, err := c.ask(event.read, jute.GetDataRequest{Path: []byte(above + event.path), Watch: true}); err != nil {
			return false, err
		}
	}
	lists := [][]jute.ACL{list, {unrelated}}
	if row.onParent {
		slices.Reverse(lists)
	}
	for i, path := range []string{node, above} {
		r, _, err := c.ask(jute.OpSetACL, jute.SetACLRequest{Path: []byte(path), ACL: lists[i], Version: -1})
		if err != nil || r.Err != jute.OK {
			return false, fmt.Errorf("setACL %s: %v, %w", path, r, err)
		}
	}
	if isEvent {
		return c.notified(event.change, event.isCreated, above)
	}
	r, events, err := c.ask(permissionRequest(row.op, above))
	if err != nil {
		return false, err
	}
	return succeeded(row.op, r, events)
}

// notified makes a change, and reports whether c gets an event of it.
func (c *permissionClient) notified(change jute.Op, isCreated bool, above string) (bool, error) {
	op, rec := permissionRequest(change.String(), above)
	if isCreated { // with the list of "above/node", in which the entries of scheme auth stand for c
		var as jute.GetACLResponse
		r, err := c.target.ask(jute.OpGetACL, jute.GetACLRequest{Path: []byte(above + "/node")})
		if err == nil {
			err = r.Into(&as)
		}
		if err != nil {
			return false, err
		}
		rec = jute.CreateRequest{Path: []byte(above + "/new"), Data: []byte{}, ACL: as.ACL}
	}
	if r, err := c.target.ask(op, rec); err != nil || r.Err != jute.OK {
		return false, fmt.Errorf("%v: %v, %w", op, r, err)
	}
	_, events, err := c.ask(jute.OpSync, jute.SyncRequest{Path: []byte("/")}) // its reply follows the event
	return len(events) > 0, err
}

// succeeded reports whether the reply to a row's request permits it. It returns an error for another rejection than
// NoAuth.
func succeeded(op string, r wire.Reply, events []jute.WatcherEvent) (bool, error) {
	code := r.Err
	switch group, _, _ := strings.Cut(op, "/"); {
	case code != jute.OK:
	case group == "missed":
		return len(events) > 0, nil
	case group == "multi" || group == "multiRead":
		var h jute.MultiHeader
		if err := r.Into(&h); err != nil && h.Type == 0 {
			return false, err
		}
		if h.Type == jute.OpError {
			code = h.Err
		}
	case op == "getACL/hash":
		var list jute.GetACLResponse
		err := r.Into(&list)
		return slices.ContainsFunc(list.ACL, func(e jute.ACL) bool { return string(e.ID.ID) == string(unrelated.ID.ID) }), err
	}
	if code != jute.OK && code != jute.NoAuth {
		return false, fmt.Errorf("%s: %w", op, code)
	}
	return code == jute.OK, nil
}

// openIn380 are the operations that 3.8.0 permits to everybody, and a later version does not: docs/deviations.md has a row for each.
var openIn380 = []string{"exists", "missed/changed"}

// ZooKeeper permits what znode's table of permissions says, and Rollcall permits the same.
func TestPermissions(t *testing.T) {
	needs.Check(t, needs.Usual)
	dir, rows := scratch(t), permissionTable(t)
	targets := []*target{startZooKeeper(t, dir), startRollcall(t, dir, 1)}
	var both sync.WaitGroup
	for i, z := range targets {
		both.Go(func() {
			cells := 0
			for _, s := range permissionSchemes {
				c, err := openPermissionClient(z, s.auth)
				if err != nil {
					t.Errorf("%s, %s: %v", z.name, s.name, err)
					return
				}
				defer c.Close()
				for _, row := range rows {
					for _, bit := range permissionBits {
						cells++
						entry := jute.ACL{Perms: bit.bits, ID: jute.ID{Scheme: []byte(s.scheme), ID: []byte(s.id)}}
						got, err := c.permitted(row, fmt.Sprintf("/cell-%d", cells), []jute.ACL{unrelated, entry})
						if err != nil {
							t.Errorf("%s, %s with %s for %s: %v", z.name, row.op, bit.name, s.name, err)
							return
						}
						open := row.perms[0] == "any" || s.super || i == 0 && slices.Contains(openIn380, row.op)
						if want := open || s.in && slices.Contains(row.perms, bit.name); got != want {
							t.Errorf("%s, %s with %s for %s: permitted: %t, want %t", z.name, row.op, bit.name, s.name, got, want)
						}
					}
				}
			}
			t.Logf("%s: %d combinations of an operation, a bit and a scheme", z.name, cells)
		})
	}
	both.Wait()
}
