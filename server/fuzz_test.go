package server

import (
	"io"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// Whatever a client sends, before its handshake or after it, the server does not panic, and other
// clients notice nothing. The connection may live or end.
func FuzzConn(f *testing.F) {
	hello := frameOf(jute.ConnectRequest{TimeOut: 10000, HasReadOnly: true})
	f.Add(false, []byte("ruok"))
	f.Add(false, append(hello, frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpCloseSession})...))
	for op, rec := range map[jute.Op]record{
		jute.OpCreate: create("/a", "x", jute.EphemeralSequential), jute.OpGetData: getData("/", true),
		jute.OpSetWatches: setWatches(1, []string{"/", "/x"}, nil, nil), jute.OpAuth: auth("digest", "u:p"),
		jute.OpMulti: raw(jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCheck}})), jute.OpSync: jute.SyncRequest{},
	} {
		f.Add(true, frameOf(jute.RequestHeader{Xid: 1, Op: op}, rec))
	}
	for op := range jute.AllOps() {
		if rec := op.NewRequest(); rec != nil {
			f.Add(true, frameOf(jute.RequestHeader{Xid: 1, Op: op}, rec))
		}
	}
	w := newWorld(f, false, func(c *Config) { c.Limits.Handshake = 50 * time.Millisecond })
	bystander := w.connect()
	f.Fuzz(func(t *testing.T, established bool, input []byte) {
		c := w.dial()
		defer func() { _ = c.Close() }()
		if established {
			input = append(append([]byte{}, hello...), input...)
		}
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = c.Write(input) // fails when the server ends the connection
		bystander.tb = t
		_ = bystander.SetDeadline(time.Now().Add(10 * time.Second))
		bystander.must(jute.OpPing)
	})
}
