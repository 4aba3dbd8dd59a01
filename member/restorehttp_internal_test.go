package member

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/config"
	"rollcall/operator/admin"
)

// A backup that is restored is kept on the disk of the data, in a file that has no name there, and may take a share of
// what is free.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	m, stop := runAlone(t, Config{
		ID: 1, Servers: []Server{{ID: 1, GrpcAddr: "127.0.0.1:1", RaftAddr: "127.0.0.1:2"}}, ClientListener: listen(t),
		Settings: config.Settings{Dir: dir, Tick: 100 * time.Millisecond, MinTimeout: 400 * time.Millisecond, MaxTimeout: time.Minute}.WithDefaults(),
	})
	defer stop()
	o := operations{m: m}
	free, _, err := m.node.Disk().Free()
	most, rerr := o.maxSpoolSize()
	if err := errors.Join(err, rerr); err != nil || most < 1 || most > maxSpoolBytes || most > free {
		t.Fatalf("%d bytes for a backup, of %d: %v", most, free, err)
	}
	if most < maxSpoolBytes && (most > free/spoolFreeShare*2 || most < free/spoolFreeShare/2) { // others write to the disk, too
		t.Errorf("%d bytes for a backup, of %d", most, free)
	}
	file, err := o.spoolBody(t.Context(), admin.RestoreRequest{Body: strings.NewReader("a backup"), BodySize: 8}, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !strings.HasPrefix(file.Name(), dir) {
		t.Errorf("it is kept as %s", file.Name())
	}
	kept := make([]byte, 9)
	if n, err := file.ReadAt(kept, 0); string(kept[:n]) != "a backup" {
		t.Errorf("it has %q, %v", kept[:n], err)
	}
	if _, err := os.Stat(file.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has a name: %v", err)
	}
	for _, size := range []int64{8, -1} { // -1: the body is in chunks
		_, err := o.spoolBody(t.Context(), admin.RestoreRequest{Body: strings.NewReader("a backup"), BodySize: size}, 7)
		if f, ok := errors.AsType[*admin.Failure](err); !ok || f.Status != 413 || !strings.Contains(f.Text, "more than the 7 bytes that are available") {
			t.Errorf("a backup that is too large, of %d bytes: %v", size, err)
		}
	}
}
