package formats

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/integration/wire"
	"rollcall/internal/formats"
	"rollcall/operator/backup"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// The files of a release.
const (
	directoriesFile = "directories.tar.gz" // data and archive of a member that was stopped
	backupFile      = "member.backup"
	stateFile       = "state.txt" // the text of the backup's state, which is the member's last one
	pastFile        = "past.txt"  // the states of the past, from the history and from the archive
)

// Every build starts a member on the directory of each release, and it serves the tree and the sessions that are in it. It
// reads the release's backup, its history and its archive.
func TestReleasedFiles(t *testing.T) {
	if formats.IsUpdating() {
		writeFiles(t, formats.DirectoryToUpdate(t))
	}
	for _, version := range formats.Releases(t) {
		t.Run(version, func(t *testing.T) {
			released := filepath.Join("testdata", version)
			state, dir := readFile(t, filepath.Join(released, stateFile)), t.TempDir()
			unpack(t, filepath.Join(released, directoriesFile), dir)
			t.Run("backup", func(t *testing.T) { checkBackup(t, filepath.Join(released, backupFile), state) })
			t.Run("past", func(t *testing.T) { checkPast(t, dir, readFile(t, filepath.Join(released, pastFile))) })
			t.Run("member", func(t *testing.T) { checkMember(t, dir, state) })
		})
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func checkBackup(t *testing.T, path, state string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var l lines
	if _, _, err := backup.Read(file, l.visitor()); err != nil || l.text() != state {
		t.Errorf("%v, the state is\n%s\nwant\n%s", err, l.text(), state)
	}
}

// checkPast builds the states at the moments that the release has built.
func checkPast(t *testing.T, dir, want string) {
	t.Helper()
	if got := pastOf(t, dir, momentsIn(t, want)); got != want {
		t.Errorf("the past is\n%s\nwant\n%s", got, want)
	}
}

// pastOf returns the text of the states at some moments.
func pastOf(t *testing.T, dir string, zxids []int64) string {
	t.Helper()
	kept := historyChains(t, dir)
	sent, _ := archiveChains(t, dir)
	return strings.Join(append(digestsOf(t, "history", kept, zxids), digestsOf(t, "archive", sent, zxids)...), "\n") + "\n"
}

// momentsIn returns the zxids in the lines of a text, ascending.
func momentsIn(t *testing.T, text string) (zxids []int64) {
	t.Helper()
	for line := range strings.Lines(text) {
		var name string
		var zxid int64
		if _, err := fmt.Sscanf(line, "%s zxid=0x%x", &name, &zxid); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		zxids = append(zxids, zxid)
	}
	slices.Sort(zxids)
	return slices.Compact(zxids)
}

// checkMember starts a member on the data, compares its state, and resumes the session that the release left open.
func checkMember(t *testing.T, dir, state string) {
	t.Helper()
	m, addr := startMember(t, dir)
	<-m.Ready()
	if got := textOf(t, m); got != state {
		t.Errorf("the state is\n%s\nwant\n%s", got, state)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c, session := wire.New(conn), sessionIn(t, state)
	resumed, err := c.Resume(session, 0)
	if err != nil || resumed.SessionID != session.SessionID {
		t.Fatalf("the session 0x%x was resumed as 0x%x, %v", session.SessionID, resumed.SessionID, err)
	}
	reply, _, err := c.Call(1, jute.OpGetData, jute.WatchedPath{Path: []byte("/app/live")})
	var got jute.GetDataResponse
	if err != nil || reply.Err != jute.OK || reply.Into(&got) != nil || string(got.Data) != "ephemeral" ||
		got.Stat.EphemeralOwner != session.SessionID {
		t.Errorf("the ephemeral node: %v, %+v, %v", reply, got, err)
	}
	reply, _, err = c.Call(2, jute.OpCreate, jute.CreateRequest{
		Path: []byte("/app/queue/n-"), ACL: jute.OpenACL, Flags: jute.PersistentSequential,
	})
	var created jute.PathRecord
	if err != nil || reply.Err != jute.OK || reply.Into(&created) != nil || string(created.Path) != "/app/queue/n-0000000002" {
		t.Errorf("the next number: %v, %q, %v", reply, created.Path, err)
	}
}

// sessionIn returns the session in the text of a state.
func sessionIn(t *testing.T, state string) (s jute.ConnectResponse) {
	t.Helper()
	var id uint64
	var timeout, password string
	if _, err := fmt.Sscanf(state, "session 0x%x timeout=%s password=%s", &id, &timeout, &password); err != nil {
		t.Fatal(err)
	}
	secret, err := hex.DecodeString(password)
	if err != nil {
		t.Fatal(err)
	}
	return jute.ConnectResponse{SessionID: jute.SessionID(id), Passwd: secret, TimeOut: int32(sessionTimeout.Milliseconds())}
}

// This build writes the state of the newest release's backup as that release did, byte by byte.
func TestNewestBackupIsWritten(t *testing.T) {
	released := readFile(t, filepath.Join("testdata", formats.Newest(t), backupFile))
	r, err := backup.NewReader(strings.NewReader(released))
	if err != nil {
		t.Fatal(err)
	}
	s := znode.New(znode.Config{ChangeHistory: 16 << 20})
	if err := s.RestoreSnapshot(r); err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	w, err := backup.NewWriter(&written, r.Head)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot().WriteTo(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || written.String() != released {
		t.Errorf("%v, this build writes\n%q\n%s wrote\n%q", err, written.String(), formats.Newest(t), released)
	}
}
