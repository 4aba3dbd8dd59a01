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

// notifyInterval is the longest delay of a change on its way to systemd.
const notifyInterval = time.Second

// systemdNotifier reports a member's state to systemd, as in sd_notify(3). It does nothing if the environment names
// no socket.
type systemdNotifier struct {
	socket           net.Conn
	watchdogInterval time.Duration // systemd restarts a member that is silent for so long; 0: never
	lastStatus       string
	lastWatchdog     time.Time
}

// newSystemdNotifier connects to systemd's socket.
func newSystemdNotifier(w cli.IOStreams) *systemdNotifier {
	n := &systemdNotifier{}
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

// send sends assignments such as READY=1. Errors are ignored.
func (n *systemdNotifier) send(assignments ...string) {
	if n.socket != nil {
		_, _ = n.socket.Write([]byte(strings.Join(assignments, "\n")))
	}
}

// reportUntilEnd reports that the member has started, then its state, and at the end of ctx that it stops. A member
// without a quorum counts as started: it waits for the others, however long that takes. The watchdog is
// satisfied as long as the disk and the state machine respond.
func (n *systemdNotifier) reportUntilEnd(ctx context.Context, health func() admin.Health) {
	if n.socket == nil {
		return
	}
	defer func() { _ = n.socket.Close() }()
	ticker := time.NewTicker(notifyInterval)
	defer ticker.Stop()
	n.send("READY=1")
	for {
		n.sendStatusAndWatchdog(health(), time.Now())
		select {
		case <-ctx.Done():
			n.send("STOPPING=1", "STATUS=moving leadership and clients to other members")
			return
		case <-ticker.C:
		}
	}
}

func (n *systemdNotifier) sendStatusAndWatchdog(health admin.Health, now time.Time) {
	if text, _ := health.StatusText(); text != n.lastStatus {
		n.lastStatus = text
		n.send("STATUS=" + strings.ReplaceAll(text, "\n", " "))
	}
	if n.watchdogInterval > 0 && health.Stalled == "" && now.Sub(n.lastWatchdog) >= n.watchdogInterval/4 {
		n.lastWatchdog = now
		n.send("WATCHDOG=1")
	}
}
