package client

import (
	"testing"

	"rollcall/zk/jute"
)

// A reply to a multi has memory for as many results as there are operations, however many the server sends.
func TestMultiReplyBounded(t *testing.T) {
	var body []byte
	for range 100_000 {
		body = jute.MultiHeader{Type: jute.OpError, Err: jute.NoNode}.Append(body)
		body = jute.ErrorResponse{Err: jute.NoNode}.Append(body)
	}
	reply := multiReply{most: 3}
	d := jute.NewDecoder(body)
	reply.Decode(&d)
	if len(reply.results) != 3 || cap(reply.results) > 8 {
		t.Errorf("%d results are kept, in memory for %d", len(reply.results), cap(reply.results))
	}
	o := multiOp("", make([]Operation, 2))
	if _, err := o.multiResults(reply.results); err == nil {
		t.Error("too many results are no error")
	}
}
