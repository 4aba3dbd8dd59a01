package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/operator/admin"
)

// systemdSocket is a socket as systemd gives one to a service. It may be abstract.
func systemdSocket(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// receiveNotification returns the next datagram.
func receiveNotification(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// A member reports to systemd that it has started, its role, that it works, and that it stops. Without
// clientPort it opens no port for clients.
func TestServeNotifies(t *testing.T) {
	dir, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nadmin.enableServer=false\ntickTime=500\n"})
	name := filepath.Join(t.TempDir(), "notify")
	conn := systemdSocket(t, name)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var log bytes.Buffer // read when the member has ended
	go func() {
		done <- runCommand(ctx, []string{"serve", filepath.Join(dir, "zoo.cfg")}, []string{"NOTIFY_SOCKET=" + name, "WATCHDOG_USEC=2000000"}, io.Discard, &log)
	}()
	if got := receiveNotification(t, conn); got != "STATUS=opening the data directory" {
		t.Errorf("at first %q", got)
	}
	if got := receiveNotification(t, conn); got != "READY=1" {
		t.Errorf("then %q", got)
	}
	for want := []string{"STATUS=standalone", "WATCHDOG=1"}; len(want) > 0; {
		got := receiveNotification(t, conn)
		want = slices.DeleteFunc(want, func(s string) bool { return s == got })
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for !strings.HasPrefix(receiveNotification(t, conn), "STOPPING=1\nSTATUS=") {
	}
	if text := log.String(); !strings.Contains(text, `clients="" tls=""`) || !strings.Contains(text, "no clientPort: no client can connect here") {
		t.Errorf("a member without a port for clients logs\n%s", text)
	}
}

// A member without a quorum has started. The watchdog does not hear from one whose disk hangs.
func TestNotifierLooks(t *testing.T) {
	conn := systemdSocket(t, fmt.Sprintf("@rollcall-test-%d", os.Getpid()))
	n := newSystemdNotifier(cli.IOStreams{Env: []string{"NOTIFY_SOCKET=" + conn.LocalAddr().String(), "WATCHDOG_USEC=8000000"}})
	begun := time.Unix(1000, 0)
	for i, step := range []struct {
		after  time.Duration
		health admin.Health
		want   []string
	}{
		{0, admin.Health{}, []string{"STATUS=no leader is known: a majority of the members must be up, reach each other and accept each other's secret or certificate", "WATCHDOG=1"}},
		{time.Second, admin.Health{}, nil},
		{2 * time.Second, admin.Health{Role: "leader", HasLeader: true}, []string{"STATUS=leader", "WATCHDOG=1"}},
		{3 * time.Second, admin.Health{Stalled: "the disk\nhangs"}, []string{"STATUS=the disk hangs"}},
		{9 * time.Second, admin.Health{Stalled: "the disk\nhangs"}, nil},
		{10 * time.Second, admin.Health{Damage: "entry 7"}, []string{"STATUS=the state of this member is damaged: entry 7", "WATCHDOG=1"}},
	} {
		n.sendStatusAndWatchdog(step.health, begun.Add(step.after))
		n.send("END")
		var got []string
		for {
			text := receiveNotification(t, conn)
			if text == "END" {
				break
			}
			got = append(got, text)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// Without systemd nothing is sent, whatever the variable is.
func TestNotifierWithoutSystemd(t *testing.T) {
	for _, env := range []string{"", "NOTIFY_SOCKET=/nonexistent/socket"} {
		n := newSystemdNotifier(cli.IOStreams{Env: []string{env}})
		n.send("READY=1")
		n.reportUntilEnd(t.Context(), func() admin.Health { panic("nobody asks") })
	}
}
