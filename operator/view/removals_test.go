package view

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"rollcall/operator/api"
	"rollcall/proto"
)

// remembered answers as a member that remembers rows, newest first, and puts at most short of them into a
// reply.
func remembered(rows []*proto.RemovalRow, short int) func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
	return func(_ context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
		q, reply := r.GetRemovals(), &proto.RemovalRows{}
		for _, row := range rows {
			switch n := len(reply.Rows); {
			case q.Zxid != 0 && (row.Zxid > q.Zxid || row.Zxid == q.Zxid && row.Part >= q.Part):
			case n > 0 && n == min(int(q.Limit), short):
				reply.NextZxid, reply.NextPart = reply.Rows[n-1].Zxid, reply.Rows[n-1].Part
				return &proto.ViewReply{About: &proto.ViewReply_Removals{Removals: reply}}, nil
			default:
				reply.Rows = append(reply.Rows, row)
			}
		}
		return &proto.ViewReply{About: &proto.ViewReply_Removals{Removals: reply}}, nil
	}
}

// removals returns the zxids and paths of all removals, page by page, and the silences of the last page.
func (f *fake) removals(t *testing.T, limit int) (got []string, silent []api.Silence) {
	t.Helper()
	for p := (Page{Limit: limit}); ; {
		a, err := f.NodeRemovals(t.Context(), "", p)
		if err != nil || len(a.Items) > limit || len(a.Items) == 0 && a.NextCursor != "" {
			t.Fatalf("%d rows on a page of %d, %v", len(a.Items), limit, err)
		}
		for _, r := range a.Items {
			got = append(got, r.Zxid+" "+r.Path)
		}
		if a.NextCursor == "" {
			return got, a.Silent
		}
		p.Cursor = a.NextCursor
	}
}

// The pages of removals, put together, have each removal that any member remembers once, the newest first,
// however much each of them remembers and says at a time.
func TestRemovals(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		f := newFake(t, 3)
		var all []*proto.RemovalRow
		var want []string
		for zxid := int64(9 + rng.IntN(5)); zxid > 0; zxid-- {
			for part := uint32(1 + rng.IntN(3)); part > 0; part-- {
				row := &proto.RemovalRow{Path: fmt.Append(nil, "/", zxid, "-", part), Zxid: zxid, Part: part, Cause: proto.RemovalCause_REMOVAL_CAUSE_DELETE, RemovedMs: zxid}
				all = append(all, row)
				want = append(want, fmt.Sprintf("0x%x /%d-%d", zxid, zxid, part))
			}
		}
		said := make([]bool, len(all))
		for _, peer := range f.peers {
			known := rng.IntN(len(all) + 1) // the member began after the others
			lag := rng.IntN(known + 1)      // the member has not applied so many
			for i := lag; i < known; i++ {
				said[i] = true
			}
			peer.answer = remembered(all[lag:known], 1+rng.IntN(5))
		}
		i := -1
		want = slices.DeleteFunc(want, func(string) bool { i++; return !said[i] })
		limit := 1 + rng.IntN(8)
		if got, silent := f.removals(t, limit); !slices.Equal(got, want) || len(silent) > 0 {
			t.Fatalf("round %d, pages of %d: %v, want %v; silent %v", round, limit, got, want, silent)
		}
	}
}

// If members contradict each other, an operator sees what each of them says. A member that is silent is
// named, and is not asked for the next page.
func TestRemovalsContradict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 4)
		row := func(zxid int64, path string) *proto.RemovalRow {
			return &proto.RemovalRow{Path: []byte(path), Zxid: zxid, Part: 1, Cause: proto.RemovalCause_REMOVAL_CAUSE_TTL}
		}
		f.peers[1].answer = remembered([]*proto.RemovalRow{row(9, "/a"), row(8, "/b")}, 9)
		f.peers[2].answer = remembered([]*proto.RemovalRow{row(9, "/x"), row(8, "/b")}, 9)
		f.peers[3].answer = f.peers[1].answer
		f.peers[4].answer = late
		got, silent := f.removals(t, 2)
		if want := []string{"0x9 /a", "0x9 /x", "0x8 /b"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if len(silent) != 1 || silent[0].MemberID != 4 || silent[0].Reason != ReasonSkipped || len(f.peers[4].requests()) != 1 {
			t.Errorf("silent: %+v", silent)
		}
		if _, err := f.NodeRemovals(t.Context(), "", Page{Cursor: position{Zxid: 3}.encodeCursor(sessionList, nil)}); !errors.Is(err, ErrBadCursor) {
			t.Errorf("the cursor of another list: %v", err)
		}
	})
}
