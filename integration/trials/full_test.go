package trials

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/quorum/disk"
	"rollcall/zk/jute"
)

// diskSize is the size of the disk that is filled, in bytes.
const diskSize = 8 << 20

// smallDisk is a disk of its own for a member. It is a tmpfs in a mount namespace that a process
// keeps open, and is gone after the test.
type smallDisk struct {
	t    *testing.T
	pid  int
	root string // the path under which other processes see the disk
}

func newSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs -o size=%d tmpfs %s && echo ready && exec cat", diskSize, dir)
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
	stdin, err := cmd.StdinPipe() // cat ends when it is closed
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	holder, err := process.Launch("holder of a disk", cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // Kill follows in case the process does not end
		holder.Kill()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		holder.Kill()
		t.Fatalf("no small disk: %v %s", err, said.String())
	}
	pid := cmd.Process.Pid
	return &smallDisk{t: t, pid: pid, root: filepath.Join(fmt.Sprintf("/proc/%d/root", pid), dir)}
}

// fill uses all space that is left, except some bytes.
func (d *smallDisk) fill(but int) {
	d.t.Helper()
	path := filepath.Join(d.root, "filler")
	f, err := os.Create(path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(zeros{}, 2*diskSize))
	if err == nil {
		d.t.Fatalf("%d bytes went onto a disk of %d", n, diskSize)
	}
	if err := f.Truncate(max(0, n-int64(but))); err != nil {
		d.t.Fatal(err)
	}
}

// free releases the space.
func (d *smallDisk) free() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.root, "filler")); err != nil {
		d.t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// newMember returns a member alone, with its directory on the disk.
func (d *smallDisk) newMember() *process.Member {
	d.t.Helper()
	m := &process.Member{ID: 1, Data: filepath.Join(d.root, "data"), Config: filepath.Join(d.t.TempDir(), "zoo.cfg")}
	clients := process.FreePort(d.t)
	m.Clients = clients.String()
	text := fmt.Sprintf("tickTime=%d\ndataDir=%s\nclientPortAddress=%s\nclientPort=%d\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
		tick.Milliseconds(), m.Data, clients.IP, clients.Port)
	if err := os.WriteFile(m.Config, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return m
}

// wears writes to a member until it ends, and checks the reason. It returns the path and the data
// of a node that may exist or not.
func wears(t *testing.T, r *run, want map[string]string) (path, data string) {
	t.Helper()
	r.settles(t)
	if conn, err := dial(r.Member); err == nil {
		defer conn.Close()
		for range 10 * diskSize / nodeSize {
			path, data = fmt.Sprintf("/n%d", len(want)), strings.Repeat(string(rune('a'+len(want)%26)), nodeSize)
			reply, _, err := conn.Call(1, jute.OpCreate, &jute.CreateRequest{Path: []byte(path), Data: []byte(data), ACL: jute.OpenACL})
			if err != nil {
				break
			}
			if reply.Err != jute.OK {
				t.Fatalf("create: %v", reply)
			}
			want[path] = data
		}
	}
	if !until(func() bool { return !r.proc.IsRunning() }) {
		t.Fatal("the member does not end")
	}
	text := strings.TrimSpace(r.printed())
	last := text[strings.LastIndex(text, "\n")+1:]
	if !strings.Contains(last, disk.ErrFull.Error()) || !strings.Contains(last, "Free space") || strings.Contains(last, "damaged") {
		t.Errorf("the member ended with: %s", last)
	}
	return path, data
}

const nodeSize = 1000 // bytes

// The disk of a member fills up with its writes. The member ends, and ends again when it is
// started, with the message that the disk is full. Once there is space, it starts and has
// everything that was acknowledged.
func TestFullDisk(t *testing.T) {
	needs.Check(t, needs.Usual)
	d := newSmallDisk(t)
	m, want := d.newMember(), map[string]string{}
	r := start(t, m)
	if !until(r.serves) {
		t.Fatal("the member does not serve")
	}
	d.fill(256 << 10)
	path, data := wears(t, r, want)
	if len(want) == 0 {
		t.Error("nothing was written before the disk was full")
	}
	d.free()
	d.fill(0)
	again, other := wears(t, start(t, m), want)
	d.free()
	if r = start(t, m); !until(r.serves) {
		t.Fatal("the member does not serve although there is space")
	}
	err := read(m, want)
	for _, maybe := range []map[string]string{{path: data}, {again: other}} {
		if err != nil { // the node of a write that was not acknowledged may be there, too
			maps.Copy(maybe, want)
			err = read(m, maybe)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
