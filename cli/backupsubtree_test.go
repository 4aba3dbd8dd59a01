package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/backup"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const backupSession = 7<<56 + 1

// treeBackup writes a backup of these nodes, which have the path root before theirs, and of the nodes that every state has. It returns the file's name.
func treeBackup(t *testing.T, root string, nodes ...znode.ImageNode) string {
	t.Helper()
	all := []znode.ImageNode{{Path: "/"}, {Path: root}}
	for _, n := range nodes {
		n.Path = root + n.Path
		all = append(all, n)
	}
	all = append(all, znode.ImageNode{Path: "/zookeeper"}, znode.ImageNode{Path: "/zookeeper/config"}, znode.ImageNode{Path: "/zookeeper/quota"})
	h := znode.ImageHead{
		Index: 20, Zxid: 5<<32 + 9, Term: znode.Term{Term: 5, Leader: 7}, SessionCount: 1, NodeCount: uint64(len(all)),
		Members: []znode.MemberProgress{{ID: 7, Incarnation: 8, Format: znode.FormatLevel, HighestSession: backupSession}},
	}
	write := func(w io.Writer) (digest uint64) {
		t.Helper()
		iw, err := znode.NewImageWriter(w, h)
		if err == nil {
			err = iw.WriteSession(znode.Session{ID: backupSession, Timeout: 20 * time.Second})
		}
		for _, n := range all {
			if n.ACL == nil {
				n.ACL = jute.OpenACL
			}
			err = errors.Join(err, iw.WriteNode(n))
		}
		digest, cerr := iw.Close()
		if err = errors.Join(err, cerr); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "a.backup"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := backup.NewWriter(f, backup.Head{Index: h.Index, Term: 5, Zxid: h.Zxid, Nodes: len(all), Sessions: 1, Digest: backup.FormatDigest(write(io.Discard))})
	if err != nil {
		t.Fatal(err)
	}
	write(w)
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// savedApp is a subtree with all kinds of nodes.
func savedApp(t *testing.T, root string) string {
	readOnly := []jute.ACL{{Perms: jute.PermRead | jute.PermAdmin, ID: jute.OpenACL[0].ID}}
	return treeBackup(t, root,
		znode.ImageNode{Path: "/app", Data: []byte("of before"), Version: 3, CreateCount: 9},
		znode.ImageNode{Path: "/app/a", Data: []byte{}, ACL: readOnly},
		znode.ImageNode{Path: "/app/box", Container: true},
		znode.ImageNode{Path: "/app/lock", OwnerSession: backupSession},
		znode.ImageNode{Path: "/app/old", TTLMs: 60_000},
		znode.ImageNode{Path: "/app/old/below", Data: []byte("12345")},
		znode.ImageNode{Path: "/other"},
	)
}

// restoreTree runs rollcall backup restore --subtree, as package main has it, and returns what it prints.
func restoreTree(t *testing.T, w IOStreams, args ...string) (out, errs string, err error) {
	t.Helper()
	outs, warnings := new(bytes.Buffer), new(bytes.Buffer)
	w.Out, w.Err = outs, warnings
	format := NewOutput(w)
	r, moment := NewSubtreeRestore(w, format), NewPastBackup(w)
	cmd := &cobra.Command{Use: "restore", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, args []string) error {
		if asked, err := r.Requested(cmd.Flags()); err != nil || !asked {
			return err
		}
		if ofPast, err := moment.Requested(); err != nil || ofPast {
			return errors.Join(err, r.Run(cmd.Context(), "", moment.Open))
		}
		return r.Run(cmd.Context(), args[0], nil)
	}}
	r.Register(cmd)
	moment.Register(cmd)
	format.Register(cmd)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return outs.String(), warnings.String(), err
}

func wantPrinted(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: printed\n%s\nwant\n%s", what, got, want)
	}
}

