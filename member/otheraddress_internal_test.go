package member

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/internal/serverlist"
	"rollcall/quorum/wire"
	"rollcall/znode"
)

// listsWith returns the lists of member 1, whose state has a list and whose configuration has another one.
func listsWith(t *testing.T, listed, configured string) *serverLists {
	t.Helper()
	list, err := serverlist.ParseList(listed)
	if err != nil {
		t.Fatal(err)
	}
	l := &serverLists{memberID: 1, addressBook: wire.NewAddressBook(1, nil), configuredText: []byte(configured)}
	l.appliedList.Store(&znode.ServerList{Version: 1, Servers: list})
	return l
}

// Only a line of the member that sends it counts, until the list has it, the member takes it back or it is silent.
func TestReportedAddresses(t *testing.T) {
	const listed, own = "server.2=a:2888:3888:observer;a:2181", "server.2=b:2888:3888:participant"
	for _, tt := range []struct {
		name, line, list string
		last             string
		wait             time.Duration
		advised          bool
	}{
		{"its own line", own, listed, own, 0, true},
		{"a line of another member", "server.3=b:2888:3888", listed, "server.3=b:2888:3888", 0, false},
		{"two lines", own + "\nserver.3=c:2888:3888", listed, own + "\nserver.3=c:2888:3888", 0, false},
		{"a long line", own + strings.Repeat("\n", maxReportedLine), listed, own + strings.Repeat("\n", maxReportedLine), 0, false},
		{"no line", "b:2888", listed, "b:2888", 0, false},
		{"it has a leader again", own, listed, "", 0, false},
		{"it is silent", own, listed, own, reportLifetime + time.Second, false},
		{"the list has its address", own, "server.2=b:2888:3888;b:2181", own, 0, false},
		{"the list has another port", own, "server.2=b:2888:3889;b:2181", own, 0, true},
		{"the list does not have it", own, "server.3=b:2888:3888;b:2181", own, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &reportedAddresses{
					serverLists: listsWith(t, tt.list, ""), lines: admission.NewLogLimiter(), log: slog.New(slog.DiscardHandler),
					reported: map[uint32]reportedAddress{},
				}
				r.record(2, tt.line)
				r.record(2, tt.last)
				time.Sleep(tt.wait)
				if got := r.adviceFor(2); (got != "") != tt.advised {
					t.Errorf("the advice is %q", got)
				}
			})
		})
	}
}

// The command keeps the role and, if the member's own line has none, the part for clients.
func TestOtherAddressCommand(t *testing.T) {
	for _, tt := range []struct{ listed, own, want string }{
		{"server.1=a:1:2:observer;a:3", "server.1=b:1:2", "rollcall members address 1 'server.1=b:1:2:observer;a:3'"},
		{"server.1=a:1:2;a:3", "server.1=b:1:2;b:4", "rollcall members address 1 'server.1=b:1:2:participant;b:4'"},
		{"server.1=a:1:2;a:3", "server.1=0.0.0.0:1:2;b:4", ""}, // every address of the machine
		{"server.1=a:1:2;a:3", "server.1=a:1:2;b:4", ""},
	} {
		got := ""
		if conflict := listsWith(t, tt.listed, tt.own).ownConflict(); conflict != nil {
			got = conflict.command()
		}
		if got != tt.want {
			t.Errorf("%s in the list, %s configured: %q; want %q", tt.listed, tt.own, got, tt.want)
		}
	}
}
