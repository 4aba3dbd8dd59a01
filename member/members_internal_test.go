package member

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/operator/admin"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// Each outcome of a change of the list has a status, and says what to do.
func TestChangeFailures(t *testing.T) {
	for _, tt := range []struct {
		name     string
		code     jute.Code
		text     string
		doubtful bool
		err      error
		status   int // 0: it was done
		want     string
	}{
		{name: "done"},
		{name: "done, perhaps by an earlier try", doubtful: true},
		{name: "wrong", err: status.Error(codes.InvalidArgument, "by is too long"), status: http.StatusBadRequest, want: "by is too long"},
		{name: "no leader", err: status.Error(codes.FailedPrecondition, "x"), status: http.StatusServiceUnavailable, want: "nothing was done"},
		{name: "lost", err: status.Error(codes.Unavailable, "x"), doubtful: true, status: http.StatusGatewayTimeout, want: "made or not"},
		{name: "wrong list", code: jute.BadArguments, text: "no participant", status: http.StatusBadRequest, want: "no participant"},
		{name: "other version", code: jute.BadVersion, status: http.StatusConflict, want: "its version is 0x7 now"},
		{name: "other version after a lost answer", code: jute.BadVersion, doubtful: true, status: http.StatusGatewayTimeout, want: "made or not"},
		{name: "no majority", code: jute.NewConfigNoQuorum, text: "servers 4, 5 cannot be reached", status: http.StatusConflict, want: "cannot be reached"},
	} {
		err := changeFailure(&proto.ReconfigureReply{Code: int32(tt.code), Text: tt.text, Version: 7}, tt.doubtful, tt.err)
		f, failed := errors.AsType[*admin.Failure](err)
		switch {
		case !failed && tt.status != 0, failed && (f.Status != tt.status || !strings.Contains(f.Text, tt.want)):
			t.Errorf("%s: %v, want %d and %q", tt.name, err, tt.status, tt.want)
		}
	}
}
