package view

import (
	"testing"

	"rollcall/proto"
)

// A page that is full ends the list if there is no more. So a list has as many pages as it needs, and none is empty.
func TestFullPageOfRemovals(t *testing.T) {
	f := newFake(t, 1)
	var all []*proto.RemovalRow
	for zxid := int64(6); zxid > 0; zxid-- {
		all = append(all, &proto.RemovalRow{Path: []byte("/a"), Zxid: zxid, Part: 1, Cause: proto.RemovalCause_REMOVAL_CAUSE_DELETE, RemovedMs: zxid})
	}
	f.peers[1].answer = remembered(all, len(all))
	for limit := 1; limit <= len(all)+1; limit++ {
		pages := 0
		for p := (Page{Limit: limit}); pages == 0 || p.Cursor != ""; pages++ {
			a, err := f.NodeRemovals(t.Context(), "", p)
			if err != nil || len(a.Items) == 0 {
				t.Fatalf("pages of %d: %d rows, %v", limit, len(a.Items), err)
			}
			p.Cursor = a.NextCursor
		}
		if want := (len(all) + limit - 1) / limit; pages != want {
			t.Errorf("%d pages of %d, want %d", pages, limit, want)
		}
	}
}
