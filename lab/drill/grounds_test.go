package drill

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/rollcalltest"
)

// One process at a time has the grounds. What it made below its chroots is removed, and nothing else.
func TestGrounds(t *testing.T) {
	srv := rollcalltest.Start(t)
	ctx := t.Context()
	g, err := takeGrounds(ctx, srv.ConnectString())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeGrounds(ctx, srv.ConnectString()); err == nil || !strings.Contains(err.Error(), "another drill runs") {
		t.Errorf("%v", err)
	}
	root, err := g.newChroot(ctx, "leader-kill-1")
	if err != nil {
		t.Fatal(err)
	}
	user, err := client.Dial(ctx, srv.ConnectString()+root, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a/b/c", "/a/d", "/e"} {
		if err := user.CreateAll(ctx, path, client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	user.Abandon()
	if roots, err := g.listLeftovers(ctx); err != nil || len(roots) != 1 || roots[0] != "/rollcall-drills/run-leader-kill-1" {
		t.Errorf("%q, %v", roots, err)
	}
	if err := g.removeAll(ctx); err != nil {
		t.Fatal(err)
	}
	all, err := client.Dial(ctx, srv.ConnectString(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Abandon()
	if names, _, err := all.Children(ctx, "/"); err != nil || len(names) != 1 {
		t.Errorf("%q are left, %v", names, err)
	}
	again, err := takeGrounds(ctx, srv.ConnectString())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.removeAll(ctx); err != nil {
		t.Error(err)
	}
}

// If a run that crashed has left nodes in the tree, the error names the command that removes them.
func TestLeftovers(t *testing.T) {
	srv := rollcalltest.Start(t)
	ctx, servers := t.Context(), srv.ConnectString()
	crashed, err := takeGrounds(ctx, servers)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := crashed.newChroot(ctx, "leader-kill-1"); err != nil {
		t.Fatal(err)
	}
	crashed.chroots = nil
	if err := crashed.removeAll(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = Config{Target: &fakeTarget{server: servers}, AmongOthers: true}.Check(ctx)
	if err == nil || !strings.Contains(err.Error(), `"rollcall drill heal --hosts `+servers+`"`) {
		t.Errorf("Check after a crash: %v", err)
	}
	if removed, err := RemoveLeftovers(ctx, servers); err != nil || len(removed) != 1 {
		t.Errorf("removed %q, %v", removed, err)
	}
}

// An ensemble that does not reply is named at the limit.
func TestGroundsOfSilentEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := RemoveLeftovers(t.Context(), "127.0.0.1:1")
		if err == nil || !strings.Contains(err.Error(), "at 127.0.0.1:1 within 1m0s") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != connectLimit {
			t.Errorf("it took %v", took)
		}
	})
}

// What cannot be removed is an error, and is not among what was removed.
func TestLeftoversStay(t *testing.T) {
	srv := rollcalltest.Start(t)
	ctx, servers := t.Context(), srv.ConnectString()
	c, err := client.Dial(ctx, servers, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	for _, path := range []string{groundsPrefix + "goes/a", groundsPrefix + "stays/a"} {
		if err := c.CreateAll(ctx, path, client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.SetACL(ctx, groundsPrefix+"stays", []client.ACL{{Permissions: client.PermRead, Identity: client.Anyone}}, client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	removed, err := RemoveLeftovers(ctx, servers)
	if len(removed) != 1 || removed[0] != groundsPrefix+"goes" || err == nil ||
		!strings.Contains(err.Error(), groundsPrefix+"stays is not removed") {
		t.Errorf("removed %q, %v", removed, err)
	}
}
