package group

import (
	"testing"

	"rollcall/client"
	"rollcall/client/internal/roster"
)

// A member whose data were left out is a member, and says so.
func TestMembersOfOmitted(t *testing.T) {
	members := membersOf([]roster.Child{
		{Name: "a", Omitted: true, Stat: client.Stat{Owner: 1}},
		{Name: "b", Data: []byte("x"), Stat: client.Stat{Owner: 1}},
	})
	if len(members) != 2 || !members[0].DataOmitted || members[0].ID != "a" || members[1].DataOmitted {
		t.Errorf("the members are %+v", members)
	}
}
