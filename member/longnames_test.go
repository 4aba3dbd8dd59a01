package member_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/lab/simulated"
	"rollcall/member"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Only one member has longSequentialNames. It decides while it leads, and the members stay equal under all leaders. A member
// that begins with a snapshot continues the count.
func TestLongNamesAreTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const allowing = 1
		var ended []string
		e := cluster.Start(t, 3, cluster.Options{
			Disks: map[uint32]*simulated.Disk{1: cluster.CountedDisk(t, 1, map[string]int64{
				"/p": znode.MaxCreated - 1, "/q": znode.MaxCreated - 1, "/r": 8_999_999_999,
			})},
			Adjust: func(cfg *member.Config) { cfg.Rules.LongNames = cfg.ID == allowing },
			Events: func(ev member.Event) {
				if ev.Kind == member.EventNamesEnded {
					ended = append(ended, ev.Names.Path)
				}
			},
		})
		e.Ready()
		e.Joined()
		c := e.Connect(10*time.Second, 3)
		lead := func(id uint32) {
			t.Helper()
			if leader := e.Leader(); leader != id {
				if err := e.Member(leader).HandOverTo(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			e.Wait("the leader", time.Minute, func() bool { return e.Member(id).Leading() })
		}
		next := func(parent, want string) {
			t.Helper()
			path, err := c.Create(parent+"/n-", nil, jute.PersistentSequential)
			if want == "" && !errors.Is(err, jute.NodeExists) || want != "" && path != parent+"/n-"+want {
				t.Errorf("created %q, %v, want %q", path, err, want)
			}
			e.Equal()
		}

		lead(2)
		next("/q", "2147483646")
		next("/q", "2147483647")
		next("/q", "")
		lead(allowing)
		next("/q", "2147483648")
		next("/p", "2147483646")
		lead(3)
		next("/q", "2147483649") // it has passed the end
		next("/p", "2147483647") // and it has not
		next("/p", "")
		synctest.Wait()
		if want := []string{"/q", "/p"}; !slices.Equal(ended, want) {
			t.Errorf("reported as used up: %q, want %q", ended, want)
		}

		e.Stop(2)
		e.Wipe(2)
		e.Boot(2)
		e.Joined()
		if e.Disk(2).Installs() == 0 {
			t.Error("the empty member has got no snapshot")
		}
		e.Equal()
		lead(2)
		next("/q", "2147483650")
		next("/r", "8999999999")
		next("/r", "9000000009000000000")
		lead(allowing)
		next("/p", "2147483648")
	})
}
