package member_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// removalsOf returns all removals of a node that the ensemble remembers, in pages of limit rows.
func removalsOf(t *testing.T, v *view.Collector, path string, limit int) (rows []api.Removal, silent []api.Silence) {
	t.Helper()
	for p := (view.Page{Limit: limit}); ; {
		a, err := v.NodeRemovals(t.Context(), path, p)
		if err != nil || len(a.Items) > limit {
			t.Fatalf("%d removals, %v", len(a.Items), err)
		}
		if rows = append(rows, a.Items...); a.NextCursor == "" {
			return rows, a.Silent
		}
		p.Cursor = a.NextCursor
	}
}

// Every member answers what removed a node, also one that has forgotten that itself because it started from
// a snapshot, and while another member is down.
func TestRemovalsFromAnyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.SnapCount = 50 }})
		leader := e.Ready()
		forgetful, other := e.Followers()[0], e.Followers()[1]
		c, brief := e.Connect(20*time.Second, leader), e.Connect(20*time.Second, other)
		remove := func(path string) {
			t.Helper()
			if _, err := c.Do(jute.OpDelete, jute.DeleteRequest{Path: []byte(path), Version: -1}); err != nil {
				t.Fatal(err)
			}
		}
		create := func(c *cluster.Client, path string, mode jute.CreateMode) {
			t.Helper()
			if _, err := c.Create(path, nil, mode); err != nil {
				t.Fatal(err)
			}
		}
		create(c, "/a", jute.Persistent)
		create(brief, "/e1", jute.Ephemeral)
		create(brief, "/e2", jute.Ephemeral)
		remove("/a")
		if _, err := brief.Do(jute.OpCloseSession, nil); err != nil {
			t.Fatal(err)
		}
		before := e.Disk(forgetful).Snapshots()
		for i := range 100 {
			create(c, fmt.Sprint("/n", i), jute.Persistent)
		}
		e.Wait("a snapshot", time.Minute, func() bool { return e.Disk(forgetful).Snapshots() > before })
		e.Kill(forgetful)
		e.Boot(forgetful)
		e.Ready()
		remove("/n7")
		e.Equal()
		if own := ownRemovals(e.Member(forgetful)); len(own) != 1 || own[0] != "/n7" {
			t.Fatalf("the member that started again remembers %v: this test shows nothing", own)
		}

		paths := func(rows []api.Removal) (all []string) {
			for _, r := range rows {
				all = append(all, r.Path)
			}
			return all
		}
		want := []string{"/n7", "/e2", "/e1", "/a"}
		e.Wait("every member to reach the others again", time.Minute, func() bool {
			return !slices.ContainsFunc(e.IDs(), func(id uint32) bool {
				a, err := e.Member(id).View().MemberStatuses(t.Context())
				return err != nil || len(a.Silent) > 0
			})
		})
		for _, id := range e.IDs() {
			v := e.Member(id).View()
			for limit := 1; limit <= 5; limit++ {
				if rows, silent := removalsOf(t, v, "", limit); !slices.Equal(paths(rows), want) || len(silent) > 0 {
					t.Errorf("member %d: pages of %d: %v, silent %v", id, limit, paths(rows), silent)
				}
			}
			rows, _ := removalsOf(t, v, "/e2", 9)
			if len(rows) != 1 || rows[0].Cause != view.CauseSessionEnded || rows[0].SessionID != brief.Session().String() || rows[0].MemberID != other || rows[0].Address == "" {
				t.Errorf("member %d: /e2 was removed by %+v", id, rows)
			}
			rows, _ = removalsOf(t, v, "/a", 9)
			if len(rows) != 1 || rows[0].Cause != view.CauseDeleted || rows[0].SessionID != c.Session().String() || rows[0].MemberID != leader || rows[0].Address == "" || time.Since(rows[0].RemovedAt) > time.Minute {
				t.Errorf("member %d: /a was removed by %+v", id, rows)
			}
		}
		e.Kill(other)
		rows, silent := removalsOf(t, e.Member(forgetful).View(), "", 2)
		if !slices.Equal(paths(rows), want) || len(silent) != 1 || silent[0].MemberID != other {
			t.Errorf("while member %d is down: %v, silent %v", other, paths(rows), silent)
		}
	})
}

// ownRemovals returns the paths of what a member itself remembers, newest first.
func ownRemovals(m *member.Member) (paths []string) {
	s := m.State()
	s.RLock()
	defer s.RUnlock()
	for r := range s.RemovalsBefore(0, 0) {
		paths = append(paths, r.Path)
	}
	return paths
}

// A member's answer has no more rows than were asked for, and no more bytes than fit a page. It ends with
// the place at which the next one goes on. Not even a question that nobody asks makes it fail.
func TestRemovalPages(t *testing.T) {
	s := applied(t, 0)
	seq := uint64(0)
	apply := func(ops ...jute.MultiOp) {
		t.Helper()
		seq++
		txn := &proto.Txn{Member: 1, Incarnation: 5, Seq: seq, Op: int32(jute.OpMulti), Body: jute.AppendMulti(nil, ops)}
		if err := s.ApplyEntry(s.Index()+1, 1, &proto.Entry{Format: znode.FormatLevel, Term: 1, Nonce: 7, Txns: []*proto.Txn{txn}}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(path string) jute.MultiOp {
		return jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL}}
	}
	remove := func(path string) jute.MultiOp {
		return jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(path), Version: -1}}
	}
	for i := range 60 {
		path := fmt.Sprintf("/%02d%s", i, strings.Repeat("x", 60_000))
		apply(create(path), remove(path))
	}
	ask := func(q *proto.ViewRemovals) *proto.RemovalRows {
		reply, err := member.Over(s).Answer(t.Context(), &proto.ViewRequest{About: &proto.ViewRequest_Removals{Removals: q}})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetRemovals()
	}
	all, pages := 0, 0
	for q := (&proto.ViewRemovals{Limit: 1000}); ; pages++ {
		r := ask(q)
		if all += len(r.Rows); r.NextZxid == 0 {
			break
		}
		if len(r.Rows) != 18 { // of 60 kB, with one above the bound
			t.Fatalf("%d rows on a page", len(r.Rows))
		}
		q.Zxid, q.Part = r.NextZxid, r.NextPart
	}
	if all != 60 || pages != 3 {
		t.Errorf("%d removals on %d pages and a last one", all, pages)
	}
	var creates, removes []jute.MultiOp
	for i := range 2000 { // removed by one transaction, and more than are looked at under one hold of the lock
		path := fmt.Sprintf("/many%d", i)
		creates, removes = append(creates, create(path)), append(removes, remove(path))
	}
	apply(creates...)
	apply(removes...)
	if r := ask(&proto.ViewRemovals{Path: []byte("/many3"), Limit: 9}); len(r.Rows) != 1 || r.Rows[0].Part != 4 || r.NextZxid != 0 {
		t.Errorf("the fourth removal of a transaction: %v", r)
	}
	for _, q := range []*proto.ViewRemovals{{}, {Zxid: -1, Limit: 5}, {Path: []byte("/none"), Limit: 1 << 31}, {Zxid: 1 << 62, Part: 1 << 31}} {
		if r := ask(q); len(r.Rows) > 0 || r.NextZxid != 0 {
			t.Errorf("%v: %d rows, next %#x", q, len(r.Rows), r.NextZxid)
		}
	}
}
