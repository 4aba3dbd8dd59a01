package main

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"rollcall/cli"
	"rollcall/operator/admin"
)

// notifyInterval is how often systemd hears from a member whose state has changed.
const notifyInterval = time.Second

// notifier tells systemd how a member fares, as sd_notify(3) says. It tells nobody if the environment does
// not name systemd's socket.
type notifier struct {
	socket           net.Conn
	watchdogInterval time.Duration // systemd restarts the member if it hears nothing for so long; 0: it does not
	lastStatus       string        // the last one
	lastWatchdog     time.Time     // when the watchdog was last told that the member works
}

// newNotifier connects to systemd's socket.
func newNotifier(w cli.IOStreams) *notifier {
	n := &notifier{}
	name := w.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return n
	}
	if socket, err := net.Dial("unixgram", name); err == nil { // without it systemd ends a start after TimeoutStartSec
		n.socket = socket
	}
	if us, err := strconv.ParseInt(w.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
		n.watchdogInterval = time.Duration(us) * time.Microsecond
	}
	return n
}

// send sends assignments such as READY=1. A socket that does not take them is systemd's concern.
func (n *notifier) send(assignments ...string) {
	if n.socket != nil {
		_, _ = n.socket.Write([]byte(strings.Join(assignments, "\n")))
	}
}

// run tells systemd that the member has started, then how it fares, and at the end of ctx that it stops. A
// member without a quorum has started, too: it waits for the others, however long that takes. As long as
// its disk and its state machine respond, it works for the watchdog.
func (n *notifier) run(ctx context.Context, health func() admin.Health) {
	if n.socket == nil {
		return
	}
	defer func() { _ = n.socket.Close() }()
	ticker := time.NewTicker(notifyInterval)
	defer ticker.Stop()
	n.send("READY=1")
	for {
		n.notifyChanges(health(), time.Now())
		select {
		case <-ctx.Done():
			n.send("STOPPING=1", "STATUS=moving leadership and clients to other members")
			return
		case <-ticker.C:
		}
	}
}

// notifyChanges tells systemd what is new.
func (n *notifier) notifyChanges(health admin.Health, now time.Time) {
	if text, _ := health.StatusText(); text != n.lastStatus {
		n.lastStatus = text
		n.send("STATUS=" + strings.ReplaceAll(text, "\n", " "))
	}
	if n.watchdogInterval > 0 && health.Stalled == "" && now.Sub(n.lastWatchdog) >= n.watchdogInterval/4 {
		n.lastWatchdog = now
		n.send("WATCHDOG=1")
	}
}
