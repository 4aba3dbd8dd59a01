package quorum

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestRaftLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), nil)
	tests := []struct {
		log  func()
		want string
	}{
		{func() { l.Error("failed to commit logs", "error", "x") }, `level=WARN msg="raft: failed to commit logs" error=x`},
		{func() { l.Warn("clearing log suffix", "from", 3) }, `level=WARN msg="raft: clearing log suffix" from=3`},
		{func() { l.Error("failed to heartbeat to", "peer", 2) }, `level=DEBUG msg="raft: failed to heartbeat to" peer=2`},
		{func() { l.Info("election won", "term", 2) }, `level=DEBUG msg="raft: election won" term=2`},
		{func() { l.Info("installed remote snapshot") }, `level=INFO msg="raft: installed remote snapshot"`},
		{func() { l.Warn(electionStartMessage, "last-leader-addr", "", "last-leader-id", "") }, `level=INFO msg="raft: ` + electionStartMessage},
		{func() { l.Warn(electionStartMessage, "last-leader-addr", "m2:3888", "last-leader-id", "2") }, `level=WARN msg="raft: ` + electionStartMessage},
		{func() { l.Trace("t") }, `level=DEBUG msg="raft: t"`},
		{func() { l.With("id", 7).Named("n").Info("m") }, `level=INFO msg="raft: m" id=7`},
		{func() { l.Info("f", "received", hclog.Fmt("%d / %d", 1, 2)) }, `level=INFO msg="raft: f" received="1 / 2"`},
	}
	for _, tt := range tests {
		out.Reset()
		tt.log()
		if !strings.Contains(out.String(), tt.want) {
			t.Errorf("logged %q, want %q", out.String(), tt.want)
		}
	}
}

// The message about a voter that was not heard waits until a pause of this process is over, and no other message does.
func TestLostContactAwaitsReplies(t *testing.T) {
	t.Parallel()
	waits := 0
	l := newRaftLogger(slog.New(slog.DiscardHandler), func() bool { waits++; return true })
	l.Warn("failed to contact quorum of nodes, stepping down")
	l.Info("election won")
	if waits != 0 {
		t.Fatalf("%d messages waited that are about no voter", waits)
	}
	l.Warn("failed to contact", "server-id", "2") // raft's level depends on how long ago it was
	l.With("id", 1).Debug("failed to contact", "server-id", "3")
	if waits != 2 {
		t.Errorf("%d messages waited, want 2", waits)
	}
}
