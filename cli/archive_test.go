package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/archive"
	"rollcall/operator/archive/archivetest"
	"rollcall/operator/backup"
	"rollcall/operator/past/pasttest"
	"rollcall/znode"
)

// archivedWorld is the night of pastWorld in an archive. It returns the archive's directory, and streams of commands that open it.
func archivedWorld(t *testing.T) (w *pastWorld, dir string, run func(line string) (out, errs string, err error)) {
	w, dir = newPastWorld(t), t.TempDir()
	archivetest.Fill(t, archive.NewDirectory(dir), w.Ensemble)
	return w, dir, func(line string) (out, errs string, err error) {
		streams, stdout, stderr := testWorld("ROLLCALL_HOSTS=127.0.0.1:1", "ROLLCALL_ADMIN=http://127.0.0.1:1")
		streams.Now, streams.OpenKeptLog = w.now, OpenKeptLog
		err = runArgs(t.Context(), streams, splitLine(line)...)
		return stdout.String(), stderr.String(), err
	}
}

// archivedEntries returns the only object with entries of an archive.
func archivedEntries(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, archivetest.LogName, "entries", "*"))
	if err != nil || len(all) != 1 {
		t.Fatalf("%q, %v", all, err)
	}
	return all[0]
}

// Commands that show the past read an archive, and need no server.
func TestArchiveShowsThePast(t *testing.T) {
	_, dir, run := archivedWorld(t)
	for _, tt := range []struct{ line, want string }{
		{"get /locks/backup --at 2026-11-27T03:12:00Z --archive ", "night"},
		{"get /locks/backup --archive ", "morning"},
		{"sessions --at 2026-11-27T03:12:00Z --archive ", "10.0.0.7:41234"},
		{"changes --archive ", "expire session"},
		{"diff --from 2026-11-27T03:12:00Z /locks --archive ", "/locks/backup/lock-0000000000"},
	} {
		for _, name := range []string{dir, dir + "/", filepath.Join(dir, archivetest.LogName)} {
			out, errs, err := run(tt.line + name)
			if err != nil || !strings.Contains(out, tt.want) || !strings.Contains(errs, "from "+name) {
				t.Errorf("%s%s: %v, %s%s", tt.line, name, err, out, errs)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(dir, archive.DiskLog(7)), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ line, want string }{
		{"get /locks --archive " + dir, "has 2 logs; name one of them: " + dir + "/disk-0000000000000007, " + dir + "/" + archivetest.LogName},
		{"get /locks --archive " + dir + " --dir d", "leave one of them out"},
		{"get /locks --archive " + t.TempDir(), "has no log"},
		{"get /locks --archive /nowhere/at/all", "does not exist"},
		{"get /locks --archive s3://X/y", "s3://bucket/prefix"},
		{"changes --follow --archive " + dir, "leave out --dir and --archive"},
		{"get /locks --at 0x100000009 --archive " + filepath.Join(dir, archivetest.LogName), "the newest moment that can be built is"},
	} {
		if out, _, err := run(tt.line); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q; %s", tt.line, err, tt.want, out)
		}
	}
}

// archive verify prints a row for each part without a gap, and with damage names the object and ends with status 1.
func TestArchiveVerify(t *testing.T) {
	_, dir, run := archivedWorld(t)
	out, errs, err := run("archive verify -o json " + dir)
	var rows []archiveRow
	if jerr := json.Unmarshal([]byte(out), &rows); err != nil || jerr != nil || len(rows) != 1 || !rows[0].Sound || errs != "" {
		t.Fatalf("%v, %v: %s%s", err, jerr, out, errs)
	}
	checkSchema(t, "archive verify", out)
	if r := rows[0]; r.Entries < 10 || r.Objects != 1 || r.ToZxid != "0x100000008" || r.Log != archivetest.LogName {
		t.Errorf("%+v", r)
	}
	name := archivedEntries(t, dir)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, err = run("archive verify " + dir)
	if err == nil || StatusOf(err) != Failed || !strings.Contains(err.Error(), "the archive is damaged") {
		t.Errorf("damaged: %v", err)
	}
	if !strings.Contains(out, "NO") || !strings.Contains(errs, name) || !strings.Contains(errs, "cannot be built") {
		t.Errorf("damaged: %s%s", out, errs)
	}
}

// A gap has status 1, and names the moments that cannot be built. A log of which nothing is there yet is none.
func TestArchiveVerifyFindsGaps(t *testing.T) {
	w, dir, run := archivedWorld(t)
	if err := os.Mkdir(filepath.Join(dir, archive.DiskLog(7)), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, errs, err := run("archive verify " + dir); err != nil || !strings.Contains(errs, "disk-0000000000000007 has neither entries nor a whole snapshot") {
		t.Errorf("an empty log: %v, %s", err, errs)
	}
	first := archivedEntries(t, dir)
	missed := ""
	for _, path := range []string{"/missed", "/later"} {
		w.Connect("10.0.0.3:1").Create(path, "", 0)
		archivetest.Fill(t, archive.NewDirectory(dir), w.Ensemble)
		if all, err := filepath.Glob(filepath.Join(dir, archivetest.LogName, "entries", "*")); err == nil && missed == "" {
			missed = all[slices.IndexFunc(all, func(name string) bool { return name != first })]
		}
	}
	if err := os.Remove(missed); err != nil {
		t.Fatal(err)
	}
	out, errs, err := run("archive verify " + filepath.Join(dir, archivetest.LogName))
	if StatusOf(err) != Failed || !strings.Contains(errs, "has a gap after entry") {
		t.Errorf("a gap: %v, %s%s", err, out, errs)
	}
	if out, _, err := run("changes --from 2026-11-20T03:12:00Z --archive " + filepath.Join(dir, archivetest.LogName)); !strings.Contains(fmt.Sprint(err), "entries of the log are missing after entry") {
		t.Errorf("changes up to the gap: %v, %s", err, out)
	}
}

// backup save --at saves the state at each zxid of an archive, and the backup has the digest that the members had then.
func TestSavePast(t *testing.T) {
	w, dir, run := archivedWorld(t)
	to := t.TempDir()
	for zxid, digest := range w.digests {
		file := filepath.Join(to, fmt.Sprint(zxid))
		out, _, err := run(fmt.Sprintf("backup save --at 0x%x --archive %s %s", zxid, dir, file))
		if err != nil || !strings.Contains(out, "from a kept log") {
			t.Fatalf("zxid 0x%x: %v, %s", zxid, err, out)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		h, _, err := backup.Verify(f)
		if err != nil || h.Zxid != zxid || h.Digest != backup.FormatDigest(digest) || f.Close() != nil {
			t.Errorf("zxid 0x%x: %+v, %v; want digest %016x", zxid, h, err, digest)
		}
	}
	if len(w.digests) < 6 {
		t.Errorf("%d zxids", len(w.digests))
	}
	if _, _, err := run("backup save --at 0x100000009 --archive " + dir + " " + filepath.Join(to, "late")); err == nil || StatusOf(err) != NotFound {
		t.Errorf("a moment after the archive: %v", err)
	}
	if entries, err := os.ReadDir(to); err != nil || len(entries) != len(w.digests) {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

// A state of the past is read as often as a restore needs it, and is the same each time.
func TestPastBackupIsReadTwice(t *testing.T) {
	w, dir, _ := archivedWorld(t)
	streams, _, _ := testWorld()
	streams.Now, streams.OpenKeptLog = w.now, OpenKeptLog
	p := NewPastBackup(streams)
	p.flags.Archive, p.flags.at = dir, "2026-11-27T03:12:00Z"
	source, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var paths []string
		h, err := source.Read(znode.ImageVisitor{Node: func(n znode.ImageNode) error { paths = append(paths, n.Path); return nil }})
		if text := strings.Join(paths, " "); err != nil || h.Nodes != len(paths) || !strings.Contains(text, "/locks/backup/lock-0000000000") {
			t.Errorf("%+v, %v: %s", h, err, text)
		}
	}
	p.flags.Archive = ""
	if _, err := p.Requested(); err == nil || !strings.Contains(err.Error(), "--at needs --archive or --dir") {
		t.Errorf("no place: %v", err)
	}
}

// A subtree of a moment of an archive is written into an ensemble that runs, at every zxid as it was then.
func TestSubtreeOfThePast(t *testing.T) {
	streams, s := nodeWorld(t)
	streams.Now, streams.OpenKeptLog = func() time.Time { return testNow }, OpenKeptLog
	e := pasttest.New(t, at0312.UnixMilli())
	c := e.Connect("10.0.0.7:1")
	for i, b := range s.Root + "/" {
		if b == '/' && i > 0 {
			c.Create(s.Root[:i], "", 0)
		}
	}
	c.Create(s.FullPath("/app"), "", 0)
	wants := map[int64]string{}
	for i := range 5 {
		zxid := c.Set(s.FullPath("/app"), fmt.Sprint("value ", i))
		wants[zxid] = fmt.Sprint("value ", i)
		c.Create(s.FullPath(fmt.Sprint("/app/", i)), "", 0)
	}
	dir := t.TempDir()
	archivetest.Fill(t, archive.NewDirectory(dir), e)
	for zxid, want := range wants {
		out, errs, err := restoreTree(t, streams, "--subtree", "/app", "--delete", "--yes", "--at", fmt.Sprintf("0x%x", zxid), "--archive", dir)
		if err != nil {
			t.Fatalf("zxid 0x%x: %v, %s%s", zxid, err, out, errs)
		}
		data, _, err := s.Client.Get(t.Context(), s.FullPath("/app"))
		children, _, cerr := s.Client.Children(t.Context(), s.FullPath("/app"))
		if err != nil || cerr != nil || string(data) != want || fmt.Sprint("value ", len(children)) != want {
			t.Errorf("zxid 0x%x: %q with %q, want %q", zxid, data, children, want)
		}
	}
	_, _, err := restoreTree(t, streams, "--subtree", "/none", "--yes", "--archive", dir)
	if err == nil || StatusOf(err) != Conflict || !strings.Contains(err.Error(), "the state after zxid 0x") {
		t.Errorf("a subtree that is not there: %v", err)
	}
}

// A zxid may be in the middle of an entry of the log. The backup of it has the transactions up to that one.
func TestSaveWithinAnEntry(t *testing.T) {
	e := pasttest.New(t, at0312.UnixMilli())
	c := e.Connect("10.0.0.7:1")
	last := e.Apply(c.CreateTxn("/a", "", 0), c.CreateTxn("/b", "", 0), c.CreateTxn("/c", "", 0))
	dir := t.TempDir()
	archivetest.Fill(t, archive.NewDirectory(dir), e)
	streams, _, _ := testWorld()
	streams.Now, streams.OpenKeptLog = func() time.Time { return testNow }, OpenKeptLog
	for i, want := range []string{"/ /a /b /c", "/ /a /b", "/ /a"} {
		file := filepath.Join(t.TempDir(), "saved.backup")
		if err := runArgs(t.Context(), streams, "backup", "save", "--at", fmt.Sprintf("0x%x", last-int64(i)), "--archive", dir, file); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		h, _, err := backup.Read(f, znode.ImageVisitor{Node: func(n znode.ImageNode) error {
			if !strings.HasPrefix(n.Path, "/zookeeper") {
				paths = append(paths, n.Path)
			}
			return nil
		}})
		if err != nil || h.Zxid != last-int64(i) || strings.Join(paths, " ") != want || f.Close() != nil {
			t.Errorf("zxid 0x%x: %+v, %v: %q, want %q", last-int64(i), h, err, paths, want)
		}
	}
}
