package member_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
	"rollcall/zk/sasl"
)

// ruleReports counts the events of members whose rules differ from the leader's, by the leader and the keys.
type ruleReports struct {
	mu    sync.Mutex
	count map[string]int
}

func (r *ruleReports) add(e member.Event) {
	if e.Kind != member.EventRulesDiffer {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count = make(map[string]int)
	}
	r.count[fmt.Sprintf("%d: %s", e.Member, strings.Join(e.Keys, " "))]++
}

// some reports whether there are any since the last take.
func (r *ruleReports) some() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.count) > 0
}

// take returns the counts since the last call.
func (r *ruleReports) take() map[string]int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.count
	r.count = nil
	return count
}

// Only one member has letAnySaslUserDoX. It decides while it leads, for writes and reads through every member, and the members stay
// equal under all leaders. Those that differ from the leader report it. A client without a login never gains.
func TestAnySASLUserIsTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const allowing, snapCount = 1, 8
		var reports ruleReports
		e := cluster.Start(t, 3, cluster.Options{
			Adjust: func(cfg *member.Config) {
				cfg.Login.Users, cfg.Rules.SASL = sasl.NewUsers(map[string]string{"alice": "a", "bob": "b"}), true
				cfg.SnapCount = snapCount
				if cfg.ID == allowing {
					cfg.Rules.AnySASLUser = "alice"
				}
			},
			Events: reports.add,
		})
		e.Ready()
		e.Joined()
		lead := func(id uint32) {
			t.Helper()
			reports.take()
			if leader := e.Leader(); leader != id {
				if err := e.Member(leader).HandOverTo(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			e.Wait("the leader", time.Minute, func() bool { return e.Member(id).Leading() })
		}
		logIn := func(c *cluster.Client, user, password string) {
			t.Helper()
			exchange := func(token []byte) []byte {
				reply, err := c.Do(jute.OpSASL, jute.SASLToken{Token: token})
				if err != nil {
					t.Fatal(err)
				}
				var answer jute.SASLToken
				d := jute.NewDecoder(reply.Body)
				answer.Decode(&d)
				return answer.Token
			}
			login := sasl.NewLogin(user, password)
			response, _, err := login.Step(exchange([]byte{}))
			if err != nil {
				t.Fatal(err)
			}
			if _, done, err := login.Step(exchange(response)); !done || err != nil {
				t.Fatal(err)
			}
		}
		clients := map[string]*cluster.Client{}
		for _, user := range []string{"alice", "bob", "nobody"} {
			clients[user] = e.Connect(10*time.Second, 3)
		}
		lead(2)
		logIn(clients["alice"], "alice", "a")
		logIn(clients["bob"], "bob", "b")
		if _, err := clients["alice"].Do(jute.OpCreate, jute.CreateRequest{
			Path: []byte("/a"), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("sasl"), ID: []byte("alice")}}},
		}); err != nil {
			t.Fatal(err)
		}
		allowed := func(want ...string) {
			t.Helper()
			for user, c := range clients {
				_, writes := c.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/a"), Version: -1})
				_, reads := c.Do(jute.OpGetData, jute.GetDataRequest{Path: []byte("/a")})
				if got := writes == nil; got != slices.Contains(want, user) || (reads == nil) != got {
					t.Errorf("%s writes: %v, reads: %v, allowed are %q", user, writes, reads, want)
				}
			}
			e.Equal()
		}
		reported := func(want map[string]int) {
			t.Helper()
			if got := reports.take(); !maps.Equal(got, want) {
				t.Errorf("reported %v, want %v", got, want)
			}
		}
		allowed("alice")
		lead(allowing)
		allowed("alice", "bob")
		reported(map[string]int{"1: letAnySaslUserDoX": 2})
		lead(3)
		allowed("alice")
		reported(map[string]int{"3: letAnySaslUserDoX": 1})
		lead(allowing)
		reports.take()
		e.Stop(2)
		e.Boot(2)
		e.Wait("the report", time.Minute, reports.some)
		reported(map[string]int{"1: letAnySaslUserDoX": 1}) // once, and not for the terms that it replays
		for _, id := range e.IDs() {
			e.Disk(id).KeepLog(4)
		}
		before := e.Disk(allowing).Snapshots()
		for range 10 * snapCount { // the log before is gone
			if _, err := clients["alice"].Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/a"), Version: -1}); err != nil {
				t.Fatal(err)
			}
		}
		e.Wait("a snapshot", time.Minute, func() bool { return e.Disk(allowing).Snapshots() > before })
		e.Stop(2)
		e.Wipe(2)
		e.Boot(2)
		e.Joined()
		if e.Disk(2).Installs() == 0 {
			t.Error("the empty member has got no snapshot")
		}
		e.Wait("the report", time.Minute, reports.some)
		reported(map[string]int{"1: letAnySaslUserDoX": 1}) // of member 2, which got the term in the snapshot
		allowed("alice", "bob")
	})
}
