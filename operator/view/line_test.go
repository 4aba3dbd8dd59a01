package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rollcall/operator/api"
	"rollcall/proto"
)

// The ephemeral children of a lock's node are in the order in which the lock is given, whatever their random ids are,
// and those who have it are marked.
func TestChildrenInLine(t *testing.T) {
	const a, b, c = "6b4fb4ad-5f5a-4f9e-9a3e-0123456789ab", "0b4fb4ad-5f5a-4f9e-9a3e-0123456789ab", "f1e2d3c4b5a6978812345678abcdef01"
	tests := []struct {
		name string
		line []string // in the order of the answer, with the turn of each
	}{
		{"Curator's mutex", []string{"_c_" + b + "-lock-0000000009 holds", "_c_" + a + "-lock-0000000010 waits"}},
		{"package client's mutex, in kazoo's layout", []string{c + "__lock__0000000003 holds", "0" + c[1:] + "__lock__0000000004 waits"}},
		{"Curator's latch", []string{"_c_" + b + "-latch-0000000000 holds", "_c_" + a + "-latch-0000000001 waits"}},
		{"a lock without an id", []string{"lock-0000000007 holds", "lock-0000000012 waits"}},
		{"Curator's readers before a writer", []string{
			"_c_" + b + "-__READ__0000000001 holds", "_c_" + a + "-__READ__0000000002 holds", "_c_" + a + "-__WRIT__0000000003 waits", "_c_" + b + "-__READ__0000000004 waits",
		}},
		{"kazoo's writer before readers", []string{c + "__lock__0000000001 holds", c + "__rlock__0000000002 waits", c + "__rlock__0000000003 waits"}},
		{"a writer that reads as well", []string{"_c_" + b + "-__WRIT__0000000001 holds", "_c_" + a + "-__READ__0000000001 holds", "_c_" + b + "-__READ__0000000002 waits"}},
		{"numbers after 2147483647", []string{"lock-2147483646 holds", "lock-2147483648 waits", "lock-8999999999 waits", "lock-9000000009000000000 waits", "lock-9000000009000000001 waits"}},
		{"leases of a semaphore", []string{"_c_" + b + "-lease-0000000001 ", "_c_" + a + "-lease-0000000002 "}},
		{"a mutex and a latch in one folder", []string{"_c_" + b + "-lock-0000000001 ", "_c_" + a + "-latch-0000000002 "}},
		{"members of a group", []string{"host-1 ", "host-2 "}},
		{"a node that is not of the lock", []string{"lock-0000000001 ", "lock-0000000002 ", "config "}},
		{"numbers used up", []string{"lock-2147483647 ", "lock--2147483648 "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names := slices.Clone(tt.line)
			for i := range names {
				names[i], _, _ = strings.Cut(names[i], " ")
			}
			slices.SortFunc(names, CompareInLine)
			r := &proto.OwnerRow{Kind: proto.NodeKind_NODE_KIND_CONTAINER, Ephemerals: uint32(len(names))}
			for i, name := range names {
				r.Children = append(r.Children, &proto.ChildRow{Name: []byte(name), Session: uint64(i + 1)})
			}
			children, err := ownedChildren(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := turnsOf(children); !slices.Equal(got, tt.line) {
				t.Errorf("%q, want %q", got, tt.line)
			}
			r.Partial = true
			if children, err = ownedChildren(r); err != nil || slices.ContainsFunc(children, func(c api.OwnedChild) bool { return c.Turn != TurnUnknown }) {
				t.Errorf("of a list that may lack the first: %q, %v", turnsOf(children), err)
			}
		})
	}
}

func turnsOf(children []api.OwnedChild) []string {
	turns := []string{}
	for _, c := range children {
		turns = append(turns, c.Name+" "+c.Turn)
	}
	return turns
}

// Children that a member could not honestly give are refused.
func TestChildrenLies(t *testing.T) {
	row := func(name string) *proto.ChildRow { return &proto.ChildRow{Name: []byte(name), Session: 1} }
	many := make([]*proto.ChildRow, MaxOwnedChildren+1)
	for i := range many {
		many[i] = row(fmt.Sprintf("lock-%010d", i))
	}
	for name, r := range map[string]*proto.OwnerRow{
		"out of order":    {Ephemerals: 2, Children: []*proto.ChildRow{row("lock-0000000002"), row("lock-0000000001")}},
		"twice":           {Ephemerals: 2, Children: []*proto.ChildRow{row("a"), row("a")}},
		"a path":          {Ephemerals: 1, Children: []*proto.ChildRow{row("a/b")}},
		"no name":         {Ephemerals: 1, Children: []*proto.ChildRow{row("")}},
		"no session":      {Ephemerals: 1, Children: []*proto.ChildRow{{Name: []byte("a")}}},
		"more than there": {Ephemerals: 0, Children: []*proto.ChildRow{row("a")}},
		"too many":        {Ephemerals: uint32(len(many)), Children: many},
	} {
		f := newFake(t, 1)
		r.Kind = proto.NodeKind_NODE_KIND_PLAIN
		f.peers[1].answer = func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
			return &proto.ViewReply{About: &proto.ViewReply_Owner{Owner: r}}, nil
		}
		if o, err := f.NodeOwner(t.Context(), "/x"); err == nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
