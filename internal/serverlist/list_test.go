package serverlist

import (
	"slices"
	"strings"
	"testing"
)

const three = "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant;0.0.0.0:3\nserver.10=c:1:2:observer;0.0.0.0:3"

// parsed returns the list of text.
func parsed(t testing.TB, text string) List {
	t.Helper()
	list, err := ParseList(text)
	if err != nil {
		t.Fatalf("ParseList(%q): %v", text, err)
	}
	return list
}

// A list is sorted by id as numbers, and its text parses to the same list.
func TestParseList(t *testing.T) {
	list := parsed(t, " server.10 = c:1:2:observer;3 ,server.2=b:1:2;3\n\nserver.1=a:1:2;0.0.0.0:3\nversion=12")
	if list.CanonicalText() != three {
		t.Errorf("the text is %q, want %q", list.CanonicalText(), three)
	}
	if got := list.ConfigText(0x1_0000_0000); got != three+"\nversion=100000000" {
		t.Errorf("the content of the node is %q", got)
	}
	for _, text := range []string{list.CanonicalText(), list.ConfigText(7)} {
		if again := parsed(t, text); !slices.Equal(again, list) {
			t.Errorf("%q parses to %v", text, again)
		}
	}
	if got := list.Voters(); !slices.Equal(got, []uint32{1, 2}) {
		t.Errorf("the voters are %v", got)
	}
	if s, ok := list.Find(10); !ok || s.Host != "c" {
		t.Errorf("server 10 is %v, %v", s, ok)
	}
	if s, ok := list.Find(3); ok {
		t.Errorf("there is a server 3: %v", s)
	}
}

func TestListWith(t *testing.T) {
	var list List
	for _, id := range []uint32{10, 1, 2, 200} {
		longer, ok := list.With(Server{ID: id})
		if !ok {
			t.Fatalf("server %d is refused beside %v", id, list)
		}
		list = longer
	}
	if want := (List{{ID: 1}, {ID: 2}, {ID: 10}, {ID: 200}}); !slices.Equal(list, want) {
		t.Errorf("the servers are %v, want %v", list, want)
	}
	if again, ok := list.With(Server{ID: 10, Host: "other"}); ok || !slices.Equal(again, list) {
		t.Errorf("a second server 10 gives %v, %v", again, ok)
	}
	shorter := list[:2]
	if _, ok := shorter.With(Server{ID: 3}); !ok || list[2].ID != 10 {
		t.Errorf("another list was changed: %v", list)
	}
}

func TestParseListRefuses(t *testing.T) {
	all := make([]string, 0, MaxID+1)
	for range MaxID + 1 {
		all = append(all, "server.1=a:1:2")
	}
	for _, tt := range []struct{ name, text, err string }{
		{"nothing", "", "no server line; write one for each server"},
		{"only a version", "version=1", "no server line; write one for each server"},
		{"another key", "tickTime=1", `"tickTime=1": must be server.N=host:quorumPort:electionPort[:role][;[clientHost:]clientPort]`},
		{"id 0", "server.0=a:1:2", `"server.0=a:1:2": the number after server. must be 1 to 255`},
		{"id 256", "server.256=a:1:2", `"server.256=a:1:2": the number after server. must be 1 to 255`},
		{"no value", "server.1", "server.1: " + errSyntax.Error()},
		{"twice", "server.1=a:1:2,server.1=b:1:2", "server 1 is named twice; remove one of the two"},
		{"too many", strings.Join(all, "\n"), "more than 255 servers, each needs an id of its own"},
		{
			"one address", "server.1=a:1:2,server.2=A.:3:1",
			"server.2=A.:3:1:participant: server.1 has the address a:1 too; give each member ports of its own",
		},
		{
			"one address in two forms", "server.1=10.0.0.1:1:2,server.2=[::ffff:10.0.0.1]:2:3",
			"server.2=[::ffff:10.0.0.1]:2:3:participant: server.1 has the address 10.0.0.1:2 too; give each member ports of its own",
		},
		{
			"one address for clients", "server.1=a:1:2;c:5,server.2=b:1:2;c:5",
			"server.2=b:1:2:participant;c:5: server.1 has the address c:5 too; give each member ports of its own",
		},
		{
			"a wildcard", "server.1=0.0.0.0:1:2",
			"server.1=0.0.0.0:1:2:participant: no member can be reached at 0.0.0.0; write the address that the others use (quorumListenOnAllIPs=true listens on all)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if list, err := ParseList(tt.text); err == nil || err.Error() != tt.err {
				t.Errorf("ParseList: %v, %v, want the error %q", list, err, tt.err)
			}
		})
	}
}

