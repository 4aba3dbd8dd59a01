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

// certify returns what gives each member a certificate for its host, m1 for member 1.
func certify(t *testing.T) func(cfg *member.Config) {
	t.Helper()
	ca, err := authority.New("members", time.Now(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := ca.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) keystore.Store {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return keystore.Store{Location: path}
	}
	trusted := write("ca.pem", cert)
	return func(cfg *member.Config) {
		own, err := ca.Issue([]string{fmt.Sprintf("m%d", cfg.ID)}, time.Now(), 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Trust = trust.Settings{ShowCertificates: true, Certificates: trust.Certificates{KeyStore: write(fmt.Sprintf("m%d.pem", cfg.ID), own), TrustStore: trusted}}
	}
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
