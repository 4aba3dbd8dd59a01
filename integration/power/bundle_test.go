package power

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// bundle is the command that makes a bundle for support.
var bundle = command{
	name: "support-bundle", target: "support.tar.gz",
	args: func(s source, dir string) []string {
		return []string{"support-bundle", "--admin", "unix:" + filepath.Join(s.member.Data, "admin.sock"), "--token-file", s.token, "--out", filepath.Join(dir, "support.tar.gz")}
	},
}

// A bundle for support has its name only when it is whole, and when the command has succeeded it stays, whatever a loss of power
// leaves.
func TestBundleLosesPower(t *testing.T) { bundle.loses(t, saved(t)) }

// A command that makes a bundle, and is killed or finds no space, leaves no part of one under its name. The command can be
// repeated.
func TestBundleIsInterrupted(t *testing.T) {
	needs.Check(t, needs.Usual)
	s, dir := saved(t), t.TempDir()
	d := (&recorder{}).record(t, rollcall, dir, 1)
	makeBundle := func(at *place) (string, error) {
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		for _, name := range left {
			err = errors.Join(err, os.Remove(name))
		}
		if err != nil {
			t.Fatal(err)
		}
		d.format(t)
		d.setRefusal(at.refuses)
		defer d.setRefusal(nil)
		return output(t, d.Binary, d.Env, bundle.args(s, dir)...)
	}
	target := filepath.Join(dir, bundle.target)
	all := &place{recorded: d}
	if out, err := makeBundle(all); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else if err := isBundle(target); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0)), 1))
	for _, kind := range faults {
		failures, places := 0, sample(rng, all.calls, outages(t, 8))
		for _, n := range places {
			at := &place{recorded: d, fault: kind, n: n}
			out, failed := makeBundle(at)
			err := isBundle(target)
			if failed != nil {
				failures++
				if errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
				if parts, _ := filepath.Glob(target + ".*"); len(parts) > 0 && !kind.kills {
					err = errors.Join(err, fmt.Errorf("%v is left", parts))
				}
			}
			if err != nil {
				t.Errorf("%s at call %d of %d, %s; the command: %v; the bundle: %v\n%s", kind.name, n, all.calls, at.what, failed, err, out)
			}
		}
		fmt.Printf("power: %s: %s at %d of %d calls; the command failed %d times\n", t.Name(), kind.name, len(places), all.calls, failures)
		if failures == 0 {
			t.Errorf("%s: the command never failed", kind.name)
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	run(t, rollcall, nil, bundle.args(s, dir)...)
}

// isBundle returns an error unless a file is a whole bundle: its last file is MISSING.
func isBundle(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	last := ""
	for in := tar.NewReader(zip); ; last = path.Base(last) {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		last = head.Name
	}
	if _, err := io.Copy(io.Discard, zip); err != nil { // its checksum
		return err
	}
	if last != "MISSING" {
		return fmt.Errorf("the last file is %q", last)
	}
	return nil
}
