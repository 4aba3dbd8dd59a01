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
	l := newRaftLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
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
