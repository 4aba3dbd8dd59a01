package member

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/internal/serverlist"
	"rollcall/operator/logs/logtest"
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
		{"a line of another listed member", "server.3=b:2888:3888", listed + "\nserver.3=c:2888:3888;c:2181", "server.3=b:2888:3888", 0, false},
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
				r := testReports(listsWith(t, tt.list, ""), slog.DiscardHandler)
				r.record(2, 7, tt.line)
				r.record(2, 7, tt.last)
				time.Sleep(tt.wait)
				if got := r.adviceFor(2); (got != "") != tt.advised {
					t.Errorf("the advice is %q", got)
				}
			})
		})
	}
}

func testReports(lists *serverLists, to slog.Handler) *reportedAddresses {
	return &reportedAddresses{
		serverLists: lists, lines: admission.NewLogLimiterOf(reportLogInterval), log: slog.New(to), rivals: func(uint32) string { return "" },
		reported: map[uint32]reportedAddress{}, inOrder: map[uint32]helloOf{}, logged: map[uint32]serverlist.Server{},
	}
}

// While another process of the member is in order, nobody is advised to give the list another address, and the log says nothing. Lines
// that change come to the log once a minute.
func TestReportsOfTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Buffer
		r := testReports(listsWith(t, "server.2=a:2888:3888;a:2181", ""), slog.NewTextHandler(&lines, nil))
		for range 20 {
			r.record(2, 7, "")
			r.record(2, 8, "server.2=b:2888:3888")
			if got := r.adviceFor(2); got != "" {
				t.Fatalf("the advice is %q", got)
			}
			time.Sleep(time.Second)
		}
		if lines.String() != "" {
			t.Errorf("logged %s", lines.String())
		}
		time.Sleep(reportLifetime) // the process that was in order has ended
		for i := range 120 {
			r.record(2, 8, fmt.Sprintf("server.2=b%d:2888:3888", i%2))
			time.Sleep(time.Second)
		}
		if n := strings.Count(lines.String(), "\n"); n < 2 || n > 3 || r.adviceFor(2) == "" {
			t.Errorf("%d lines, and the advice %q:\n%s", n, r.adviceFor(2), lines.String())
		}
	})
}

// The command keeps the role and, if the member's own line has none, the part for clients.
func TestOtherAddressCommand(t *testing.T) {
	for _, tt := range []struct{ listed, own, want string }{
		{"server.1=a:1:2:observer;a:3", "server.1=b:1:2", "rollcall members address 1 'server.1=b:1:2:observer;a:3'"},
		{"server.1=a:1:2;a:3", "server.1=b:1:2;b:4", "rollcall members address 1 'server.1=b:1:2:participant;b:4'"},
		{"server.1=a:1:2", "server.1=b:1:2", "rollcall members address 1 'server.1=b:1:2:participant;PORT', where PORT is its port for clients"},
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
	alone := listsWith(t, "server.1=a:1:2", "server.1=b:1:2") // clientPort is a key of its own
	alone.clientPort = 22181
	if conflict := alone.ownConflict(); conflict == nil || conflict.command() != "rollcall members address 1 'server.1=b:1:2:participant;0.0.0.0:22181'" {
		t.Errorf("with a port for clients: %v", conflict)
	}
}