// The command writes a subtree of a backup into a running ensemble: it creates missing nodes, changes those that differ,
// and with --delete removes those that the backup lacks. A dry run shows the same and changes nothing. After the restore
// there is nothing left to change. Ephemeral nodes are left out, also those that stand where the backup has other nodes.
func TestSubtreeRestore(t *testing.T) {
	w, s := nodeWorld(t)
	file := savedApp(t, s.Root)
	mustRun(t, w, "create /app now")
	mustRun(t, w, "create /app/a")
	mustRun(t, w, "create -p /app/new/below 12")
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/app/mine"), nil, client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	const changes = "ACTION  BYTES  PATH\nset       9 B  /app\nset       0 B  /app/a\nacl       0 B  /app/a\ncreate    0 B  /app/box\ncreate    0 B  /app/old\ncreate    5 B  /app/old/below\n"
	const deletes = "leave     0 B  /app/mine\ndelete    0 B  /app/new/below\ndelete    0 B  /app/new\n"
	before, _, _ := dumpOf(t, s)
	for args, want := range map[string]string{"": changes, "--delete": changes + deletes} {
		out, errs, err := restoreTree(t, w, append(splitLine(args), "--subtree", "/app", "--dry-run", file)...)
		if err != nil {
			t.Fatal(err)
		}
		wantPrinted(t, "dry run "+args, out, want)
		deleted, left := 0, 0
		if args != "" {
			deleted, left = 2, 1
		}
		wantPrinted(t, "dry run "+args, errs, "rollcall: backup restore: left out 1 ephemeral node, which belongs to a session\n"+
			"rollcall: "+planSummary("the subtree of the backup", subtree.LoadResult{Nodes: 5, Skipped: 1, Created: 3, Set: 2, ACLs: 1, Deleted: deleted, LeftAlone: left})+"\n")
		if now, _, _ := dumpOf(t, s); now != before {
			t.Errorf("a dry run has changed\n%s\nto\n%s", before, now)
		}
	}
	out, _, err := restoreTree(t, w, "--subtree", "/app", "--yes", "-o", "json", file)
	if err != nil || !strings.Contains(out, `"created": 3`) || !strings.Contains(out, `"deleted": 0`) || !strings.Contains(out, `"skipped": 1`) {
		t.Fatalf("%s, %v", out, err)
	}
	checkSchema(t, "backup restore --subtree", out)
	if out, _, err = restoreTree(t, w, "--subtree", "/app", "--delete", "--yes", file); err != nil || !strings.Contains(out, "deleted  2\n") {
		t.Errorf("%s, %v", out, err)
	}
	out, _, err = restoreTree(t, w, "--subtree", "/app", "--dry-run", "-o", "json", file)
	if err != nil || out != "[]\n" {
		t.Errorf("after all of it there is left: %s, %v", out, err)
	}
	checkSchema(t, "backup restore --subtree --dry-run", out)
	for path, want := range map[string]znode.NodeKind{"/app": znode.PlainNode, "/app/box": znode.ContainerNode, "/app/old": znode.TTLNode, "/app/mine": znode.EphemeralNode} {
		if kind := kindOf(s.FullPath(path)); kind != want {
			t.Errorf("%s is of kind %v, want %v", path, kind, want)
		}
	}
	if data, st, err := s.Get(t.Context(), "/app"); err != nil || string(data) != "of before" || st.Version != 1 {
		t.Errorf("%q, %+v, %v", data, st, err)
	}
	if got := mustRun(t, w, "acl /app/a"); got != "SCHEME  ID      PERMS\nworld   anyone  ra\n" {
		t.Errorf("the list is %s", got)
	}
}

func kindOf(path string) znode.NodeKind {
	state := oneMember.State()
	state.RLock()
	defer state.RUnlock()
	kind, _ := state.TreeView().KindOf(path)
	return kind
}

