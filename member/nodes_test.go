package member_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

// nodeOps are the nodes of an ensemble as one member's HTTP shows and changes them.
type nodeOps struct {
	t *testing.T
	e *cluster.Ensemble
}

// change asks a member for a change, and returns the path and the status of HTTP.
func (o nodeOps) change(at uint32, within time.Duration, c admin.NodeChange) (path string, stat jute.Stat, status int, why string) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), within)
	defer cancel()
	c.CallerHost = "10.0.0.9"
	path, stat, err := o.e.Member(at).Operations().ChangeNode(ctx, c)
	status, why = o.status(err)
	return path, stat, status, why
}

func (o nodeOps) status(err error) (status int, why string) {
	o.t.Helper()
	if err == nil {
		return http.StatusOK, ""
	}
	f, ok := errors.AsType[*admin.Failure](err)
	if !ok {
		o.t.Fatalf("not a failure with a status: %v", err)
	}
	return f.Status, f.Text
}

func (o nodeOps) node(at uint32, path string, c admin.Caller) (n admin.Node, status int) {
	o.t.Helper()
	n, err := o.e.Member(at).Operations().ReadNode(admin.NodeQuery{Path: path, Limit: 10, Caller: c})
	status, _ = o.status(err)
	return n, status
}

func create(path string, acl []jute.ACL) admin.NodeChange {
	return admin.NodeChange{Op: jute.OpCreate, Path: path, Data: []byte("of " + path), ACL: acl}
}

func aclOf(perms jute.Perm, scheme, id string) []jute.ACL {
	return []jute.ACL{{Perms: perms, ID: jute.ID{Scheme: []byte(scheme), ID: []byte(id)}}}
}

// An administrator's change over HTTP is a write like any other, on every member: each has it, each of ZooKeeper's
// rules holds, and it says who deleted the node.
func TestChangeNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.Limits.MaxBuffer = 2000 }})
		leader := e.Ready()
		e.Joined()
		o := nodeOps{t, e}
		c := e.Connect(20*time.Second, leader)
		if _, err := c.Create("/e", nil, jute.Ephemeral); err != nil {
			t.Fatal(err)
		}
		follower := e.Followers()[0]
		tests := []struct {
			name   string
			change admin.NodeChange
			status int
			want   string // path, or a part of the reason
		}{
			{"a node", create("/a", jute.OpenACL), 200, "/a"},
			{"the same node", create("/a", jute.OpenACL), 409, "there is such a node already"},
			{"a child", create("/a/b", aclOf(jute.PermRead, "digest", "me:x=")), 200, "/a/b"},
			{"a numbered child", admin.NodeChange{Op: jute.OpCreate, Path: "/a/", ACL: jute.OpenACL, Mode: jute.PersistentSequential}, 200, "/a/0000000001"},
			{"a child of none", create("/none/b", jute.OpenACL), 404, "its parent must be there"},
			{"a child of an ephemeral node", create("/e/b", jute.OpenACL), 409, "ephemeral"},
			{"a node for nobody", create("/x", nil), 400, "the acl is not allowed"},
			{"a node for an unknown scheme", create("/x", aclOf(1, "host", "a")), 400, "the acl is not allowed"},
			{"a long node", admin.NodeChange{Op: jute.OpCreate, Path: "/x", Data: make([]byte, 2000), ACL: jute.OpenACL}, 413, "limits requests to 2000"},
			{"data", admin.NodeChange{Op: jute.OpSetData, Path: "/a", Data: []byte("x"), Version: 0}, 200, "/a"},
			{"data of an old version", admin.NodeChange{Op: jute.OpSetData, Path: "/a", Version: 0}, 409, "changed meanwhile"},
			{"data that others may not set", admin.NodeChange{Op: jute.OpSetData, Path: "/a/b", Data: []byte("y"), Version: -1}, 200, "/a/b"},
			{"data of none", admin.NodeChange{Op: jute.OpSetData, Path: "/none", Version: -1}, 404, "no such node"},
			{"the end of a parent", admin.NodeChange{Op: jute.OpDelete, Path: "/a", Version: -1}, 409, "delete them first"},
			{"the end of a built-in node", admin.NodeChange{Op: jute.OpDelete, Path: "/zookeeper/quota", Version: -1}, 400, "cannot be created or deleted"},
			{"the end of a node of an old version", admin.NodeChange{Op: jute.OpDelete, Path: "/a/b", Version: 0}, 409, "changed meanwhile"},
			{"the end of a node", admin.NodeChange{Op: jute.OpDelete, Path: "/a/b", Version: 1}, 200, "/a/b"},
			{"the end of none", admin.NodeChange{Op: jute.OpDelete, Path: "/a/b", Version: -1}, 404, "no such node"},
			{"the end of an ephemeral node", admin.NodeChange{Op: jute.OpDelete, Path: "/e", Version: -1}, 200, "/e"},
		}
		for i, tt := range tests {
			path, _, status, why := o.change([]uint32{leader, follower}[i%2], 5*time.Second, tt.change)
			if status != tt.status || !strings.Contains(path+why, tt.want) || status == 200 && path != tt.want {
				t.Errorf("%s: %d %s%s, want %d %s", tt.name, status, path, why, tt.status, tt.want)
			}
		}
		e.Equal()
		for _, id := range e.IDs() {
			n, status := o.node(id, "/a", admin.Caller{})
			if status != 200 || string(n.Data) != "x" || n.Stat.Version != 1 || !slices.Equal(n.Children, []string{"0000000001"}) {
				t.Errorf("member %d shows /a as %+v, %d", id, n, status)
			}
			rows, _ := removalsOf(t, e.Member(id).View(), "/e", 9)
			if len(rows) != 1 || rows[0].Cause != view.CauseDeleted || rows[0].SessionID != "" || rows[0].Address != "10.0.0.9" || rows[0].MemberID == 0 {
				t.Errorf("member %d: /e was removed by %+v", id, rows)
			}
		}
	})
}

