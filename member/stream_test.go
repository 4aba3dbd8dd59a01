package member_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// superAuth proves that a request comes from the super user whose digest superDigest is.
const (
	superAuth   = "digest super:secret"
	superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
)

// stream reads a member's events. next returns the data of the next event of a name, within a minute.
func (o operators) stream(t *testing.T, id uint32) (next func(name string, into any)) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return o[id].Dial(ctx) }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", superAuth)
	answer, err := transport.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	t.Cleanup(func() {
		_ = answer.Body.Close()
		transport.CloseIdleConnections()
	})
	lines := bufio.NewScanner(answer.Body)
	return func(name string, into any) {
		t.Helper()
		at := ""
		for begun := time.Now(); lines.Scan() && time.Since(begun) < time.Minute; {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case field == "event":
				at = value
			case field == "data" && at == name:
				if err := json.Unmarshal([]byte(value), into); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatalf("no event %s: %v", name, lines.Err())
	}
}

// A member that does not lead tells who reads its events of sessions that come, move and go on any member, of the
// leader, and of its own load.
func TestEventsOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := operators{}
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
			cfg.SuperDigest = superDigest
			all.listen(cfg)
		}})
		leader := e.Ready()
		e.Joined()
		at, other := e.Followers()[0], e.Followers()[1]
		next := all.stream(t, at)
		var status api.List[api.Member]
		if next("status", &status); len(status.Items) != 3 || len(status.Silent) != 0 {
			t.Fatalf("%+v", status)
		}
		c := e.Connect(20*time.Second, other, leader)
		var s api.SessionEvent
		if next("session", &s); s.Kind != "created" || s.ID != c.Session().String() || s.MemberID != other || s.Address == "" || s.TimeoutMs != 20_000 {
			t.Errorf("%+v", s)
		}
		e.Kill(other)
		if next("session", &s); s.Kind != "moved" || s.ID != c.Session().String() || s.MemberID != leader || s.FromMember != other {
			t.Errorf("%+v", s)
		}
		if next("status", &status); len(status.Silent) != 1 || status.Silent[0].MemberID != other {
			t.Errorf("while member %d is down: %+v", other, status)
		}
		e.Boot(other)
		e.Ready()
		if _, err := c.Do(jute.OpCloseSession, nil); err != nil {
			t.Fatal(err)
		}
		if next("session", &s); s.Kind != "ended" || s.ID != c.Session().String() || s.Reason != "closed" {
			t.Errorf("%+v", s)
		}

		own := e.Connect(20*time.Second, at)
		if _, err := own.Create("/a", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		var load api.Load
		for next("load", &load); load.UpdatesPerS == 0; next("load", &load) {
		}
		if load.Connections != 1 || load.OverMs != 1000 {
			t.Errorf("%+v", load)
		}
		e.Kill(leader)
		var l api.LeaderEvent
		if next("leader", &l); l.LeaderID != at && l.LeaderID != other || l.Term == 0 {
			t.Errorf("%+v", l)
		}
		e.Boot(leader)
		e.Ready()
	})
}
