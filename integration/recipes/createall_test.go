package recipes

import (
	"strings"
	"testing"
	"time"

	"rollcall/client"
)

// CreateAll makes nodes that stay when their children have gone, unless its options make containers.
func TestCreateAllModes(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		for path, mode := range map[string]client.Mode{"/stays/a/b": client.Persistent, "/goes/a/b": client.Container} {
			s.check(c.CreateAll(s.ctx, path, mode))
			s.check(c.Delete(s.ctx, path, client.AnyVersion))
		}
		time.Sleep(sceneTimeout / 2) // some checks of all containers
		for path, want := range map[string]bool{"/stays/a": true, "/stays": true, "/goes/a": false, "/goes": false} {
			_, exists, err := c.Exists(s.ctx, path)
			if s.check(err); exists != want {
				t.Errorf("%s exists: %t, want %t", path, exists, want)
			}
		}
	})
}

// Each node that CreateAll makes has the ACL of its mode.
func TestCreateAllACL(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.check(c.CreateAll(s.ctx, "/a/b", client.Persistent.WithACL(client.ACL{Permissions: client.PermRead | client.PermCreate, Identity: client.Anyone})))
		for _, path := range []string{"/a", "/a/b"} {
			_, err := c.Set(s.ctx, path, nil, client.AnyVersion)
			s.want(err, client.ErrNoAuth)
		}
	})
}

// Dial fails if the chroot is missing, names it, and leaves no session. It is no node of the Client's that Dial creates.
func TestDialMissingChroot(t *testing.T) {
	inScene(t, func(s *scene) {
		dial := func() (*client.Client, error) {
			return client.Dial(s.ctx, s.srv.ConnectString()+"/app/a", client.Config{DialConn: s.srv.Dial})
		}
		_, err := dial()
		s.want(err, client.ErrNoNode)
		if want := "the chroot /app/a: no node; create it first"; !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		s.check(s.client().CreateAll(s.ctx, "/app/a", client.Persistent))
		c, err := dial()
		s.check(err)
		s.clients = append(s.clients, c)
	})
}
