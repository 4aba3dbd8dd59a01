package server

import (
	"testing"

	"rollcall/zk/jute"
)

// Only a packet of the scheme digest with the super user's name claims to be the super user, and only if there is one who can
// log in so.
func TestSuperGuess(t *testing.T) {
	packet := func(scheme string, text []byte) []byte {
		return jute.AuthPacket{Scheme: []byte(scheme), Auth: text}.Append(nil)
	}
	right, wrong := packet("digest", []byte("super:secret")), packet("digest", []byte("super:guess"))
	for _, tt := range []struct {
		name          string
		body          []byte
		change        func(cfg *Config)
		claims, right bool
	}{
		{"the password", right, nil, true, true},
		{"another password", wrong, nil, true, false},
		{"another user", packet("digest", []byte("bob:secret")), nil, false, false},
		{"a longer name", packet("digest", []byte("superb:secret")), nil, false, false},
		{"another scheme", packet("ip", []byte("super:secret")), nil, false, false},
		{"null", packet("digest", nil), nil, false, false},
		{"no packet", right[:len(right)-1], nil, false, false},
		{"no super user", right, func(cfg *Config) { cfg.SuperDigest = "" }, false, false},
		{"no digest", right, func(cfg *Config) { cfg.NoDigest = true }, false, false},
	} {
		w := newWorld(t, false, tt.change)
		if claims, right := w.srv.authenticator.checkSuperPassword(tt.body); claims != tt.claims || right != tt.right {
			t.Errorf("%s: claims %t, right %t; want %t, %t", tt.name, claims, right, tt.claims, tt.right)
		}
	}
}
