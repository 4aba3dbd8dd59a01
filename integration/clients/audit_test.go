package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// auditLine is a line of an audit log, without what the test cannot know before.
type auditLine struct {
	Operation, Path, Type, ACL, Target, Result, Error, Address, Session, Zxid string
	Who                                                                       []string
}

// text returns the line as the test expects it, with the name of its session.
func (l *auditLine) text(names map[string]string) string {
	words := []string{names[l.Session], l.Operation, l.Path, l.Type, l.ACL, l.Target, strings.Join(l.Who, "+"), l.Error}
	if l.Result != "success" {
		words = append(words, l.Result)
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

func auditLines(t *testing.T, m *process.Member) (lines []auditLine) {
	t.Helper()
	text, err := os.ReadFile(m.Audit)
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(text)) {
		var l auditLine
		if err := json.Unmarshal([]byte(row), &l); err != nil {
			t.Fatalf("member %d: %v in %q", m.ID, err, row)
		}
		lines = append(lines, l)
	}
	return lines
}

// The audit logs of three members list the requests of clients: each change and each attempt once, in the order in which
// they were made, in the log of the member that served the client. Changes without a client are in the leader's log.
func TestAuditLogs(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: tick, Audited: true, Lines: noElections})
	leader := e.Settle()
	others := slices.DeleteFunc(slices.Clone(e.Members), func(m *process.Member) bool { return m == leader })
	near, far := others[0], others[1]
	names := map[string]string{}
	name := func(session int64, name string) { names[jute.SessionID(session).String()] = name }

	bob, err := dialGo(limited(t), seat{hosts: []string{near.Clients}}, sessionTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer bob.Close()
	name(bob.sid, "bob")
	audited(t, bob)

	ann, session := openFrom(t, near, "", longTimeout)
	name(int64(session.SessionID), "ann")
	call(t, ann, jute.OpCreate, create("/ann", []byte("MARKER"), jute.Ephemeral))
	_ = ann.Close()
	wrong := session
	wrong.Passwd = []byte("MARKER of 16 B..")
	if answer, err := dialFrom(t, far, "").Resume(wrong, 0); err == nil && answer.SessionID != 0 {
		t.Fatalf("resumed with a wrong password: %+v", answer)
	}
	ann = dialFrom(t, far, "")
	if answer, err := ann.Resume(session, 0); err != nil || answer.SessionID != session.SessionID {
		t.Fatalf("not resumed: %+v, %v", answer, err)
	}
	call(t, ann, jute.OpCloseSession, nil)
	bob.Close()

	eve, granted := openFrom(t, near, "", 3*tick)
	name(int64(granted.SessionID), "eve")
	call(t, eve, jute.OpCreate, create("/eve", nil, jute.Ephemeral))
	call(t, eve, jute.OpGetData, jute.GetDataRequest{Path: []byte("/audit/locked")})
	call(t, eve, jute.OpSetData, jute.SetDataRequest{Path: []byte("/audit/locked"), Version: -1})
	call(t, eve, jute.OpAuth, jute.AuthPacket{Scheme: []byte("nonsense"), Auth: []byte("MARKER")}) // it closes the connection
	err = process.Until(t.Context(), "eve's session expires", func() bool {
		return slices.ContainsFunc(auditLines(t, leader), func(l auditLine) bool { return l.Operation == "expireSession" })
	})
	if err != nil {
		t.Fatal(err)
	}
	e.StopAll() // with the last lines
	for _, want := range []struct {
		m     *process.Member
		lines []string
	}{
		{near, []string{
			"serverStart", "bob createSession",
			"bob create /audit persistent digest:bob",
			"bob create /audit/e ephemeral digest:bob",
			"bob create /audit/s-0000000001 persistent_sequential digest:bob",
			"bob create /audit persistent digest:bob unchanged",
			"bob setData /audit digest:bob",
			"bob setData /audit digest:bob bad version failure",
			"bob delete /audit/none digest:bob no node failure",
			"bob delete /audit/s-0000000001 digest:bob",
			"bob create /audit/locked persistent digest:bob",
			"bob setAcl /audit/locked digest:bob:cdrwa digest:bob",
			"bob create /audit/m persistent digest:bob",
			"bob setData /audit/m digest:bob",
			"bob delete /audit/m digest:bob",
			"bob multiOperation /audit/none digest:bob no node failure",
			"ann createSession",
			"ann create /ann ephemeral",
			"bob closeSession digest:bob",
			"eve createSession",
			"eve create /eve ephemeral",
			"eve setData /audit/locked not authorized failure",
			"eve authenticate nonsense authentication failed failure",
			"serverStop invoked",
		}},
		{far, []string{"serverStart", "ann resumeSession authentication failed failure", "ann resumeSession", "ann closeSession", "serverStop invoked"}},
		{leader, []string{
			"serverStart",
			"ann ephemeralZNodeDeletionOnSessionCloseOrExpire /ann",
			"bob ephemeralZNodeDeletionOnSessionCloseOrExpire /audit/e",
			"eve ephemeralZNodeDeletionOnSessionCloseOrExpire /eve",
			"eve expireSession",
			"serverStop invoked",
		}},
	} {
		compareAudit(t, want.m, names, want.lines)
	}
	if !t.Failed() {
		fmt.Println("client scenario: audit ok")
	}
}

