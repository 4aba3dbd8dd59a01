package barrier

import (
	"context"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
)

// A barrier holds clients back while its node exists, also if the node changes or the connection breaks meanwhile.
func TestBarrierHoldsBack(t *testing.T) {
	dial := func(s *fakezk.Server) (*client.Client, error) {
		s.CreateNode("/b")
		return client.Dial(context.Background(), "fake:1", client.Config{DialConn: s.DialConn})
	}
	fakezk.Run(t, dial, func(t *testing.T, s *fakezk.Server, c *client.Client) {
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
