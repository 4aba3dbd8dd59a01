package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// What an operator must know of another member is logged once, and again after a reply without a complaint. Other errors are not.
func TestComplaintsAreLoggedOnce(t *testing.T) {
	var log logBuffer
	h := newHellos(&Config{}, nil, slog.New(slog.NewTextHandler(&log, nil)))
	failed := func(err error) helloRound { return helloRound{failures: map[uint32]error{2: err}} }
	replied := func(rival string) helloRound {
		return helloRound{replies: map[uint32]*proto.HelloReply{2: {Rival: rival}}}
	}
	const other, twins, rival = "a member is of another ensemble", `msg="a disk has two processes"`, "another process runs with this member's number"
	for i, step := range []struct {
		round helloRound
		text  string
		lines int // with the text
	}{
		{failed(errors.New("down")), "level=ERROR", 0},
		{failed(fmt.Errorf("as a hello has it: %w", wire.ErrOtherEnsemble)), other, 1},
		{failed(wire.ErrOtherEnsemble), other, 1},
		{failed(fmt.Errorf("at one port: %w", wire.ErrTwins)), twins, 1},
		{failed(wire.ErrTwins), twins, 1},
		{replied(""), "level=ERROR", 2},
		{failed(wire.ErrTwins), twins, 2},
		{replied("two"), rival, 1},
		{replied("two"), rival, 1},
		{replied("three"), rival, 2},
		{replied(""), "level=ERROR", 5},
		{replied("three"), rival, 3},
	} {
		h.logComplaints(step.round)
		if got := strings.Count(log.String(), step.text); got != step.lines {
			t.Errorf("after step %d: %d lines with %q, want %d", i, got, step.text, step.lines)
		}
	}
}
