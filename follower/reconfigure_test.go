package follower

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
)

// A change of the list is asked for again after an error, until it is answered or cannot succeed. It is in doubt
// after an error that does not say that nothing was done.
func TestReconfigureIsAskedForAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		codes []codes.Code // the answers, in turn
		want  codes.Code
		doubt bool
	}{
		{"answered", []codes.Code{codes.OK}, codes.OK, false},
		{"after a change of leader", []codes.Code{codes.FailedPrecondition, codes.OK}, codes.OK, false},
		{"after a queue was full", []codes.Code{codes.ResourceExhausted, codes.OK}, codes.OK, false},
		{"after a lost answer", []codes.Code{codes.Unavailable, codes.FailedPrecondition, codes.OK}, codes.OK, true},
		{"wrong", []codes.Code{codes.Aborted, codes.InvalidArgument}, codes.InvalidArgument, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				l := r.announced()
				tries := 0
				l.reconfigure = func(_ context.Context, req *proto.ReconfigureRequest) (*proto.ReconfigureReply, error) {
					if want := (&proto.ReconfigureRequest{Nonce: l.nonce, Leaving: "3", Version: 5, By: "alice"}); !pb.Equal(req, want) {
						t.Errorf("%v, want %v", req, want)
					}
					tries++
					if code := tt.codes[tries-1]; code != codes.OK {
						return nil, status.Error(code, "no")
					}
					return &proto.ReconfigureReply{Version: 6}, nil
				}
				reply, doubtful, err := r.f.Reconfigure(t.Context(), &proto.ReconfigureRequest{Leaving: "3", Version: 5, By: "alice"})
				if status.Code(err) != tt.want || doubtful != tt.doubt || tries != len(tt.codes) || err == nil && reply.Version != 6 {
					t.Errorf("%v, doubtful %t, %v after %d tries", reply, doubtful, err, tries)
				}
			})
		})
	}
}
