package member_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/keystore"
	"rollcall/internal/keystore/authority"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/operator/view"
	"rollcall/quorum/trust"
)

// certifier makes the certificates of members, for their hosts: m1 for member 1.
type certifier struct {
	t         *testing.T
	authority *authority.Authority
	dir       string
	trusted   keystore.Store
}

func newCertifier(t *testing.T) *certifier {
	t.Helper()
	ca, err := authority.New("members", time.Now(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	c := &certifier{t: t, authority: ca, dir: t.TempDir()}
	c.trusted = c.write("ca.pem", cert)
	return c
}

func (c *certifier) write(name string, content []byte) keystore.Store {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return keystore.Store{Location: path}
}

// issue writes a member's key store with a certificate that is valid from now for some time.
func (c *certifier) issue(id uint32, valid time.Duration) keystore.Store {
	c.t.Helper()
	own, err := c.authority.Issue([]string{fmt.Sprintf("m%d", id)}, time.Now(), valid)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write(fmt.Sprintf("m%d.pem", id), own)
}

// certify gives a member a certificate, and lets members 1 to 9 come by themselves with theirs if any may.
func (c *certifier) certify(cfg *member.Config) {
	c.t.Helper()
	cfg.Trust = trust.Settings{
		ShowCertificates: true,
		Certificates:     trust.Certificates{KeyStore: c.issue(cfg.ID, 24*time.Hour), TrustStore: c.trusted},
	}
	cfg.SelfJoin.Hosts = []string{"m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"}
}

// certify returns what gives each member a certificate of one authority.
func certify(t *testing.T) func(cfg *member.Config) {
	t.Helper()
	return newCertifier(t).certify
}

// Two of three members are replaced by two others. Then all members start again at the same time, with the server
// lines with which each of them began. Their certificates prove them to each other: raft's configuration has the
// hosts that the lines do not have.
func TestReplacedMembersProveThemselvesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: certify(t)})
		e.Ready()
		for id := uint32(4); id <= 5; id++ {
			e.Add(id)
		}
		for id := uint32(4); id <= 5; id++ {
			replaceMember(t, e, 1, id-2, id)
		}
		e.Ready()
		for _, id := range e.Members() {
			e.Kill(id)
		}
		for _, id := range []uint32{1, 4, 5} {
			e.Boot(id)
		}
		e.Ready()
		e.Wait("all members to follow the list", time.Minute, func() bool { return e.Settled() && len(e.Members()) == 3 })
	})
}

// While a member is down, another one is replaced, and the one that has come in leads. The member that starts again
// does not know its host, asks the member that it knows for the list, and follows.
func TestReturningMemberLearnsHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: certify(t)})
		e.Ready()
		e.Kill(1)
		e.Add(4)
		replaceMember(t, e, 3, 2, 4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := e.Member(3).Operations().TransferLeadership(ctx, 4); err != nil {
			t.Fatal(err)
		}
		e.Boot(1)
		e.Ready()
	})
}

// replaceMember starts a member and puts it into the list in place of another one, which is killed at the end.
func replaceMember(t *testing.T, e *cluster.Ensemble, asked, old, id uint32) {
	t.Helper()
	e.Boot(id)
	change := serverlist.Change{Joining: e.ServerLine(id, false), Leaving: fmt.Sprint(old)}
	e.Wait("the change to be made", time.Minute, func() bool {
		_, err := e.Member(asked).Operations().ChangeMembers(t.Context(), admin.MembersChange{Change: change, Version: -1})
		return err == nil
	})
	e.Wait("raft's configuration to follow", time.Minute, func() bool {
		m, err := e.Member(asked).Operations().Members(t.Context())
		return err == nil && m.IsSettled() && slices.ContainsFunc(m.Servers, func(s view.Server) bool { return s.MemberID == id && s.IsVoter })
	})
	e.Kill(old)
}

// A new member whose certificate has expired does not come in. With a renewed one, which it reads while it runs, it comes in and votes. It
// goes on to vote when that one and a listed member's are renewed.
func TestRenewedCertificateComesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCertifier(t)
		e := cluster.Start(t, 3, comingByThemselves(t, func(cfg *member.Config) {
			if c.certify(cfg); cfg.ID == 4 {
				c.issue(4, time.Minute)
			}
		}))
		e.Ready()
		w := startWriter(t, e, 1, 2, 3)
		e.Add(4)
		e.Isolate(4)
		bootNew(e, 5)
		e.Boot(4)
		time.Sleep(2 * time.Minute)
		e.Rejoin(4)
		time.Sleep(30 * time.Second)
		if got := e.Members(); !slices.Equal(got, []uint32{1, 2, 3, 5}) {
			t.Errorf("the list has %v", got)
		}
		c.issue(4, time.Hour)
		awaitVoters(t, e, 1, 2, 3, 4, 5)
		c.issue(4, 2*time.Hour)
		c.issue(1, 2*time.Hour)
		time.Sleep(time.Minute)
		awaitVoters(t, e, 1, 2, 3, 4, 5)
		w.end(t, e, 1, 2, 3, 4, 5)
	})
}
