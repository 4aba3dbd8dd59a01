package view

import "testing"

// A client's address is selected by host or by host and port, however each of them is written.
func TestClientFilter(t *testing.T) {
	tests := []struct {
		filter, address string
		want            bool
	}{
		{"", "10.0.0.1:5", true},
		{"10.0.0.1", "10.0.0.1:5", true},
		{"10.0.0.1", "10.0.0.11:5", false},
		{"10.0.0.1:5", "10.0.0.1:5", true},
		{"10.0.0.1:5", "10.0.0.1:55", false},
		{"10.0.0.1", "[::ffff:10.0.0.1]:5", true},
		{"10.0.0.1:5", "[::ffff:10.0.0.1]:5", true},
		{"::ffff:10.0.0.1", "10.0.0.1:5", true},
		{"[::ffff:10.0.0.1]:5", "10.0.0.1:5", true},
		{"fe80::1", "[fe80::1%eth0]:5", true},
		{"2001:db8::1", "[2001:db8:0::1]:5", true},
		{"[2001:db8::1]:5", "[2001:db8::1]:5", true},
		{"host", "10.0.0.1:5", false},
		{"pipe", "pipe", true},
		{"host", "host:5", true},
		{"host", "pipe", false},
	}
	for _, tt := range tests {
		if got := NewClientFilter(tt.filter).Matches(tt.address); got != tt.want {
			t.Errorf("%q selects %q: %t, want %t", tt.filter, tt.address, got, tt.want)
		}
	}
}
