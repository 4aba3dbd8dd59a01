package server

import (
	"testing"

	"rollcall/jute"
)

// A SASL exchange is refused at its first token, and then the connection is closed. A token that
// cannot be decoded is not answered. The session and its permissions stay.
func TestSASLIsRefused(t *testing.T) {
	w := newWorld(t, false, nil)
	for _, token := range [][]byte{nil, {}, []byte("n,,")} {
		c := w.connect()
		touched := w.touched(c.id)
		c.request(jute.OpSASL, jute.SASLToken{Token: token})
		if h := c.expect(1, jute.AuthFailed); h.Zxid != 0 {
			t.Errorf("token %q: zxid %#x, want 0", token, h.Zxid)
		}
		c.expectClosed()
		if n := w.touched(c.id) - touched; n != 0 {
			t.Errorf("token %q: touched the session %d times", token, n)
		}
		if again := w.resume(c); again.id != c.id {
			t.Errorf("token %q: the session is gone", token)
		}
	}
	c := w.connect()
	c.request(jute.OpSASL, raw{0, 0})
	c.expectClosed()
}
