package bench

import (
	"net"
	"testing"
)

// The connections to a server on loopback come from the source addresses by turns. Other servers, and names, are reached as the kernel
// chooses.
func TestSources(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r := &caseRun{params: Params{Sources: 3}}
	var last *net.TCPAddr
	for _, want := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.2"} {
		c, err := r.dialServer(t.Context(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		last = c.LocalAddr().(*net.TCPAddr)
		if last.IP.String() != want {
			t.Errorf("a connection comes from %v, want %s", last, want)
		}
	}
	r.sources.dealt.Store(maxSources - 1)
	if got := r.sources.next(maxSources, "127.0.0.1:1"); got.String() != "127.0.253.233" {
		t.Errorf("the last address is %v", got)
	}
	for _, addr := range []string{"localhost:1", "10.0.0.1:1", "[::1]:1", "127.0.0.1"} {
		if got := r.sources.next(maxSources, addr); got != nil {
			t.Errorf("%s is reached from %v", addr, got)
		}
	}
	if got := r.sources.next(1, "127.0.0.1:1"); got != nil {
		t.Errorf("one source: %v", got)
	}
}
