package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A dial fails for good if no process listens or the name is unknown. A timeout and a name service that fails may pass.
func TestDescribeDialError(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "zk9:2181: connection refused: no process listens there"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "zk9", IsNotFound: true}}, "zk9:2181: no machine has the name zk9"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", Name: "zk9", IsTemporary: true}}, ""},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, ""},
		{context.DeadlineExceeded, ""},
	} {
		if got := describeDialError("zk9:2181", tt.err); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// serveSrvr replies to srvr with a text, closes connections of anything else, and returns the address.
func serveSrvr(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return serveConns(t, l, err, func(c net.Conn) {
		b := make([]byte, 4)
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		switch string(b) {
		case "srvr":
			_, _ = io.WriteString(c, text)
		case "ruok":
			_, _ = io.WriteString(c, "ruok is not executed because it is not in the whitelist.\n")
		}
	})
}

// A command for nodes fails without a wait if each address is refused or that of a removed member. It waits if one of them is a member
// that may serve soon.
func TestUnreachableMembersFailAtOnce(t *testing.T) {
	const sentence = "This ZooKeeper instance is not currently serving requests\n"
	removed := serveSrvr(t, sentence+"Reason: this member was removed from the ensemble (the list of version 0x7): stop it, or add it again\n")
	waits := serveSrvr(t, sentence)
	for _, tt := range []struct {
		hosts string
		limit time.Duration // the longest wait for a session; the command fails before it unless it is short
		want  []string
	}{
		{"127.0.0.1:1", time.Hour, []string{"127.0.0.1:1: connection refused: no process listens there"}},
		{removed, time.Hour, []string{removed + ": the member there was removed from the ensemble (the list of version 0x7)"}},
		{"127.0.0.1:1," + removed, time.Hour, []string{"connection refused", "was removed from the ensemble"}},
		{waits + ",127.0.0.1:1," + removed, time.Second, []string{"within 1s"}},
	} {
		w, _, _ := testWorld()
		w.sessionOpenTimeout, w.portReplyTimeout = tt.limit, 4*time.Second // the machine may be busy
		err := runLine(t, w, "ls --hosts "+tt.hosts+" /")
		if StatusOf(err) != Unavailable {
			t.Errorf("%s: status %d, %v", tt.hosts, StatusOf(err), err)
		}
		for _, want := range tt.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v, want %q", tt.hosts, err, want)
			}
		}
	}
}
