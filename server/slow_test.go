package server

import (
	"bytes"
	"testing"
	"time"

	"rollcall/internal/stages"
	"rollcall/zk/jute"
)

// The record of a slow request takes only the beginning of its path from the request, also if the path was rejected: a reply
// that its client does not take keeps the record.
func TestPathOfSlowRequest(t *testing.T) {
	long := append([]byte("/"), bytes.Repeat([]byte("a"), 1<<20)...)
	create := jute.CreateRequest{Path: long, ACL: jute.OpenACL}
	for name, r := range map[string]*request{
		"read":     {op: jute.OpGetData, body: jute.GetDataRequest{Path: long}.Append(nil)},
		"write":    {op: jute.OpCreate, times: requestTimes{txnBody: create.Append(nil)}},
		"rejected": {op: jute.OpCreate, body: create.Append(nil), code: jute.BadArguments},
		"multi":    {op: jute.OpMulti, body: jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCreate, Create: create}})},
	} {
		if got := requestPath(r); got != string(long[:stages.MaxPath]) {
			t.Errorf("%s: a path of %d bytes, want the first %d", name, len(got), stages.MaxPath)
		}
	}
}

// The opening of a session has the times at which it had room and was sent, as a write has.
func TestOpeningTimes(t *testing.T) {
	var h handshake
	h.NoteSent(3, 5)
	if q := h.times.describe(stages.New(stages.Thresholds{}, time.Now), time.Now()); q.Room != 3 || q.Sent != 5 {
		t.Errorf("it had room at %d and was sent at %d", q.Room, q.Sent)
	}
}
