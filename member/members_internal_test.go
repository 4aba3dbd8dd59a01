package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"rollcall/internal/serverlist"
	"rollcall/operator/admin"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Each outcome of a change of the list has a status, and says what to do.
func TestChangeFailures(t *testing.T) {
	m := operations{m: &Member{serverLists: &serverLists{}}}
	m.m.serverLists.appliedList.Store(&znode.ServerList{Version: 7})
	for _, tt := range []struct {
		name   string
		err    error
		status int // 0: it was done
		want   string
	}{
		{"done", m.serversChangeFailure(znode.Result{}), 0, ""},
		{"no leader", submitFailure(fmt.Errorf("%w: %w", ErrNoLeader, context.DeadlineExceeded), "ask"), http.StatusServiceUnavailable, "nothing was done"},
		{"not confirmed", submitFailure(ErrNotConfirmed, "query the list"), http.StatusGatewayTimeout, "and may still be made; query the list"},
		{"wrong list", m.serversChangeFailure(znode.Result{Code: jute.BadArguments, RejectReason: "no participant"}), http.StatusBadRequest, "no participant"},
		{"other version", m.serversChangeFailure(znode.Result{Code: jute.BadVersion}), http.StatusConflict, "its version is 0x7 now"},
		{"no majority", m.serversChangeFailure(znode.Result{Code: jute.NewConfigNoQuorum, RejectReason: "servers 4, 5 cannot be reached"}), http.StatusConflict, "cannot be reached"},
	} {
		f, failed := errors.AsType[*admin.Failure](tt.err)
		switch {
		case !failed && tt.status != 0, failed && (f.Status != tt.status || !strings.Contains(f.Text, tt.want)):
			t.Errorf("%s: %v, want %d and %q", tt.name, tt.err, tt.status, tt.want)
		}
	}
}

// A change that no leader could carry out is rejected before it is submitted.
func TestWrongChanges(t *testing.T) {
	for want, c := range map[string]admin.MembersChange{
		"the operator's name has 256 bytes, more than 255": {RequestedBy: strings.Repeat("x", znode.MaxRequesterBytes+1)},
		"bytes, more than 262144":                          {Change: serverlist.Change{Members: strings.Repeat("x", maxServersChangeBytes)}},
		"cannot be encoded":                                {Change: serverlist.Change{Members: "\xff"}},
	} {
		if _, err := serversChangeBody(c, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