func TestApplyChanges(t *testing.T) {
	one, two, ten := "server.1=a:1:2:participant;0.0.0.0:3", "server.2=b:1:2:participant;0.0.0.0:3", "server.10=c:1:2:observer;0.0.0.0:3"
	join := func(lines ...string) string { return strings.Join(lines, "\n") }
	for _, tt := range []struct {
		name   string
		change Change
		want   string
	}{
		{"nothing", Change{}, three},
		{"an unknown id leaves", Change{Leaving: "7, 4000000000"}, three},
		{"one joins", Change{Joining: "server.4=d:1:2;3"}, join(one, two, "server.4=d:1:2:participant;0.0.0.0:3", ten)},
		{"ids that no server can have leave", Change{Leaving: "-1,0,256,4000000000"}, three},
		{"two leave", Change{Leaving: "1,10"}, two},
		{"one becomes a participant", Change{Joining: "server.10=c:1:2:participant;3"}, join(one, two, "server.10=c:1:2:participant;0.0.0.0:3")},
		{"one takes the address of another that leaves", Change{Joining: "server.3=a:1:2;3", Leaving: "1"}, join(two, "server.3=a:1:2:participant;0.0.0.0:3", ten)},
		{"one leaves and joins", Change{Joining: "server.1=d:1:2;3", Leaving: "1"}, join("server.1=d:1:2:participant;0.0.0.0:3", two, ten)},
		{"a whole list wins", Change{Members: "server.9=e:1:2;3", Leaving: "x", Joining: "y"}, "server.9=e:1:2:participant;0.0.0.0:3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := parsed(t, three)
			got, err := before.Apply(tt.change)
			if err != nil || got.CanonicalText() != tt.want {
				t.Errorf("Apply: %v, %v, want %v", got, err, tt.want)
			}
			if before.CanonicalText() != three {
				t.Errorf("the list itself has become %v", before)
			}
		})
	}
}

func TestApplyRefusesChanges(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change Change
		err    string
	}{
		{"no port for clients", Change{Joining: "server.4=d:1:2"}, "server.4 has no port for clients; write its line with ;clientPort at the end"},
		{"no port for clients in a whole list", Change{Members: "server.4=d:1:2"}, "server.4 has no port for clients; write its line with ;clientPort at the end"},
		{"no server line joins", Change{Joining: " , "}, "no server line; write one for each server"},
		{"an id that is none", Change{Leaving: "1,x"}, `leaving server "x": must be comma-separated ids of servers`},
		{"a known address", Change{Joining: "server.4=a:9:2;3"}, "server.4=a:9:2:participant;0.0.0.0:3: server.1 has the address a:2 too; give each member ports of its own"},
		{"nobody is left", Change{Leaving: "1,2,10"}, "no server line; write one for each server"},
		{"no participant is left", Change{Leaving: "1,2"}, "no participant would be left; an ensemble needs one to vote"},
		{"a line that is none", Change{Joining: "4=d:1:2;3"}, `"4=d:1:2;3": must be server.N=host:quorumPort:electionPort[:role][;[clientHost:]clientPort]`},
		{"one joins twice", Change{Joining: "server.4=d:1:2;3,server.4=e:1:2;3"}, "server 4 is named twice; remove one of the two"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if list, err := parsed(t, three).Apply(tt.change); err == nil || err.Error() != tt.err {
				t.Errorf("Apply: %v, %v, want the error %q", list, err, tt.err)
			}
		})
	}
}

// Servers may take the address of one that leaves, or of one that moves to a free address, but not each other's.
func TestMoves(t *testing.T) {
	const before = "server.1=a:1:2,server.2=b:1:2,server.3=c:1:2"
	for _, tt := range []struct {
		name, next, err string
	}{
		{"nothing", before, ""},
		{"one to a free address", "server.1=a:1:2,server.2=b:1:2,server.3=d:1:2", ""},
		{"one to the address of one that leaves", "server.1=a:1:2,server.2=c:1:2", ""},
		{"one to the address of one that moves", "server.1=a:1:2,server.2=c:1:2,server.3=d:1:2", ""},
		{"a new one to the address of one that moves", "server.1=a:1:2,server.2=b:1:2,server.3=d:1:2,server.4=c:1:2", ""},
		{"two swap the other ports", "server.1=a:1:2,server.2=b:3:2,server.3=c:3:2", ""},
		{
			"two swap", "server.1=a:1:2,server.2=C.:1:2,server.3=b:1:2",
			"server.2 would get the address C.:2 of server.3, which in turn waits for the address of server.2; give server.2 an address that is free first, and its new one afterwards",
		},
		{"three in a ring, and a fourth", "server.1=b:1:2,server.2=c:1:2,server.3=a:1:2,server.4=d:1:2", "server.1 would get the address b:2 of server.2, which"},
	} {
		if err := parsed(t, before).CheckAddressCycles(parsed(t, tt.next)); tt.err == "" && err != nil ||
			tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
	}
}

// Every list that a change makes is in its canonical form, whatever a client writes.
func FuzzChange(f *testing.F) {
	f.Add("server.4=d:1:2;3", "1,10", "")
	f.Add("server.10=[::1]:1:2:participant;[::1]:3", "-7", "")
	f.Add("", "", three+"\nversion=5")
	before, err := ParseList(three)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, joining, leaving, members string) {
		next, err := before.Apply(Change{joining, leaving, members})
		if err != nil {
			return
		}
		if again, err := ParseList(next.CanonicalText()); err != nil || !slices.Equal(again, next) || len(next.Voters()) == 0 {
			t.Errorf("%v is read as %v, %v", next, again, err)
		}
		if before.CanonicalText() != three {
			t.Errorf("the list itself has become %v", before)
		}
	})
}
