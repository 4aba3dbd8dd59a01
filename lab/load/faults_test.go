package load

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/rollcalltest"
)

// An ensemble whose leader is killed and restarted keeps its promises.
func TestKillLeader(t *testing.T) {
	verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
		time.Sleep(3 * time.Second)
		from := d.Now().At
		killed, err := d.KillLeader()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * testTimeout)
		if err := killed.Restart(); err != nil {
			t.Fatal(err)
		}
		to := d.Now().At
		if gap := d.gap(name(killed)); gap < 5000 {
			t.Errorf("the gap at member %s is %v ms so far, want more than 5 s", name(killed), gap)
		}
		time.Sleep(testTimeout)
		return []judge.Fault{{Members: []string{name(killed)}, From: from, To: to, Text: "kill"}}
	})
	want(t, verdicts)
}

func (d *drill) gap(member string) result.Millis { return d.Now().Members[member].Write }

// A member that is cut off, for longer than the timeout, breaks no promise.
func TestPartition(t *testing.T) {
	for _, which := range []string{"leader", "follower"} {
		t.Run(which, func(t *testing.T) {
			verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
				time.Sleep(3 * time.Second)
				cut := d.Leader()
				if which == "follower" {
					cut = d.Servers[cut.Number()%3]
				}
				from := d.Now().At
				for _, s := range d.Servers {
					if s != cut {
						if err := d.Ensemble.Partition(cut, s); err != nil {
							t.Fatal(err)
						}
					}
				}
				time.Sleep(3 * testTimeout)
				for _, s := range d.Servers {
					d.Heal(cut, s)
				}
				to := d.Now().At
				time.Sleep(2 * testTimeout)
				return []judge.Fault{{Members: []string{name(cut)}, From: from, To: to, Text: "cut"}}
			})
			want(t, verdicts)
		})
	}
}

// Lost replies leave writes with an unknown outcome, and break no promise.
func TestLostReplies(t *testing.T) {
	verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
		n := 0
		d.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			n++
			return rollcalltest.Verdict{LoseReply: r.Op != rollcalltest.OpConnect && n%50 == 0, LoseRequest: n%70 == 0}
		})
		time.Sleep(8 * time.Second)
		d.OnRequest(nil)
		time.Sleep(time.Second)
		return nil
	})
	want(t, verdicts)
}

// Sessions of silent and abandoned clients end in time. A paused client that has a lock loses it.
func TestClientsThatFail(t *testing.T) {
	verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
		if err := d.Silence(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if n := d.Abandon(2); n != 2 {
			t.Errorf("%d holders abandon their sessions, want 2", n)
		}
		resume, err := d.Load.Pause("contender-1")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * testTimeout)
		resume()
		time.Sleep(testTimeout)
		if n := d.Now().Expired; n != 1 {
			t.Errorf("%d sessions have expired, want that of the paused client", n)
		}
		return nil
	})
	want(t, verdicts)
	if n := judged(verdicts, "session-stayed"); n != 5 {
		t.Errorf("%d silent sessions were judged, want 5", n)
	}
}

// A session that a server ends without a reason is found.
func TestSessionEndsWithoutReason(t *testing.T) {
	verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
		time.Sleep(3 * time.Second)
		for _, id := range d.sessionsOf("holder-1", "reader-1") {
			if err := d.ExpireSession(id); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(3 * time.Second)
		return nil
	})
	want(t, verdicts, "session-ended")
	if v := verdicts[0]; v.Rule != "session-ended" || len(v.Violations) != 2 {
		t.Errorf("%s has %d violations, want session-ended with 2", v.Rule, len(v.Violations))
	}
}

// sessionsOf returns the ids of the sessions of clients.
func (d *drill) sessionsOf(names ...string) (ids []int64) {
	d.recorder.mu.Lock()
	defer d.recorder.mu.Unlock()
	for v := range d.recorder.lives {
		for _, n := range names {
			if v.slot.name == n {
				id, _ := v.client.Session()
				ids = append(ids, int64(id))
			}
		}
	}
	return ids
}

// A node that is gone although its session lives is found.
func TestEphemeralVanishes(t *testing.T) {
	verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
		time.Sleep(2 * time.Second)
		if !d.delete(sessionsParent, "holder-2-") {
			t.Error("holder-2 has no node")
		}
		time.Sleep(2 * time.Second)
		return nil
	})
	want(t, verdicts, "ephemeral-vanished")
}

// delete deletes a node of a parent: of the nodes with a prefix, the one that sorts first by its last ten characters. It
// reports whether there was one.
func (d *drill) delete(folder, prefix string) bool {
	c, err := client.Dial(d.t.Context(), d.ConnectString()+d.cfg.Chroot, client.Config{
		DialConn: d.cfg.DialConn, Clock: d.cfg.Clock,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = c.Close(d.t.Context()) }()
	names, _, err := c.Children(d.t.Context(), folder)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
	if err != nil || len(names) == 0 {
		return false
	}
	first := slices.MinFunc(names, func(a, b string) int { return cmp.Compare(a[len(a)-10:], b[len(b)-10:]) })
	if err := c.Delete(d.t.Context(), folder+"/"+first, client.AnyVersion); err != nil && !isNoNode(err) {
		d.t.Error(err)
	}
	return true
}
