package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/operator/backup"
	"rollcall/znode"
)

// sampleFile is a backup of six nodes.
const sampleFile = "../operator/backup/testdata/version-1.backup"

// sampleName is the name that it has in a directory.
const sampleName = "rollcall-20260102T030405Z-7.backup"

func sampleBackup(t *testing.T) []byte {
	t.Helper()
	file, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A backup that arrives whole is in a file of the name that was given, in a directory under its own name, or on
// standard output, and is the same everywhere.
func TestBackupSave(t *testing.T) {
	f, token, dir := newFakeMember(t), tokenFile(t), t.TempDir()
	f.backup = sampleBackup(t)
	named, other := filepath.Join(dir, "mine.backup"), filepath.Join(dir, "of today")
	for _, tt := range []struct{ target, file string }{{named, named}, {other, other}, {dir, filepath.Join(dir, sampleName)}, {"-", ""}} {
		out, errs, err := f.execute(t, nil, "backup", "save", "--token-file", token, "--rate", "5", tt.target)
		if err != nil {
			t.Fatalf("%s: %v", tt.target, err)
		}
		got := out.Bytes()
		if tt.file != "" {
			if !strings.Contains(out.String(), tt.file) || !strings.Contains(out.String(), "index 7 of term 3, zxid 0x300000009") {
				t.Errorf("%s: it prints %s", tt.target, out)
			}
			if got, err = os.ReadFile(tt.file); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, f.backup) || errs.Len() > 0 {
			t.Errorf("%s: %d bytes, %d were sent; %s", tt.target, len(got), len(f.backup), errs)
		}
		if asked := f.requests(); len(asked) != 1 || asked[0] != "GET /v1/backup?rate=5 Bearer abcdefghijklmnop" {
			t.Errorf("%s: asked %q", tt.target, asked)
		}
	}
	if names := filesIn(t, dir); len(names) != 3 {
		t.Errorf("there are %q", names)
	}
	for _, format := range []string{"json", "yaml"} {
		out, _, err := f.execute(t, nil, "backup", "save", "-o", format, "--token-file", token, filepath.Join(dir, format+backup.Suffix))
		if err != nil || !strings.Contains(out.String(), "index") {
			t.Errorf("%s: %s %v", format, out, err)
		}
		if format == "json" {
			checkSchema(t, "backup save", out.String())
		}
	}
}

// Every command that writes a file or a directory takes its name with --out. --file is another name of it where it was the first one.
func TestOut(t *testing.T) {
	f, token, dir := newFakeMember(t), tokenFile(t), t.TempDir()
	f.backup = sampleBackup(t)
	for _, tt := range []struct{ line, file string }{
		{"backup save --token-file TOKEN --out DIR/a", "a"},
		{"backup save --token-file TOKEN -out DIR/b -o json", "b"},
		{"support-bundle --token-file TOKEN --out DIR/c.tar.gz", "c.tar.gz"},
		{"support-bundle --token-file TOKEN --file DIR/d.tar.gz", "d.tar.gz"},
		{"dump / --hosts MEMBER --out DIR/e", "e"},
		{"dump / --hosts MEMBER --file DIR/f", "f"},
	} {
		line := strings.NewReplacer("TOKEN", token, "DIR", dir, "MEMBER", memberAddr).Replace(tt.line)
		if _, _, err := f.execute(t, nil, strings.Fields(line)...); err != nil {
			t.Errorf("%s: %v", tt.line, err)
		}
		if _, err := os.Stat(filepath.Join(dir, tt.file)); err != nil {
			t.Errorf("%s: %v", tt.line, err)
		}
	}
	for line, want := range map[string]string{
		"backup save --out x y": `backup save: unexpected argument "x"; it takes a file, a directory, or - for standard output`,
		"backup save":           "backup save: an argument is missing; it takes a file, a directory, or - for standard output",
	} {
		if _, _, err := f.execute(t, nil, strings.Fields(line)...); StatusOf(err) != UsageError || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// A backup that is not whole leaves no file, and the error says why.
func TestBackupSaveFails(t *testing.T) {
	whole := sampleBackup(t)
	full := func(w *IOStreams) { w.OutTerminal = true }
	for _, tt := range []struct {
		name, target string
		sent         []byte
		refusal      int
		prepare      func(*IOStreams)
		status       Status
		want         string
	}{
		{"cut", "DIR", whole[:900], 0, nil, Failed, "cut short at byte 900"},
		{"cut in the head", "DIR", whole[:9], 0, nil, Failed, "cut short at byte 9"},
		{"nothing", "DIR", []byte{}, 0, nil, Failed, "nothing was saved"},
		{"changed", "DIR", append(append([]byte{}, whole[:900]...), make([]byte, 400)...), 0, nil, Failed, "checksum"},
		{"another answer", "DIR", []byte("<html>"), 0, nil, Failed, "not a backup"},
		{"joining", "DIR", nil, 503, nil, Unavailable, "is joining"},
		{"without credentials", "DIR", nil, 401, nil, Denied, "--token-file"},
		{"no such directory above", "DIR/a/b.backup", whole, 0, nil, Failed, "no such file or directory"},
		{"no such directory", "DIR/nix/", whole, 0, nil, UsageError, "there is no such directory; make it, or leave out the slash at the end for a new file"},
		{"cut, under any name", "DIR/nix", whole[:900], 0, nil, Failed, "cut short at byte 900"},
		{"a file that exists", sampleFile, whole, 0, nil, Failed, "there is such a file already"},
		{"to a terminal", "-", whole, 0, full, UsageError, "no text for a terminal"},
	} {
		f, dir := newFakeMember(t), t.TempDir()
		f.backup, f.refusal = tt.sent, tt.refusal
		_, _, err := f.execute(t, tt.prepare, "backup", "save", strings.Replace(tt.target, "DIR", dir, 1))
		if err == nil || StatusOf(err) != tt.status || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: status %d, %v; want %d, %q", tt.name, StatusOf(err), err, tt.status, tt.want)
		}
		if names := filesIn(t, dir); len(names) > 0 {
			t.Errorf("%s: left are %q", tt.name, names)
		}
	}
}

// unconfirmedBackup returns the sample as a member without a leader makes it.
func unconfirmedBackup(t *testing.T) []byte {
	t.Helper()
	in, err := backup.NewReader(bytes.NewReader(sampleBackup(t)))
	if err != nil {
		t.Fatal(err)
	}
	in.Head.Confirmed = false
	var file bytes.Buffer
	out, err := backup.NewWriter(&file, in.Head)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A backup that no leader has confirmed is saved only with --unconfirmed, and the command says what it is.
func TestBackupSaveUnconfirmed(t *testing.T) {
	f, dir := newFakeMember(t), t.TempDir()
	f.backup = unconfirmedBackup(t)
	for _, target := range []string{dir, "-"} {
		out, _, err := f.execute(t, nil, "backup", "save", target)
		if StatusOf(err) != Unavailable || err == nil || !strings.Contains(err.Error(), "nothing was saved: no leader has confirmed") || !strings.Contains(err.Error(), "--unconfirmed") || out.Len() > 0 {
			t.Errorf("%s: status %d, %v, printed %q", target, StatusOf(err), err, out)
		}
		if names := filesIn(t, dir); len(names) > 0 {
			t.Errorf("%s: left are %q", target, names)
		}
	}
	const said = "no leader has confirmed this backup: it is as of 2026-01-02 03:04:04 UTC"
	out, errs, err := f.execute(t, nil, "backup", "save", "--unconfirmed", "-")
	if err != nil || !bytes.Equal(out.Bytes(), f.backup) || !strings.Contains(errs.String(), said) {
		t.Errorf("to the output: %v, %d bytes, %s", err, out.Len(), errs)
	}
	out, errs, err = f.execute(t, nil, "backup", "save", "--unconfirmed", dir)
	if err != nil || !strings.Contains(out.String(), "no leader has confirmed the backup") || !strings.Contains(errs.String(), said) || len(filesIn(t, dir)) != 1 {
		t.Errorf("to a directory: %v, %s%s", err, out, errs)
	}
	out, _, err = f.execute(t, nil, "backup", "verify", dir)
	if err != nil || !strings.Contains(out.String(), "yes    NO         2026-01-02 03:04:04 UTC") {
		t.Errorf("verified: %v, %s", err, out)
	}
}

// A rate that no member takes is refused before one is asked.
func TestBackupRate(t *testing.T) {
	f := newFakeMember(t)
	for _, rate := range []string{"0", "-1", "4097", "5MiB", ""} {
		_, _, err := f.execute(t, nil, "backup", "save", "--rate="+rate, t.TempDir())
		if want := fmt.Sprintf("backup save: --rate %q: must be a number from 1 to 4096", rate); StatusOf(err) != UsageError || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if asked := f.requests(); len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
}

// A disk that is full is the reason, and not the backup.
func TestBackupSaveToFullDisk(t *testing.T) {
	f := newFakeMember(t)
	f.backup = sampleBackup(t)
	_, _, err := f.execute(t, func(w *IOStreams) { w.Out = brokenPipe{} }, "backup", "save", "-")
	if err == nil || err.Error() != "backup save: no space left on device" {
		t.Errorf("%v", err)
	}
}

// brokenPipe is an output that takes nothing.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A member that sends nothing any more ends the command.
func TestBackupSaveFromSilentMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var why error
		l := idleTimeoutReader{body: r, cancel: func(err error) {
			why = err
			_ = w.CloseWithError(err)
		}}
		go func() { _, _ = w.Write([]byte("some")) }()
		text, err := io.ReadAll(&l)
		if string(text) != "some" || err == nil || why == nil || !strings.Contains(why.Error(), "nothing for 30s") {
			t.Errorf("%q, %v, %v", text, err, why)
		}
	})
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Verify prints a line for each backup in a directory, and fails if one of them is not sound.
func TestBackupVerify(t *testing.T) {
	f, dir, whole := newFakeMember(t), t.TempDir(), sampleBackup(t)
	if _, _, err := f.execute(t, nil, "backup", "verify", dir); err == nil || !strings.Contains(err.Error(), "ends in .backup") {
		t.Errorf("an empty directory: %v", err)
	}
	for name, text := range map[string][]byte{"a.backup": whole, "b.backup": whole[:900], "c.backup.1.part": whole[:9], "d.txt": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, err := f.execute(t, nil, "backup", "verify", dir, sampleFile)
	if !strings.Contains(errs.String(), dir+": not read: 2 files not ending in .backup\n") {
		t.Errorf("it says %q", errs)
	}
	if err == nil || StatusOf(err) != Failed || err.Error() != "backup verify: 1 of 3 backups cannot be used" {
		t.Errorf("%v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "yes") || !strings.HasPrefix(lines[2], "NO") || !strings.Contains(lines[2], "the backup is damaged: it is cut short at byte 900") || !strings.HasPrefix(lines[3], "yes") {
		t.Errorf("it prints\n%s", out)
	}
	damaged := bytes.Clone(whole)
	damaged[len(whole)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dir, "b.backup"), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, _ = f.execute(t, nil, "backup", "verify", filepath.Join(dir, "b.backup"))
	if size := FormatSize(int64(len(whole))); !strings.Contains(out.String(), "NO ") || !strings.Contains(out.String(), " "+size+" ") {
		t.Errorf("the size of a damaged file of %s is missing in\n%s", size, out)
	}
	if asked := f.requests(); len(asked) > 0 {
		t.Errorf("it asked a member: %q", asked)
	}
	if _, _, err := f.execute(t, nil, "backup", "verify", filepath.Join(dir, "nosuch")); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("no such file: %v", err)
	}
}

// Inspect reads standard input, too, and refuses a backup that is not sound.
func TestBackupInspect(t *testing.T) {
	f := newFakeMember(t)
	stdin := func(text []byte) func(*IOStreams) { return func(w *IOStreams) { w.In = bytes.NewReader(text) } }
	out, _, err := f.execute(t, stdin(sampleBackup(t)), "backup", "inspect", "--depth", "2", "--limit", "1", "-")
	if err != nil || !strings.Contains(out.String(), "/zookeeper\n") || strings.Contains(out.String(), "/app") {
		t.Errorf("%s, %v", out, err)
	}
	if _, _, err := f.execute(t, stdin(sampleBackup(t)[:700]), "backup", "inspect", "-"); !errors.Is(err, backup.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if _, _, err := f.execute(t, nil, "backup", "inspect", t.TempDir()); StatusOf(err) != UsageError || !strings.Contains(err.Error(), "is a directory, and inspect takes one file") {
		t.Errorf("a directory: %v", err)
	}
	for _, flag := range []string{"--depth=0", "--depth=17", "--limit=0", "--limit=10001"} {
		if _, _, err := f.execute(t, nil, "backup", "inspect", flag, sampleFile); StatusOf(err) != UsageError {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// Subtrees are added up level by level, and only the largest are kept.
func TestSubtrees(t *testing.T) {
	u := newSubtreeTotals(2, 3)
	add := func(path string, data int) {
		if err := u.addNode(znode.ImageNode{Path: path, Data: make([]byte, data)}); err != nil {
			t.Fatal(err)
		}
	}
	add("/", 5)
	for i := range 1000 {
		add(fmt.Sprintf("/a%03d", i), 1)
	}
	add("/b", 10)
	add("/b/c", 100)
	add("/b/c/d", 1000)
	add("/b/cc", 1)
	add("/c", 0)
	want := []subtreeRow{{"/b", 4, 0, 2 + 10 + 4 + 100 + 6 + 1000 + 5 + 1}, {"/b/c", 2, 0, 4 + 100 + 6 + 1000}, {"/a000", 1, 0, 6}}
	if got := u.largestSubtrees(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A backup is saved by way of a member of the ensemble, also if one that was removed comes first. The backup of a removed member is saved
// only if no other member answers, and --unconfirmed is given.
func TestBackupSavePassesOverRemovedMember(t *testing.T) {
	dir := t.TempDir()
	gone, present := newFakeMember(t), newFakeMember(t)
	gone.removed, gone.backup, present.backup = true, unconfirmedBackup(t), sampleBackup(t)
	both := func(w *IOStreams) { w.Env = []string{"ROLLCALL_ADMIN=" + gone.URL + "," + present.URL} }
	for _, tt := range []struct {
		name, flags string
		prepare     func(*IOStreams)
		saved       []byte // nil: nothing is
		status      Status
		said        string
	}{
		{"removed first", "", both, present.backup, OK, ""},
		{"removed first, any backup will do", "--unconfirmed", both, present.backup, OK, ""},
		{"removed alone", "", nil, nil, Unavailable, "was removed from the ensemble, so its state may be old"},
		{"removed alone, any backup will do", "--unconfirmed", nil, gone.backup, OK, "no leader has confirmed"},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
		line := append(strings.Fields("backup save "+tt.flags), "--token-file", tokenFile(t), file)
		_, errs, err := gone.execute(t, tt.prepare, line...)
		got, _ := os.ReadFile(file)
		said := errs.String()
		if err != nil {
			said += err.Error()
		}
		if StatusOf(err) != tt.status || !bytes.Equal(got, tt.saved) || !strings.Contains(said, tt.said) || tt.said == "" && said != "" {
			t.Errorf("%s: status %d, %d bytes; %s", tt.name, StatusOf(err), len(got), said)
		}
	}
	if names := filesIn(t, dir); len(names) != 3 {
		t.Errorf("left are %q", names)
	}
}
