package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/internal/keystore"
)

// certsIn runs the command in a directory.
func certsIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := runCommandLine(context.Background(), append([]string{"certs", "--out", dir}, args...), cli.IOStreams{Out: &out, Err: &out})
	return out.String(), err
}

// The command makes an authority and a key store for each host. Later calls add hosts to that authority. Keys can be
// read only by their owner, and the stores are what members and clients read.
func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	out, err := certsIn(t, dir, "--days", "30", "zk1.example,10.0.0.1", "zk2.example")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join([]string{"ca.pem", "ca.key", "zk1.example.pem", "zk2.example.pem", ""}, "\n"); strings.ReplaceAll(out, dir+"/", "") != want {
		t.Errorf("it prints\n%s", out)
	}
	if out, err = certsIn(t, dir, "app"); err != nil || out != filepath.Join(dir, "app.pem")+"\n" {
		t.Errorf("a further host: %q, %v", out, err)
	}
	for name, names := range map[string][]string{"zk1.example": {"zk1.example", "10.0.0.1"}, "zk2.example": {"zk2.example"}, "app": {"app"}} {
		path := filepath.Join(dir, name+".pem")
		k, err := keystore.Open(keystore.Options{Key: keystore.Store{Location: path}, Trust: keystore.Store{Location: filepath.Join(dir, "ca.pem")}})
		if err != nil {
			t.Fatal(err)
		}
		leaf := k.Certificate().Leaf
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			for _, host := range names {
				if err := k.Verify([]*x509.Certificate{leaf}, usage, host); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if got := keystore.JavaSubject(leaf); got != "CN="+name {
			t.Errorf("the subject of %s is %s", name, got)
		}
		days := map[bool]int{true: 30, false: defaultHostDays}[name != "app"]
		if got := time.Until(leaf.NotAfter).Round(oneDay); got != time.Duration(days)*oneDay {
			t.Errorf("%s is valid for %v, want %d days", name, got, days)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "ca.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("ca.key: %v, %v", info.Mode(), err)
	}
}

// Nothing is overwritten, and what is wrong leaves no file behind.
func TestCertsRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	if _, err := certsIn(t, dir, "zk1"); err != nil {
		t.Fatal(err)
	}
	before := listing(t, dir)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"zk2", "zk1"}, "zk1.pem exists, and nothing is overwritten"},
		{[]string{"ca"}, "ca.pem exists"},
		{[]string{"zk2", "zk2"}, "would be written twice"},
		{[]string{"zk2", "../zk3"}, `"../zk3" is neither a DNS name nor an address`},
		{[]string{"*.example"}, "must be a whole one"},
		{[]string{"--days", "0", "zk2"}, "--days 0 must be 1 to 36500"},
		{[]string{"--ca-days", "40000", "zk2"}, "--ca-days 40000 must be 1 to 36500"},
		{nil, "hosts"},
	} {
		if _, err := certsIn(t, dir, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.args, err, tt.want)
		}
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the directory has %s, and had %s", after, before)
	}
	for _, name := range []string{"ca.pem", "ca.key"} {
		path := filepath.Join(dir, name)
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := certsIn(t, dir, "zk2"); err == nil || !strings.Contains(err.Error(), "one of the two cannot be read") {
			t.Errorf("without %s: %v", name, err)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
}

// An authority in a directory that another user can change could be his. Whoever trusted a certificate that it
// signed would trust him.
func TestCertsAmongOthers(t *testing.T) {
	prepare := map[string]func(dir string) error{
		"other users may write in the directory": func(dir string) error { return os.Chmod(dir, 0o777) },
	}
	if os.Geteuid() == 0 { // only root can give files away
		prepare["belongs to the user 65534"] = func(dir string) error { return os.Chown(dir, stranger, stranger) }
	}
	for want, others := range prepare {
		dir := filepath.Join(t.TempDir(), "made")
		if _, err := certsIn(t, dir, "decoy"); err != nil {
			t.Fatal(err)
		}
		before := listing(t, dir)
		if err := others(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := certsIn(t, dir, "zk1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if after := listing(t, dir); after != before {
			t.Errorf("the directory has %s, and had %s", after, before)
		}
		below := filepath.Join(dir, "below")
		if _, err := certsIn(t, below, "zk1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a directory to be made: %v, want %s", err, want)
		}
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
