package tap

import (
	"testing"

	"rollcall/zk/jute"
)

// Requests are read whatever they are, and what proves an identity is not part of what is read.
func TestParseRequest(t *testing.T) {
	secret := jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte("/user:secret")}
	for _, tt := range []struct {
		op   jute.Op
		body []byte
		path string
	}{
		{jute.OpCreate2, jute.CreateRequest{Path: []byte("/a"), ACL: jute.OpenACL}.Append(nil), "/a"},
		{jute.OpGetData, jute.WatchedPath{Path: []byte("/b")}.Append(nil), "/b"},
		{jute.OpAuth, secret.Append(nil), ""},
		{jute.OpSASL, jute.SASLToken{Token: []byte("/token")}.Append(nil), ""},
		{jute.OpCloseSession, nil, ""},
		{jute.OpMulti, nil, ""},
		{99, jute.PathRecord{Path: []byte("/c")}.Append(nil), ""},
	} {
		frame := append(jute.RequestHeader{Xid: 7, Op: tt.op}.Append(nil), tt.body...)
		if header, path := ParseRequest(frame); header.Xid != 7 || header.Op != tt.op || path != tt.path {
			t.Errorf("%v was read as %+v, %q", tt.op, header, path)
		}
	}
}
