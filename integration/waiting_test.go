package integration

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// reasons returns the reason for which a member does not serve, from the three places where operators find it: `rollcall
// health`, which requests /readyz after srvr, then /readyz itself, and `rollcall status`, which queries another member.
func reasons(t *testing.T, e *cluster.Ensemble, id, other uint32) (health, readyz, status string) {
	t.Helper()
	word, err := e.Dial(id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := word.Write([]byte("srvr")); err != nil {
		t.Fatal(err)
	}
	if reply, err := io.ReadAll(word); err != nil || !strings.Contains(string(reply), "not currently serving") {
		return "", "", "" // it serves
	}
	ready := func() string {
		reply, err := e.Operator(id).HTTPClient.Get("http://localhost/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reply.Body.Close() }()
		text, err := io.ReadAll(reply.Body)
		if err != nil || reply.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("/readyz: %d %s, %v", reply.StatusCode, text, err)
		}
		return strings.TrimSpace(string(text))
	}
	health = ready()
	members, err := api.Get[api.List[api.Member]](t.Context(), e.Operator(other), "status", nil)
	if err != nil || len(members.Silent) > 0 {
		t.Fatalf("status: silent %v, %v", members.Silent, err)
	}
	for _, m := range members.Items {
		if m.MemberID == id {
			status = m.NotServing
		}
	}
	return health, ready(), status
}

// A member with an empty disk copies a snapshot over a narrow link. Meanwhile health, /readyz and status say how much of it has
// come, and of how much.
func TestStateWhileCopying(t *testing.T) {
	t.Parallel()
	const (
		rate  = 2 << 20 // bytes a second
		nodes = 24
		size  = 1_000_000
	)
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{HTTP: true})
		leader := e.Ready()
		e.Joined()
		late, other := e.Followers()[0], e.Followers()[1]
		e.Kill(late)
		e.Wipe(late)
		e.Disk(leader).KeepLog(4)
		c := e.Connect(20*tick, leader)
		for i := range nodes {
			if _, err := c.Create(fmt.Sprint("/", i), make([]byte, size), jute.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		stored, err := api.Post[api.Snapshot](t.Context(), e.Operator(leader), "snapshot", struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		total := (stored.Bytes + 1<<20 - 1) >> 20
		between(func(from, to uint32) { e.Network.LimitRate(from, to, rate) }, leader, late)
		e.Boot(late)
		var seen []int64
		for begun := time.Now(); e.Member(late).Role() == ""; time.Sleep(200 * time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("it does not serve; it was seen to copy %v MiB", seen)
			}
			health, readyz, status := reasons(t, e, late, other)
			var done [3]int64
			for i, text := range []string{health, status, readyz} {
				var all int64
				_, err := fmt.Sscanf(text, "this member is joining the ensemble: it copies a snapshot of the leader, %d MiB of %d MiB", &done[i], &all)
				if err == nil && all != total {
					t.Errorf("%q; the snapshot has %d MiB", text, total)
				}
			}
			if done[0] > 0 && done[1] > 0 && done[2] > 0 { // otherwise it begins or ends just now
				if done[0] > done[1] || done[1] > done[2] || done[2] > total {
					t.Errorf("health says %d MiB, then status %d MiB, then /readyz %d MiB, of %d MiB", done[0], done[1], done[2], total)
				}
				seen = append(seen, done[:]...)
			}
		}
		for i := range seen[1:] {
			if seen[i+1] < seen[i] {
				t.Errorf("%d MiB after %d MiB", seen[i+1], seen[i])
			}
		}
		if distinct := len(slices.Compact(slices.Clone(seen))); distinct < int(total)/2 {
			t.Errorf("only %d shares of %d MiB were seen: %v", distinct, total, seen)
		}
		if e.Disk(late).Installs() != 1 || total < nodes*size>>20 {
			t.Errorf("%d snapshots of %d MiB were copied", e.Disk(late).Installs(), total)
		}
	})
}