// A node is shown to those whom its ACL allows to read it, and to administrators.
func TestNodeIsShownByItsACL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 1, cluster.Options{})
		leader := e.Ready()
		o := nodeOps{t, e}
		for path, acl := range map[string][]jute.ACL{
			"/open":    aclOf(jute.PermRead, "world", "anyone"),
			"/write":   aclOf(jute.PermAll&^jute.PermRead, "world", "anyone"),
			"/digest":  append(aclOf(jute.PermAll, "digest", "me:secret="), aclOf(jute.PermRead, "ip", "10.0.0.0/8")...),
			"/digest2": aclOf(jute.PermAll, "digest", "me:secret="),
		} {
			if _, _, status, why := o.change(leader, time.Second, create(path, acl)); status != 200 {
				t.Fatal(why)
			}
		}
		nobody, near, far, super := admin.Caller{}, admin.Caller{Host: "10.1.2.3"}, admin.Caller{Host: "fd00::1"}, admin.Caller{Host: "fd00::1", IsAdministrator: true}
		for _, tt := range []struct {
			path   string
			caller admin.Caller
			status int
		}{
			{"/", nobody, 200},
			{"/open", nobody, 200},
			{"/open", far, 200},
			{"/write", nobody, 403},
			{"/write", super, 200},
			{"/digest", nobody, 403},
			{"/digest", near, 200},
			{"/digest", far, 403},
			{"/digest", super, 200},
			{"/digest2", near, 403},
			{"/digest2", super, 200},
			{"/none", near, 404},
			{"/none", super, 404},
		} {
			n, status := o.node(leader, tt.path, tt.caller)
			if status != tt.status || status != 200 && (n.Data != nil || n.ACL != nil || n.Children != nil || n.Stat != (jute.Stat{})) {
				t.Errorf("%s for %+v: %d %+v, want %d", tt.path, tt.caller, status, n, tt.status)
			}
		}
		for caller, want := range map[admin.Caller]string{near: "me:x", super: "me:secret="} {
			if n, _ := o.node(leader, "/digest", caller); string(n.ACL[0].ID.ID) != want {
				t.Errorf("%+v sees the hash %s, want %s", caller, n.ACL[0].ID.ID, want)
			}
		}
	})
}

// The children of a node are listed page by page.
func TestNodeChildrenPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 1, cluster.Options{})
		leader := e.Ready()
		c := e.Connect(20*time.Second, leader)
		var want, got []string
		for i := range 25 {
			want = append(want, fmt.Sprintf("n%02d", i))
			if _, err := c.Create("/"+want[i], nil, jute.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, "zookeeper")
		for after, more := "", true; more; after = got[len(got)-1] {
			n, err := e.Member(leader).Operations().ReadNode(admin.NodeQuery{Path: "/", AfterChild: after, Limit: 7})
			if err != nil || len(n.Children) > 7 {
				t.Fatalf("%d children, %v", len(n.Children), err)
			}
			got, more = append(got, n.Children...), n.MoreChildren
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// A change without a leader is not made, now or later. If the leader is lost while it is under way, nobody knows,
// and the answer says so. A member that serves no clients shows and changes nothing.
func TestChangeNodeWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		o := nodeOps{t, e}
		cut := e.Followers()[0]
		e.Isolate(cut)
		if _, _, status, why := o.change(cut, 100*time.Millisecond, create("/never", jute.OpenACL)); status != 503 || !strings.Contains(why, "nothing was done") {
			t.Errorf("without a leader: %d %s", status, why)
		}
		e.Wait("the member that is cut off serves nobody", time.Minute, func() bool { return e.Member(cut).Role() == "" })
		if _, _, status, why := o.change(cut, time.Second, create("/never", jute.OpenACL)); status != 503 || !strings.Contains(why, "serves no clients") {
			t.Errorf("on a member that serves nobody: %d %s", status, why)
		}
		if _, status := o.node(cut, "/", admin.Caller{IsAdministrator: true}); status != 503 {
			t.Errorf("a node on a member that serves nobody: %d", status)
		}
		e.Rejoin(cut)
		e.Ready()
		e.Equal()
		if _, status := o.node(leader, "/never", admin.Caller{IsAdministrator: true}); status != 404 {
			t.Errorf("the change that was not made: %d", status)
		}
		leader = e.Leader()
		for _, id := range e.Followers() {
			e.BlockLog(leader, id)
		}
		if _, _, status, why := o.change(leader, 50*time.Millisecond, create("/doubtful", jute.OpenACL)); status != 504 || !strings.Contains(why, "look at the node") {
			t.Errorf("while the log is held up: %d %s", status, why)
		}
		for _, id := range e.Followers() {
			e.UnblockLog(leader, id)
		}
		e.Ready()
		e.Wait("the change that was under way", time.Minute, func() bool {
			_, status := o.node(e.Leader(), "/doubtful", admin.Caller{})
			return status == 200
		})
	})
}