// audited does all kinds of changes as bob. Some of them fail, and reads leave no line.
func audited(t *testing.T, c *goClient) {
	t.Helper()
	world, own := zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "bob", "MARKER")
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fails := func(_ any, err error) {
		t.Helper()
		if err == nil {
			t.Fatal("nothing is wrong")
		}
	}
	must(nil, c.AddAuth("digest", []byte("bob:MARKER")))
	must(c.Create("/audit", []byte("MARKER"), 0, world))
	must(c.Create("/audit/e", nil, zk.FlagEphemeral, world))
	must(c.Create("/audit/s-", nil, zk.FlagSequence, world))
	fails(c.Create("/audit", nil, 0, world))
	must(c.Set("/audit", []byte("MARKER"), 0))
	fails(c.Set("/audit", nil, 0))
	fails(nil, c.Delete("/audit/none", -1))
	must(nil, c.Delete("/audit/s-0000000001", -1))
	must(c.Create("/audit/locked", nil, 0, world))
	must(c.SetACL("/audit/locked", own, -1))
	must(c.Multi(
		&zk.CreateRequest{Path: "/audit/m", Acl: world}, &zk.SetDataRequest{Path: "/audit/m", Version: -1},
		&zk.CheckVersionRequest{Path: "/audit/m", Version: 1}, &zk.DeleteRequest{Path: "/audit/m", Version: -1},
	))
	fails(c.Multi(&zk.CreateRequest{Path: "/audit/n", Acl: world}, &zk.DeleteRequest{Path: "/audit/none", Version: -1}))
	_, _, err := c.Get("/audit")
	must(nil, err)
	must(c.Sync("/audit"))
}

// compareAudit compares the audit log of a member with the expected lines. The zxids rise, no line has a password or
// data, and each line about a client's request has the client's address.
func compareAudit(t *testing.T, m *process.Member, names map[string]string, want []string) {
	t.Helper()
	var got []string
	last := uint64(0)
	for _, l := range auditLines(t, m) {
		if names[l.Session] == "" {
			l.Who = nil // the user of the process
		} else if l.Address != "127.0.0.1" && l.Operation != "ephemeralZNodeDeletionOnSessionCloseOrExpire" {
			t.Errorf("member %d: the address of %s is %q", m.ID, l.Operation, l.Address)
		}
		got = append(got, l.text(names))
		if l.Zxid == "" {
			continue
		}
		zxid, err := strconv.ParseUint(l.Zxid, 0, 64)
		if err != nil || zxid < last {
			t.Errorf("member %d: the zxid of %s is %s, and that before it %#x", m.ID, l.Operation, l.Zxid, last)
		}
		last = zxid
	}
	if !slices.Equal(got, want) {
		t.Errorf("member %d has\n%s\nwant\n%s", m.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text, err := os.ReadFile(m.Audit); err != nil || strings.Contains(string(text), "MARKER") {
		t.Errorf("member %d: a password or data is in the audit log: %v", m.ID, err)
	}
}
