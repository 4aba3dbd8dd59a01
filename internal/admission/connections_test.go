package admission

import "testing"

// Connections are limited in all and for each address. A limit that is not positive is none. An address without
// connections takes no memory.
func TestConnectionLimiter(t *testing.T) {
	for _, tt := range []struct {
		most, perAddr int
		addrs         []string
		want          []Decision
	}{
		{most: 2, addrs: []string{"a", "b", "c"}, want: []Decision{Admitted, Admitted, TooManyConnections}},
		{perAddr: 1, addrs: []string{"a", "a", "b"}, want: []Decision{Admitted, TooManyOfAddress, Admitted}},
		{most: 1, perAddr: 1, addrs: []string{"a", "a"}, want: []Decision{Admitted, TooManyConnections}},
		{most: -1, perAddr: -1, addrs: []string{"a", "a", "b"}, want: []Decision{Admitted, Admitted, Admitted}},
	} {
		l := NewConnectionLimiter(tt.most, tt.perAddr)
		for round := range 2 {
			for i, addr := range tt.addrs {
				if got := l.Admit(addr); got != tt.want[i] {
					t.Errorf("%d of %d per address, round %d: connection %d of %s: %v, want %v", tt.most, tt.perAddr, round, i, addr, got, tt.want[i])
				}
			}
			for i, addr := range tt.addrs {
				if tt.want[i] == Admitted {
					l.Release(addr)
				}
			}
			if l.numConns != 0 || len(l.connsByAddr) != 0 {
				t.Errorf("%d connections and %d addresses are left", l.numConns, len(l.connsByAddr))
			}
		}
	}
}
