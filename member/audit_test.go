package member_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/logs/logtest"
	"rollcall/zk/jute"
)

// auditLines is where the members of an ensemble write their audit logs.
type auditLines struct{ logtest.Buffer }

// auditLine is what the test reads of a line.
type auditLine struct {
	Member                                 uint32
	Session, Operation, Path, Result, Zxid string
	Target, Error, Reason, Type, Address   string
	Who                                    []string
}

// find returns the lines of an operation, of all members.
func (a *auditLines) find(t *testing.T, operation, path string) (found []auditLine) {
	t.Helper()
	for text := range strings.Lines(a.String()) {
		var line auditLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if line.Operation == operation && line.Path == path {
			found = append(found, line)
		}
	}
	return found
}

// Each event is in the audit log of one member, once: what a client did in that of the member that served it, and
// what no client asked for in the leader's. A member that starts again writes nothing once more.
func TestAuditOfAnEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, timeout = 2 * time.Second, 8 * time.Second
		lines := new(auditLines)
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
			cfg.Audit.Enable, cfg.AuditOutput = true, lines
			cfg.Rules.TTLNodes, cfg.Reaping.Interval = true, tick
		}})
		leader := e.Ready()
		away, third := e.Followers()[0], e.Followers()[1]
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		c := e.Connect(timeout, away)
		must(c.Create("/mine", nil, jute.Ephemeral))
		must(c.Create("/box", nil, jute.Persistent))
		must(c.Do(jute.OpCreateTTL, jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: []byte("/ttl"), ACL: jute.OpenACL, Flags: jute.PersistentWithTTL}, TTL: 1}))
		if _, err := c.Create("/box", nil, jute.Persistent); err == nil {
			t.Fatal("created twice")
		}
		_, victim := e.Open(third, timeout)
		must(nil, e.Member(away).KillSession(t.Context(), victim.SessionID, "boss"))
		nodes := nodeOps{t, e}
		if _, _, status, why := nodes.change(third, timeout, create("/operator", jute.OpenACL)); status != 200 {
			t.Fatal(status, why)
		}
		c.Abandon()
		polite := e.Connect(timeout, third)
		must(polite.Do(jute.OpCloseSession, nil))
		wrong := e.Connect(timeout, third)
		if _, err := wrong.Do(jute.OpAuth, jute.AuthPacket{Scheme: []byte("nonsense"), Auth: []byte("SECRET")}); err == nil {
			t.Fatal("an unknown scheme is taken")
		}
		e.Wait("the abandoned session to expire", 3*timeout, func() bool { return expiries(lines.find(t, "expireSession", ""), c.Session().String()) > 0 })
		time.Sleep(10 * tick)
		e.Kill(away)
		e.Boot(away)
		e.Ready()
		e.Equal()
		time.Sleep(tick)

		session := c.Session().String()
		for _, want := range []struct {
			path   string
			member uint32
			auditLine
		}{
			{"/mine", away, auditLine{Operation: "create", Session: session, Result: "success", Type: "ephemeral"}},
			{"/ttl", away, auditLine{Operation: "create", Session: session, Result: "success", Type: "persistent_with_ttl"}},
			{"/operator", third, auditLine{Operation: "create", Result: "success", Type: "persistent"}},
			{"/mine", leader, auditLine{Operation: "ephemeralZNodeDeletionOnSessionCloseOrExpire", Session: session, Result: "success"}},
			{"/ttl", leader, auditLine{Operation: "delete", Result: "success"}},
			{"", leader, auditLine{Operation: "killSession", Session: victim.SessionID.String(), Result: "success"}},
			{"", third, auditLine{Operation: "closeSession", Session: polite.Session().String(), Result: "success"}},
			{"", third, auditLine{Operation: "authenticate", Session: wrong.Session().String(), Result: "failure", Target: "nonsense", Error: "authentication failed"}},
		} {
			got := slices.DeleteFunc(lines.find(t, want.Operation, want.path), func(l auditLine) bool { return l.Session != want.Session })
			if len(got) != 1 || got[0].Member != want.member || got[0].Session != want.Session || got[0].Result != want.Result || got[0].Type != want.Type || got[0].Target != want.Target {
				t.Errorf("%s %s: %+v, want member %d, %+v", want.Operation, want.path, got, want.member, want.auditLine)
			}
		}
		if got := lines.find(t, "create", "/mine"); len(got) != 1 || got[0].Address == "" {
			t.Errorf("%+v, want the address of the client", got)
		}
		if got := lines.find(t, "create", "/box"); len(got) != 2 || got[0].Result != "success" || got[1].Result != "unchanged" || got[1].Reason != "node exists" || got[0].Zxid >= got[1].Zxid {
			t.Errorf("%+v", got)
		}
		if got := lines.find(t, "expireSession", ""); expiries(got, session) != 1 || got[0].Member != leader || !strings.HasPrefix(got[0].Reason, "not heard from for ") {
			t.Errorf("%+v", got)
		}
		if got := lines.find(t, "killSession", ""); len(got) != 1 || len(got[0].Who) != 1 || got[0].Who[0] != "user:boss" {
			t.Errorf("%+v", got)
		}
		if got := lines.find(t, "serverStart", ""); len(got) != 4 {
			t.Errorf("%d starts", len(got))
		}
		if text := lines.String(); strings.Contains(text, "SECRET") {
			t.Error("a password is in the audit log")
		}
	})
}

// expiries returns how many of the lines are of a session.
func expiries(lines []auditLine, session string) (n int) {
	for i := range lines {
		if lines[i].Session == session {
			n++
		}
	}
	return n
}
