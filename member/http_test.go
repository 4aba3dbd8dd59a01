package member_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// operators are the members' listeners for HTTP, in memory.
type operators map[uint32]*member.Loopback

// listen gives a member a new listener.
func (o operators) listen(cfg *member.Config) {
	o[cfg.ID] = member.NewLoopback()
	cfg.OperatorListener = o[cfg.ID]
}

// get returns the status and the body of the answer of a member.
func (o operators) get(t *testing.T, id uint32, path string) (int, string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return o[id].Dial(ctx) }}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: time.Second}).Get("http://localhost" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// The probes follow what happens to a member: it serves, it is cut off, its disk hangs, it stops.
func TestProbesFollowTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := operators{}
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
			cfg.DrainTime = 4 * time.Second
			all.listen(cfg)
		}})
		leader := e.Ready()
		e.Joined()
		time.Sleep(time.Second) // until each member has recorded that it no longer copies the log
		expect := func(id uint32, live, ready int, text string) {
			t.Helper()
			if status, answer := all.get(t, id, "/livez"); status != live {
				t.Errorf("livez of member %d: %d %s, want %d", id, status, answer, live)
			}
			if status, answer := all.get(t, id, "/readyz"); status != ready || !strings.Contains(answer, text) {
				t.Errorf("readyz of member %d: %d %s, want %d with %q", id, status, answer, ready, text)
			}
		}
		one, other := e.Followers()[0], e.Followers()[1]
		expect(leader, 200, 200, "leader")
		expect(one, 200, 200, "follower")

		e.Isolate(one)
		e.Wait("the member that is cut off knows no leader", time.Minute, func() bool { return e.Member(one).Role() == "" })
		expect(one, 200, 503, "no leader is known")
		time.Sleep(10 * time.Second) // several rounds of Hellos
		_, text := all.get(t, one, "/readyz")
		text = strings.TrimSpace(text)
		for _, want := range []string{
			"cut off from the others for 1", // 10 s, and what it took to notice
			"s: they may have a leader, which this member does not reach; it waits for ",
			fmt.Sprintf("; it waits for members %d and %d: ", min(leader, other), max(leader, other)),
		} {
			if !strings.Contains(text, want) {
				t.Errorf("readyz of a member that is cut off: %q, want %q with a reason", text, want)
			}
		}
		own, err := e.Member(one).View().MemberStatuses(t.Context())
		if err != nil || len(own.Items) != 1 || own.Items[0].NotServing != text || own.Items[0].IsJoining {
			t.Errorf("status of a member that is cut off: %+v, %v, want %q", own.Items, err, text)
		}
		e.Rejoin(one)
		e.Ready()

		e.Disk(other).Stall()
		c := e.Connect(20*time.Second, e.Leader())
		if _, err := c.Create("/x", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		e.Wait("a store hangs", time.Minute, func() bool { return e.Member(other).Role() == "" })
		expect(other, 503, 503, "hang")
		e.Disk(other).Release()
		e.Ready()

		for range 4 {
			e.Open(one, 20*time.Second)
		}
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			e.Stop(one)
		}()
		time.Sleep(time.Second) // of 4, in which it closes its clients' connections
		expect(one, 200, 503, "stopping")
		<-stopped
		e.Boot(one)
		e.Ready()
	})
}
