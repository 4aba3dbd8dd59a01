package client

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/fakezk"
)

// Dial and Use add DefaultPort to an address without a port.
func TestServersWithoutPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dialed := fakezk.New(t), make(chan string, 10)
		c, err := Dial(t.Context(), "fake", Config{
			DialConn: func(_ context.Context, _, address string) (net.Conn, error) {
				dialed <- address
				return s.Accept()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ensemble().Use("h1"); err != nil {
			t.Errorf("Use: %v", err)
		}
		if first := <-dialed; first != "fake:2181" {
			t.Errorf("Dial dialed %s, want fake:2181", first)
		}
		select {
		case address := <-dialed:
			if address != "h1:2181" {
				t.Errorf("dialed %s, want h1:2181", address)
			}
		case <-time.After(time.Minute): // virtual
			t.Error("no other server was dialed")
		}
		c.Abandon()
		s.AwaitConnectionsEnd()
	})
}
