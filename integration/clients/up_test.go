package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
)

// upReady is the limit from the start of `rollcall up` until it prints that it is ready. A machine that is busy for a
// moment can make one start later, so up to upStarts more are timed, in new directories.
const (
	upReady  = 5 * time.Second
	upStarts = 2
)

// rollcall up makes an ensemble that reports what happens to it. It exits with status 0 after
// Ctrl-C, and finds its data and an open session again when it runs next.
func TestUp(t *testing.T) {
	needs.Check(t, needs.Nightly)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	dir, port := t.TempDir(), freeBase(t)
	up, hosts := startUp(ctx, t, dir, fmt.Sprintf("--port=%d", port))
	stays, err := dialGo(ctx, seat{name: "stays", hosts: hosts, moves: true}, longTimeout)
	if err != nil {
		t.Fatal(up.failed(err))
	}
	defer stays.Close()
	if _, err := stays.Create("/stays", nil, zk.FlagEphemeral, world); err != nil {
		t.Fatal(up.failed(err))
	}
	goes, err := dialGo(ctx, seat{name: "goes", hosts: hosts, moves: true}, sessionTimeout)
	if err != nil {
		t.Fatal(up.failed(err))
	}
	defer goes.Close()
	if _, err := goes.Create("/data", []byte("kept"), 0, world); err != nil {
		t.Fatal(up.failed(err))
	}
	if _, err := goes.Create("/data/gone", nil, zk.FlagEphemeral, world); err != nil {
		t.Fatal(up.failed(err))
	}
	goes.Close()
	for _, line := range []string{
		"leader elected: member ",
		fmt.Sprintf("session opened: %#x from 127.0.0.1:", uint64(stays.sid)),
		fmt.Sprintf("session opened: %#x from 127.0.0.1:", uint64(goes.sid)),
		fmt.Sprintf("session closed: %#x, 1 ephemeral with it", uint64(goes.sid)),
	} {
		if _, err := up.expect(ctx, line); err != nil {
			t.Fatal(err)
		}
	}
	states, _ := stays.seen()
	interrupt(ctx, t, up)

	up, _ = startUp(ctx, t, dir, fmt.Sprintf("--ports=%d,%d,%d", port, port+1, port+2))
	if err := stays.hasSession(ctx, len(states)); err != nil {
		t.Fatal(up.failed(err))
	}
	data, _, err := stays.Get("/data")
	if err != nil || string(data) != "kept" {
		t.Errorf("after the second start /data is %q, %v", data, err)
	}
	if exists, _, err := stays.Exists("/data/gone"); err != nil || exists {
		t.Errorf("after the second start an ephemeral of a closed session exists: %t, %v", exists, err)
	}
	if err := stays.holdsEphemeral("/stays"); err != nil {
		t.Error(err)
	}
	if err := stays.undisturbed(); err != nil {
		t.Error(err)
	}
	interrupt(ctx, t, up)
	if t.Failed() {
		t.Log(up.out.text())
	}
}

// startUp runs rollcall up until it is ready and returns the addresses for clients.
func startUp(ctx context.Context, t *testing.T, dir, ports string) (up *dialogue, hosts []string) {
	t.Helper()
	began := time.Now()
	up, err := talk("rollcall up", exec.Command(rollcall, "up", "--data", dir, ports))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.stop)
	line, err := up.expect(ctx, "ready: connect to ")
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	for more := 0; took > upReady && more < upStarts; more++ {
		took = min(took, timeUp(ctx, t))
	}
	if took > upReady {
		t.Errorf("ready after %v, want at most %v", took, upReady)
	}
	if _, err := up.expect(ctx, "console: http://127.0.0.1:"); err != nil {
		t.Fatal(err)
	}
	if _, err := up.expect(ctx, "to change something: export ROLLCALL_ADMIN=http://127.0.0.1:"); err != nil {
		t.Fatal(err)
	}
	_, connect, _ := strings.Cut(line, "ready: connect to ")
	connect, _, _ = strings.Cut(connect, " ")
	return up, strings.Split(connect, ",")
}

// timeUp returns the time until a new ensemble is ready.
func timeUp(ctx context.Context, t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	up, err := talk("rollcall up, once more", exec.Command(rollcall, "up", "--data", t.TempDir(), fmt.Sprintf("--port=%d", freeBase(t))))
	if err != nil {
		t.Fatal(err)
	}
	defer up.stop()
	if _, err := up.expect(ctx, "ready: connect to "); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

func interrupt(ctx context.Context, t *testing.T, up *dialogue) {
	t.Helper()
	if err := up.SendSignal(os.Interrupt); err != nil {
		t.Fatal(up.failed(err))
	}
	if err := up.wantStatus(ctx, 0); err != nil {
		t.Fatal(err)
	}
}

// freeBase returns a free port of 127.0.0.1. The ports that rollcall up derives from it are free
// too. All of them are below the ports that the kernel gives to outgoing connections.
func freeBase(t *testing.T) int {
	t.Helper()
	for range 100 {
		base := 10_000 + rand.IntN(18_000)
		if allFree(base, base+1, base+2, base+1000, base+1001, base+1002, base+2000, base+2001, base+2002, base+3000, base+3001, base+3002) {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

func allFree(ports ...int) bool {
	for _, port := range ports {
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
