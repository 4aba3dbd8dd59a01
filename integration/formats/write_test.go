package formats

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/lab/process"
	"rollcall/operator/backup"
)

// sessionTimeout is the timeout of the client's session. It lasts until the member is stopped.
const sessionTimeout = time.Hour

// writeFiles runs a member with a client that writes, and leaves its files in the directory to. The member is built with
// constants that let the log have several segments: it fills them sooner, and keeps less before a snapshot.
func writeFiles(t *testing.T, to string) {
	t.Helper()
	dir := t.TempDir()
	binary, err := process.BuildHurried(filepath.Join("..", ".."), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, archiveName), 0o755), os.WriteFile(token, []byte("abcdefghijklmnop\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	e := process.StartEnsemble(t, process.Config{
		Binary: binary, Size: 1, Tick: time.Second, Lines: process.AnyHTTP + "snapCount=10\nmaxSessionTimeout=3600000\nzookeeper.extendedTypesEnabled=true\n" +
			"archive.to=" + filepath.Join(dir, archiveName) + "\narchive.seconds=1\nadmin.tokenFile=" + token + "\n",
	})
	m := e.Members[0]
	c := connect(t, m.Clients)
	if err := connect(t, m.Clients).Close(t.Context()); err != nil { // a session that has ended
		t.Fatal(err)
	}
	zxids := writeTree(t, c)
	waitUntil(t, "a snapshot in the archive", func() bool { return isThere(t, filepath.Join(dir, archiveName, "*", "states", "*")) })
	zxids = append(zxids, writeMuch(t, c)...)
	head, state := saveBackup(t, filepath.Join(to, backupFile), binary, "--admin", "unix:"+filepath.Join(m.Data, "admin.sock"), "--token-file", token)
	if last := zxids[len(zxids)-1]; head.Zxid != last {
		t.Fatalf("the backup has zxid 0x%x, want 0x%x", head.Zxid, last)
	}
	waitUntil(t, "the last entry in the archive", func() bool {
		_, end := archiveChains(t, dir)
		return end >= head.Index
	})
	waitUntil(t, "a compressed segment", func() bool { return isThere(t, filepath.Join(m.Data, "rollcall", "history", "*.zst")) })
	e.StopAll()
	c.Abandon()
	if err := os.Rename(m.Data, filepath.Join(dir, dataName)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{stateFile: state, pastFile: pastOf(t, dir, zxids)} {
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pack(t, dir, filepath.Join(to, directoriesFile), dataName, archiveName)
}

// saveBackup makes a backup of the member that flags name, and returns its head and the text of its state.
func saveBackup(t *testing.T, to, binary string, flags ...string) (backup.Head, string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, append([]string{"backup", "save", "-"}, flags...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var l lines
	head, _, err := backup.Read(bytes.NewReader(out), l.visitor())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, out, 0o644); err != nil {
		t.Fatal(err)
	}
	return head, l.text()
}

// waitUntil waits until ok returns true, up to a minute.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("a minute has passed without %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func connect(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), addr, client.Config{Timeout: sessionTimeout, Auth: []client.Auth{client.DigestAuth("user", "password")}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writeTree makes nodes of all kinds, and removes two. It returns the zxids of the creates, ascending.
func writeTree(t *testing.T, c *client.Client) (zxids []int64) {
	t.Helper()
	ctx := t.Context()
	create := func(path, data string, mode client.Mode) {
		t.Helper()
		_, stat, err := c.Create(ctx, path, []byte(data), mode)
		if err != nil {
			t.Fatalf("create %s: %v", path, err)
		}
		zxids = append(zxids, int64(stat.Created))
	}
	create("/app", "", client.Persistent)
	create("/app/config", "one", client.Persistent)
	create("/app/live", "ephemeral", client.Ephemeral)
	create("/app/container", "", client.Container)
	create("/app/container/child", "", client.Persistent)
	create("/app/ttl", "ttl", client.Persistent.WithTTL(1000*time.Hour))
	user := client.ACL{Permissions: client.PermAll, Identity: client.DigestIdentity("user", "password")}
	create("/app/secret", "secret", client.Persistent.WithACL(user))
	create("/app/queue", "", client.Persistent)
	create("/app/queue/n-", "0", client.PersistentSequential)
	create("/app/queue/n-", "1", client.PersistentSequential)
	create("/app/ünï", "\x00\xff", client.Persistent)
	if _, err := c.Multi(ctx, client.DeleteOp("/app/queue/n-0000000000", client.AnyVersion), client.SetOp("/app/queue", []byte("multi"), 0)); err != nil {
		t.Fatal(err)
	}
	create("/app/deleted", "", client.Persistent)
	if err := c.Delete(ctx, "/app/deleted", 0); err != nil {
		t.Fatal(err)
	}
	return zxids
}

// writeMuch writes so much that the log has several segments, and then so often that a snapshot needs none of them but the
// last. It returns the zxids of its writes, ascending.
func writeMuch(t *testing.T, c *client.Client) (zxids []int64) {
	t.Helper()
	for i := range 80 {
		data := []byte(strconv.Itoa(i))
		if i < 12 {
			data = bytes.Repeat([]byte{byte('a' + i)}, 40<<10)
		}
		stat, err := c.Set(t.Context(), "/app/config", data, client.AnyVersion)
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			zxids = append(zxids, int64(stat.Changed))
		}
	}
	return zxids
}

// isThere reports whether a file fits a pattern.
func isThere(t *testing.T, pattern string) bool {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(names) > 0
}
