package barrier

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
)

// A barrier holds clients back while its node exists, also if the node changes or the connection breaks meanwhile.
func TestBarrierHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		s.CreateNode("/b")
		c, err := client.Dial(t.Context(), "fake:1", client.Config{
			DialConn: func(context.Context, string, string) (net.Conn, error) { return s.Accept() },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Abandon()
			s.AwaitConnectionsEnd()
		})
		const gone = 10 * time.Second // when the node is deleted
		go func() {
			time.Sleep(time.Second)
			s.SetData("/b", "x")
			time.Sleep(time.Second)
			s.Disconnect(false)
			time.Sleep(gone - 2*time.Second)
			s.DeleteNode("/b")
		}()
		began := time.Now()
		if err := New(c, "/b").Wait(t.Context()); err != nil || time.Since(began) != gone {
			t.Errorf("%v after %v, want no error after %v", err, time.Since(began), gone)
		}
		if err := New(c, "/b").Wait(t.Context()); err != nil || time.Since(began) != gone {
			t.Errorf("a barrier that is not up: %v after %v more", err, time.Since(began)-gone)
		}
	})
}
