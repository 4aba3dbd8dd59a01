package quorum

import (
	"errors"
	"testing"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// A member that joins restarts if the ensemble was founded again, or if all others have replied that they have no data. It waits
// while one of them is silent, because that one may have the data.
func TestRestartsIfNobodyHasData(t *testing.T) {
	empty, full := &proto.HelloReply{}, &proto.HelloReply{HasData: true}
	silent := errors.New("no reply")
	for _, tt := range []struct {
		name     string
		replies  map[uint32]*proto.HelloReply
		failures map[uint32]error
		restarts bool
	}{
		{"all have none", map[uint32]*proto.HelloReply{1: empty, 2: empty}, nil, true},
		{"one is silent", map[uint32]*proto.HelloReply{1: empty}, map[uint32]error{2: silent}, false},
		{"one has data", map[uint32]*proto.HelloReply{1: empty, 2: full}, nil, false},
		{"one is of another ensemble", map[uint32]*proto.HelloReply{1: empty}, map[uint32]error{2: wire.ErrOtherEnsemble}, true},
		{"one is of another ensemble, and one has data", map[uint32]*proto.HelloReply{1: full}, map[uint32]error{2: wire.ErrOtherEnsemble}, false},
		{"nobody is there", nil, nil, false},
	} {
		err := (&bootstrap{}).restartIfNobodyHasData(helloRound{replies: tt.replies, failures: tt.failures})
		if errors.Is(err, wire.ErrRestart) != tt.restarts || (err != nil) != tt.restarts {
			t.Errorf("%s: %v, want a restart: %t", tt.name, err, tt.restarts)
		}
	}
}
