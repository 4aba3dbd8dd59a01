package member

import (
	"strings"
	"testing"

	"rollcall/quorum/wire"
)

// A claim counts only if its ensemble serves, and only with an address that can be shown.
func TestRecordClaim(t *testing.T) {
	for _, tt := range []struct {
		addr   string
		serves bool
		want   bool
	}{
		{"10.0.0.1:2888", true, true},
		{"10.0.0.1:2888", false, false},
		{"10.0.0.1", true, false},
		{strings.Repeat("a", maxClaimAddress) + ":1", true, false},
	} {
		h := &health{}
		h.recordClaim(wire.Peer{ID: 1, Addr: tt.addr}, tt.serves)
		if got := h.lastClaim.Load() != nil; got != tt.want {
			t.Errorf("%.20s, serves %t: recorded %t, want %t", tt.addr, tt.serves, got, tt.want)
		}
	}
}
