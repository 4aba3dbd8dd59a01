package deploy

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// The packages are the same bytes when they are built again. The Debian package makes the user and the
// directory, keeps a configuration that was changed, and its program runs; the data outlive it. The tarball and
// the SBOM are complete.
func TestPackages(t *testing.T) {
	needs.Check(t, needs.Nightly)
	first, second := build(t), build(t)
	if a, b := text(t, filepath.Join(first, "SHA256SUMS")), text(t, filepath.Join(second, "SHA256SUMS")); a != b || strings.Count(a, "\n") != 5 {
		t.Errorf("the packages differ:\n%s\n%s", a, b)
	}
	t.Run("debian", func(t *testing.T) { tryDebian(t, one(t, first, "*.deb")) })
	t.Run("rpm", func(t *testing.T) { one(t, first, "*.rpm") }) // no system of the tests can install it
	t.Run("image", func(t *testing.T) { tryImage(t, one(t, first, "*.image.tar.gz")) })
	t.Run("tar", func(t *testing.T) { tryTarball(t, one(t, first, "*"+runtime.GOARCH+".tar.gz")) })
	t.Run("sbom", func(t *testing.T) { trySBOM(t, one(t, first, "*.cdx.json")) })
}

// build builds the packages of this machine, and returns their directory.
func build(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	s := &stack{env: append(os.Environ(), "OUT="+out, "TARGETS=linux/"+runtime.GOARCH, "MAKEFLAGS=")}
	if _, _, err := s.run(t.Context(), buildLimit, "make", "packages"); err != nil {
		t.Fatal(err)
	}
	return out
}

