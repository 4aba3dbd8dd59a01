package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func writeText(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// checkOnly fails the test unless a directory has these files only.
func checkOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := listing(t, dir); got != strings.Join(want, " ") {
		t.Errorf("the directory has %q, want %q", got, want)
	}
}

// A report replaces an earlier one as a whole. If it fails, the earlier one stays, and nothing else.
func TestReportReplacesFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report")
	for _, text := range []string{"first", "second"} {
		if err := errors.Join(checkReportFile(path), writeReport(path, writeText(text))); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeReport(path, func(io.Writer) error { return errors.New("full") }); err == nil {
		t.Error("an error of the writer got lost")
	}
	if got, _ := os.ReadFile(path); string(got) != "second" {
		t.Errorf("the report has %q", got)
	}
	checkOnly(t, dir, "report")
}

// A device or a pipe, such as /dev/stdout and /dev/null, gets the report. It is not replaced by a file.
func TestReportToPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0) // a writer does not wait for it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if err := errors.Join(checkReportFile(path), writeReport(path, writeText("text"))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	n, err := reader.Read(got)
	if string(got[:n]) != "text" || err != nil {
		t.Errorf("the pipe got %q, %v", got[:n], err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is now %v, %v", info.Mode(), err)
	}
	checkOnly(t, dir, "pipe")
}

// A report through a link replaces the file that the link names.
func TestReportThroughLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if err := writeReport(link, writeText("new")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(file); string(got) != "new" {
		t.Errorf("the file has %q", got)
	}
	checkOnly(t, dir, "file", "link")
}

// A report through links to a file that is not there yet makes the file. The links stay.
func TestReportThroughDanglingLinks(t *testing.T) {
	dir := t.TempDir()
	link, linked := filepath.Join(dir, "link"), filepath.Join(dir, "linked")
	err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", linked), // a directory's
		os.Symlink("linked/link", link), os.Symlink("../file", filepath.Join(dir, "real", "link")))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(checkReportFile(link), writeReport(link, writeText("text"))); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "file")); string(got) != "text" {
		t.Errorf("the file has %q", got)
	}
	checkOnly(t, dir, "file", "link", "linked", "real")
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is now %v, %v", info.Mode(), err)
	}
}

// The check is about the directory that the report is written to, and not about that of a link to it. Nobody can make
// files in /proc.
func TestReportLinkIsChecked(t *testing.T) {
	for _, target := range []string{"/proc/version", "/proc/report"} {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if err := checkReportFile(link); err == nil || !strings.Contains(err.Error(), "no report can be written to "+target) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// Two reports do not go to one file, also by different names. A device can get both.
func TestReportsHaveFilesOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	err := checkReportFiles(reportFlag{"--report", link}, reportFlag{"--junit", ""}, reportFlag{"--json", file})
	if err == nil || !strings.Contains(err.Error(), "--report and --json name the same file") {
		t.Errorf("one file: %v", err)
	}
	for _, other := range []string{filepath.Join(dir, "other"), ""} {
		if err := checkReportFiles(reportFlag{"--report", file}, reportFlag{"--json", other}); err != nil {
			t.Errorf("%q: %v", other, err)
		}
	}
	if err := checkReportFiles(reportFlag{"--report", os.DevNull}, reportFlag{"--json", os.DevNull}); err != nil {
		t.Errorf("a device: %v", err)
	}
	checkOnly(t, dir, "link")
}

// Another user may have put a link beside a report, in a directory for all, to a file that is not theirs to write.
func TestReportBesidePlantedLink(t *testing.T) {
	dir := t.TempDir()
	precious, path := filepath.Join(t.TempDir(), "precious"), filepath.Join(dir, "report")
	if err := errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), os.Symlink(precious, path+".tmp")); err != nil {
		t.Fatal(err)
	}
	if err := writeReport(path, writeText("text")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(precious); string(got) != "precious" {
		t.Errorf("the file of the link has %q", got)
	}
}

// A path that cannot be written is an error before a drill or a survey begins.
func TestReportFileIsChecked(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "report")} {
		for _, command := range [][]string{{"drill", "silent-clients"}, {"proxy", "--", "true"}} {
			var stderr strings.Builder
			args := append([]string{command[0], "--json=" + path}, command[1:]...)
			err := runCommand(t.Context(), args, []string{"XDG_STATE_HOME=" + dir}, io.Discard, &stderr)
			if err == nil || !strings.Contains(err.Error(), path) || stderr.Len() > 0 {
				t.Errorf("%q: %v, %s", args, err, stderr.String())
			}
		}
	}
	checkOnly(t, dir)
}

// A report names nodes and shows what a program prints, so its owner alone may read it.
func TestReportsArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	if err := writeReport(path, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