// dumpOf returns the nodes of a space.
func dumpOf(t *testing.T, s nodes.Space) (string, subtree.Summary, error) {
	t.Helper()
	var b bytes.Buffer
	sum, err := s.Dump(t.Context(), &b, "/", subtree.DumpOptions{IncludeEphemerals: true, OnRecord: func(*subtree.Record) {}, OnWarning: func(string, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	_, nodes, _ := strings.Cut(b.String(), "[\n")
	nodes, _, _ = strings.Cut(nodes, "\n]")
	return nodes, sum, err
}

// A subtree can be restored at another place, and the root with everything but the servers' own nodes.
func TestSubtreeRestoreElsewhere(t *testing.T) {
	w, s := nodeWorld(t)
	file := savedApp(t, s.Root)
	if _, _, err := restoreTree(t, w, "--subtree", "/app=/copy", "--yes", file); err != nil {
		t.Fatal(err)
	}
	if got, want := mustRun(t, w, "tree"), "/\n└── copy  (9 B)\n    ├── a\n    ├── box\n    └── old\n        └── below  (5 B)\n\n6 nodes, 0 of them ephemeral, 14 B of data\n"; got != want {
		t.Errorf("the tree is\n%s\nwant\n%s", got, want)
	}
	w.Env = []string{"ROLLCALL_HOSTS=" + memberAddr}
	out, _, err := restoreTree(t, w, "--subtree", "/", "--dry-run", file)
	if err != nil || strings.Contains(out, "/zookeeper") || !strings.Contains(out, s.Root+"/other") {
		t.Errorf("the root: %s, %v", out, err)
	}
}

// Without --yes, the command says how much it would change and asks for the word yes.
func TestSubtreeRestoreAsks(t *testing.T) {
	w, s := nodeWorld(t)
	file := savedApp(t, s.Root)
	w.InTerminal = true
	for _, tt := range []struct {
		answer string
		done   bool
	}{{"no\n", false}, {"", false}, {"yes\n", true}} {
		w.In = strings.NewReader(tt.answer)
		_, errs, err := restoreTree(t, w, "--subtree", "/app", file)
		if _, missing := s.Stat(t.Context(), "/app"); (err == nil) != tt.done || (missing == nil) != tt.done || !strings.Contains(errs, "Of 6 nodes in the subtree of the backup, 5 would be created") {
			t.Errorf("answer %q: %v, %v, asked %q", tt.answer, err, missing, errs)
		}
	}
	w.In = strings.NewReader("")
	if _, errs, err := restoreTree(t, w, "--subtree", "/app", file); err != nil || strings.Contains(errs, "yes") {
		t.Errorf("with nothing to change: %q, %v", errs, err)
	}
}

// What is wrong is named, and then nothing is changed.
func TestSubtreeRestoreRefuses(t *testing.T) {
	w, s := nodeWorld(t)
	file := savedApp(t, s.Root)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.backup")
	if err := os.WriteFile(cut, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   string
		status Status
		want   string
	}{
		{"--subtree app --yes " + file, UsageError, "it must be /path or /path=/target"},
		{"--subtree /app=copy --yes " + file, Conflict, "no node " + s.Root + "/app=copy"},
		{"--subtree /app=/ --yes " + cut, Failed, "cut short at byte"},
		{"--subtree /zookeeper --yes " + file, UsageError, "belongs to the servers"},
		{"--subtree /app=/zookeeper/config --yes " + file, UsageError, "for quotas name /zookeeper/quota"},
		{"--subtree /app " + file, UsageError, "there is no terminal to ask on"},
		{"--delete " + file, UsageError, "--delete is for --subtree"},
		{"--hosts a:1 " + file, UsageError, "--hosts is for --subtree"},
		{"--subtree /none --yes " + file, Conflict, "rollcall backup inspect shows what is in it"},
		{"--subtree /app/lock --yes " + file, Failed, "is an ephemeral node, which is not restored"},
		{"--subtree /app --yes " + t.TempDir(), UsageError, "no regular file"},
		{"--subtree /app --yes none.backup", UsageError, "none.backup"},
		{"--subtree /app=/x/y --yes " + file, NotFound, "rollcall create -p makes what is missing; nothing was changed"},
	} {
		_, _, err := restoreTree(t, w, splitLine(tt.args)...)
		if err == nil || StatusOf(err) != tt.status || !strings.HasPrefix(err.Error(), "backup restore: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: status %d, %v; want %d, %q", tt.args, StatusOf(err), err, tt.status, tt.want)
		}
	}
	if got := mustRun(t, w, "ls /"); got != "" {
		t.Errorf("there is %s", got)
	}
}

// A restore goes on to the next of --hosts if nobody listens at the first.
func TestSubtreeRestoreGoesOn(t *testing.T) {
	w, s := nodeWorld(t)
	w.Env = []string{"ROLLCALL_HOSTS=127.0.0.1:1," + memberAddr + s.Root}
	if _, errs, err := restoreTree(t, w, "--subtree", "/app", "--yes", savedApp(t, s.Root)); err != nil {
		t.Errorf("%v: %s", err, errs)
	}
}
