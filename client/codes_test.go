package client

import (
	"errors"
	"fmt"
	"testing"

	"rollcall/zk/jute"
)

// The errors of servers have the codes of ZooKeeper's protocol.
func TestCodesOfErrors(t *testing.T) {
	for code, err := range map[jute.Code]error{
		-2: ErrNotRun, -6: ErrUnimplemented, -7: ErrTimedOut, -8: ErrBadArguments, -13: ErrNoQuorum, -14: ErrReconfigInProgress,
		-101: ErrNoNode, -102: ErrNoAuth, -103: ErrBadVersion, -108: ErrNoChildrenForEphemerals, -110: ErrNodeExists,
		-111: ErrNotEmpty, -114: ErrInvalidACL, -115: ErrAuthFailed, -118: ErrSessionMoved, -119: ErrReadOnly,
		-121: ErrNoWatch, -123: ErrReconfigDisabled, -124: ErrLoginRequired, -125: ErrQuotaExceeded, -127: ErrThrottled,
		jute.NoRoom: ErrNoRoom,
	} {
		if !errors.Is(err, code.Err()) {
			t.Errorf("code %d is %v, want %v", code, code.Err(), err)
		}
	}
}

// The types of events and the permissions have names.
func TestNames(t *testing.T) {
	for value, want := range map[fmt.Stringer]string{
		NodeCreated: "created", NodeDeleted: "deleted", DataChanged: "data changed", ChildrenChanged: "children changed",
		SessionEnded: "session ended", Gap: "gap", EventType(0): "",
		PermAll: "cdrwa", PermRead | PermAdmin: "ra", SessionID(0x1000012f99a0001): "0x1000012f99a0001",
		Anyone: "world:anyone", DigestIdentity("super", "test"): "digest:super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
	} {
		if got := value.String(); got != want {
			t.Errorf("%#v is called %q, want %q", value, got, want)
		}
	}
}
