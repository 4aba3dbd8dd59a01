package recipes

import (
	"net"
	"testing"
	"time"

	"rollcall/client/zk"
)

// oneServer is a HostProvider for the server of a scene, whose address is no name of DNS.
type oneServer string

func (oneServer) Init([]string) error { return nil }
func (oneServer) Len() int            { return 1 }
func (o oneServer) Next() (string, bool) {
	return string(o), false
}
func (oneServer) Connected() {}

// A Lock of the shim that fails leaves no node: others would wait for it as long as the session lives.
func TestShimLockThatFails(t *testing.T) {
	inScene(t, func(s *scene) {
		conn, _, err := zk.Connect([]string{s.srv.ConnectString()}, sessionTimeout,
			zk.WithHostProvider(oneServer(s.srv.ConnectString())), zk.WithLogInfo(false),
			zk.WithDialer(func(_, address string, _ time.Duration) (net.Conn, error) { return s.srv.Dial(s.ctx, "tcp", address) }))
		s.check(err)
		defer conn.Close()
		_, err = conn.Create("/lock", nil, 0, zk.WorldACL(zk.PermAll))
		s.check(err)
		_, err = conn.Create("/lock/foreign", nil, 0, zk.WorldACL(zk.PermAll))
		s.check(err)
		if err := zk.NewLock(conn, "/lock", zk.WorldACL(zk.PermAll)).Lock(); err == nil {
			t.Fatal("a lock in a folder with another node")
		}
		if names := s.children("/lock"); len(names) != 1 {
			t.Errorf("left: %q", names)
		}
	})
}
