package stateview

import (
	"context"
	"testing"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/operator/past/pasttest"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// A removal has all fields of its row.
func TestRemovalRow(t *testing.T) {
	got := newRemovalRow(&znode.Removal{
		Path: "/p", Zxid: 1, TxnPart: 2, AtMs: 3, Cause: znode.CauseTTLExpired, Member: 4, Session: 5, Address: "a",
	})
	want := &proto.RemovalRow{
		Path: []byte("/p"), Zxid: 1, Part: 2, RemovedMs: 3, Cause: proto.RemovalCause_REMOVAL_CAUSE_TTL, Member: 4, Session: 5,
		Address: []byte("a"),
	}
	if !protobuf.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Queries about the state alone are answered, and others are not.
func TestReply(t *testing.T) {
	e := pasttest.New(t, 1000)
	c := e.Connect("10.0.0.7:1")
	c.Create("/lock", "", 0)
	c.Create("/lock/n-", "", jute.EphemeralSequential)
	gone := e.Connect("10.0.0.8:2")
	gone.Create("/e", "", jute.Ephemeral)
	gone.Close()
	v := Viewer{e.State}
	sessions := v.Reply(t.Context(), &proto.ViewRequest{About: &proto.ViewRequest_Sessions{Sessions: &proto.ViewSessions{Limit: 10}}}).GetSessions()
	if len(sessions.GetRows()) != 1 || string(sessions.Rows[0].Address) != "10.0.0.7:1" || sessions.Rows[0].Ephemerals != 1 {
		t.Errorf("sessions %v", sessions)
	}
	owner := v.Reply(t.Context(), &proto.ViewRequest{About: &proto.ViewRequest_Owner{Owner: &proto.ViewOwner{Path: []byte("/lock")}}}).GetOwner()
	if len(owner.GetChildren()) != 1 || string(owner.Children[0].Address) != "10.0.0.7:1" {
		t.Errorf("owner %v", owner)
	}
	nodes := v.Reply(t.Context(), &proto.ViewRequest{About: &proto.ViewRequest_Ephemerals{
		Ephemerals: &proto.ViewEphemerals{Session: uint64(c.ID), Limit: 10},
	}}).GetEphemerals()
	if len(nodes.GetPaths()) != 1 || string(nodes.Paths[0]) != "/lock/n-0000000000" {
		t.Errorf("ephemerals %v", nodes)
	}
	removals := v.Reply(t.Context(), &proto.ViewRequest{About: &proto.ViewRequest_Removals{Removals: &proto.ViewRemovals{Limit: 10}}}).GetRemovals()
	if len(removals.GetRows()) != 1 || string(removals.Rows[0].Path) != "/e" {
		t.Errorf("removals %v", removals)
	}
	for end := range v.SessionEnds(EndFilter{Session: gone.ID}) {
		if end.Address != "10.0.0.8:2" || end.EphemeralCount != 1 {
			t.Errorf("end %+v", end)
		}
	}
	if r := v.Reply(context.Background(), &proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}}); r != nil {
		t.Errorf("a status: %v", r)
	}
}