// one returns the only file that matches a pattern.
func one(t *testing.T, directory, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(directory, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v; want one", pattern, found, err)
	}
	return found[0]
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tryDebian installs a package below a root of its own, runs it, and removes it.
func tryDebian(t *testing.T, deb string) {
	if os.Geteuid() != 0 {
		t.Fatal("only root can install the Debian package: run this suite as root")
	}
	listing, _, err := new(stack).run(t.Context(), patience, "dpkg-deb", "--contents", deb)
	for _, want := range []string{"docs/configuration.md", "docs/commands/see.md", "deploy/alerts.yml"} {
		if !strings.Contains(listing, " ./usr/share/doc/rollcall/"+want+"\n") || err != nil {
			t.Errorf("the package lacks %s, %v:\n%s", want, err, listing)
		}
	}
	root := t.TempDir()
	in := func(path string) string { return filepath.Join(root, path) }
	for _, directory := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info", "var/log", "etc"} {
		if err := os.MkdirAll(in(directory), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(in("var/lib/dpkg/status"), nil, 0o644), os.Chmod(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) string {
		t.Helper()
		// The scripts run outside of the root, which has no shell; DPKG_ROOT tells them where it is.
		args = append([]string{"--root=" + root, "--force-script-chrootless", "--force-depends", "--force-confold"}, args...)
		out, errs, err := new(stack).run(t.Context(), patience, "dpkg", args...)
		if err != nil {
			t.Fatal(err)
		}
		return out + errs
	}

	if out := dpkg("--install", deb); !strings.Contains(out, "write /etc/rollcall/zoo.cfg, then: systemctl enable --now rollcall") {
		t.Errorf("dpkg printed %s", out)
	}
	var user []string
	for line := range strings.Lines(text(t, in("etc/passwd"))) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); fields[0] == "rollcall" {
			user = fields
		}
	}
	info, err := os.Stat(in("var/lib/rollcall"))
	if err != nil || user == nil || info.Mode() != os.ModeDir|0o700 || user[5] != "/var/lib/rollcall" {
		t.Fatalf("user %v, data directory %v, %v", user, info, err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner == 0 || user[2] != fmt.Sprint(owner) {
		t.Errorf("the data directory belongs to %d, and the user is %s", owner, user[2])
	}
	if text(t, in("usr/lib/systemd/system/rollcall.service")) != text(t, "../../deploy/systemd/rollcall.service") {
		t.Error("the unit is another one")
	}

	cfg := in("etc/rollcall/zoo.cfg")
	runPackaged(t, in("usr/bin/rollcall"), in("var/lib/rollcall"), cfg)
	if err := os.WriteFile(cfg, []byte(text(t, cfg)+"# changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := dpkg("--install", deb); !strings.Contains(out, "systemctl restart rollcall, on one machine after the other") {
		t.Errorf("dpkg printed %s", out)
	}
	if !strings.HasSuffix(text(t, cfg), "# changed\n") {
		t.Error("an upgrade has overwritten zoo.cfg")
	}
	dpkg("--remove", "rollcall")
	dpkg("--purge", "rollcall")
	for path, stays := range map[string]bool{"usr/bin/rollcall": false, "etc/rollcall/zoo.cfg": false, "var/lib/rollcall/rollcall": true} {
		if _, err := os.Stat(in(path)); (err == nil) != stays {
			t.Errorf("after a purge: %s: %v", path, err)
		}
	}
}

// runPackaged runs a member as the unit does, but on free ports, until it serves.
func runPackaged(t *testing.T, program, data, cfg string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, "serve", "-data", data, "-client", "127.0.0.1:0", "-set", "admin.serverPort=0", cfg)
	cmd.Stderr = log
	p := process.Start(t, "rollcall", cmd, func() string { return text(t, path) })
	until(t, "the packaged member serves", func() bool { return strings.Contains(text(t, path), `msg="clients are served"`) })
	if err := p.SendSignal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, err := p.ExitStatus(t.Context()); err != nil || status != 0 {
		t.Errorf("status %d, %v", status, err)
	}
}

// tryImage loads the archive into the container engine. The configuration of its image is that of deploy/Dockerfile, and its program
// runs.
func tryImage(t *testing.T, archive string) {
	docker := func(args ...string) string {
		t.Helper()
		out, _, err := new(stack).run(t.Context(), patience, "docker", args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	loaded := docker("load", "--quiet", "--input", archive)
	name := strings.TrimPrefix(loaded, "Loaded image: ")
	t.Cleanup(func() {
		if _, _, err := new(stack).run(context.Background(), patience, "docker", "image", "rm", name); err != nil {
			t.Error(err)
		}
	})
	if out := docker("run", "--rm", name, "version"); !strings.HasPrefix(out, "rollcall ") {
		t.Errorf("the image's program printed %s", out)
	}
	const settings = "{{.Config.User}} {{.Config.Healthcheck.Test}} {{.Config.Healthcheck.Interval}} {{.Config.Cmd}} {{len .Config.Env}} {{len .Config.ExposedPorts}} {{.Config.Volumes}}"
	if got, want := docker("image", "inspect", "--format", settings, name), "1000:1000 [CMD /rollcall health] 3s [serve] 7 4 map[/data:{}]"; got != want {
		t.Errorf("the image has %s, want %s", got, want)
	}
}

// tryTarball looks for the files in a tarball.
func tryTarball(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	directory := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0 {
			t.Errorf("%s belongs to %d:%d and has mode %o", h.Name, h.Uid, h.Gid, h.Mode)
		}
		names = append(names, strings.TrimPrefix(h.Name, directory+"/"))
		if strings.HasSuffix(h.Name, "/man/rollcall-serve.1") {
			page, err := io.ReadAll(r)
			if err != nil || !strings.Contains(string(page), "run one member") {
				t.Errorf("the page of serve: %v\n%.500s", err, page)
			}
		}
	}
	for _, want := range []string{"rollcall", "LICENSE", "LICENSES.txt", "zoo.cfg", "rollcall.service", "man/rollcall-serve.1", "completions/rollcall.bash", "docs/configuration.md", "deploy/alerts.yml"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
}

// neverShipped are modules that members do not need: the libraries that write manual pages, and those of the log that Rollcall once
// used, with an end-of-life etcd among them.
var neverShipped = regexp.MustCompile(`md2man|blackfriday|raft-wal|coreos/|benbjohnson/immutable`)

// trySBOM checks that every module of this repository's go.mod that is in the program is in the SBOM, with
// a licence.
func trySBOM(t *testing.T, path string) {
	var bom struct {
		BomFormat  string
		Components []struct {
			Name, Version string
			Licenses      []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal([]byte(text(t, path)), &bom); err != nil || bom.BomFormat != "CycloneDX" {
		t.Fatalf("%v, format %s", err, bom.BomFormat)
	}
	var names []string
	for _, c := range bom.Components {
		if len(c.Licenses) == 0 || c.Version == "" {
			t.Errorf("%s %s has no licence or no version", c.Name, c.Version)
		}
		names = append(names, c.Name)
	}
	for _, want := range []string{"std", "github.com/hashicorp/raft", "google.golang.org/grpc", "github.com/spf13/cobra"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
	for _, name := range names {
		if neverShipped.MatchString(name) {
			t.Errorf("%s is part of the program", name)
		}
	}
}
