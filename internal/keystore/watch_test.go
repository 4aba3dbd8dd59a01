package keystore

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/logs/logtest"
)

var bigOne = big.NewInt(1)

// Watch takes up whatever replaces a file: other bytes in it, and a symbolic link that leads elsewhere, as
// in a volume of Kubernetes. What cannot be used is logged once, and changes nothing.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := newAuthority(t, "authority")
		issue := func(name string) []byte {
			cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * day)})
			return append(cert, key...)
		}
		for _, directory := range []string{"first", "second"} {
			if err := os.Mkdir(filepath.Join(dir, directory), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, directory), "one.pem", issue(directory))
		}
		link := filepath.Join(dir, "data")
		if err := os.Symlink("first", link); err != nil {
			t.Fatal(err)
		}
		var log logtest.Buffer
		var changes atomic.Int32
		k, err := Open(Options{Prefix: "ssl", Key: Store{Location: filepath.Join(link, "one.pem")}, Log: slog.New(slog.NewTextHandler(&log, nil)), OnChange: func() { changes.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Watch(ctx)
		after := func(n int, want string, logged int) {
			t.Helper()
			time.Sleep(time.Duration(n)*WatchInterval + reloadDelay)
			synctest.Wait()
			if got := k.Certificate().Leaf.Subject.CommonName; got != want {
				t.Errorf("the certificate is %s, want %s", got, want)
			}
			if got := strings.Count(log.String(), "\n"); got != logged {
				t.Errorf("%d lines of log, want %d:\n%s", got, logged, &log)
			}
		}
		after(3, "first", 0)
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("second", link); err != nil {
			t.Fatal(err)
		}
		after(1, "second", 1)
		path := filepath.Join(dir, "second")
		third := issue("third")
		write(t, path, "one.pem", third[:len(third)/2])
		after(3, "second", 2)
		write(t, path, "one.pem", third)
		after(2, "third", 3)
		write(t, path, "one.pem", third[:100])
		after(1, "third", 4)
		write(t, path, "one.pem", third)
		after(2, "third", 4)
		if !strings.Contains(log.String(), "keys not reloaded") || !strings.Contains(log.String(), `msg="keys reloaded" keys=ssl.*`) {
			t.Errorf("the log is\n%s", &log)
		}
		if n := changes.Load(); n != 2 { // to the second and to the third
			t.Errorf("%d changes were told, want 2", n)
		}
	})
}

// A certificate of an authority whose clock is ahead is taken up when it is valid, and logged once before.
func TestWatchTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := newAuthority(t, "authority")
		issue := func(name string, from time.Duration) {
			cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(100 * 24 * time.Hour)})
			write(t, dir, "key.pem", cert, key)
		}
		issue("first", -time.Hour)
		var log logtest.Buffer
		k, err := Open(Options{Prefix: "ssl", Key: Store{Location: filepath.Join(dir, "key.pem")}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Watch(ctx)
		issue("second", 3*WatchInterval)
		for _, step := range []struct {
			wait time.Duration
			want string
			says string
		}{
			{2*WatchInterval + reloadDelay, "first", "keys not reloaded"},
			{2 * WatchInterval, "second", "keys reloaded"},
			{2 * WatchInterval, "second", ""},
		} {
			before := log.String()
			time.Sleep(step.wait)
			synctest.Wait()
			if got := k.Certificate().Leaf.Subject.CommonName; got != step.want {
				t.Errorf("the certificate is %s, want %s", got, step.want)
			}
			if got := log.String()[len(before):]; strings.Count(got, "\n") != min(1, len(step.says)) || !strings.Contains(got, step.says) {
				t.Errorf("the log is %q, want one line with %q", got, step.says)
			}
		}
	})
}

// A file that is looked at while it is being written counts as it is a moment later. The part of a trust
// store would be taken for the whole.
func TestWatchHalfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first, second := newAuthority(t, "first"), newAuthority(t, "second")
		path := write(t, dir, "trust.pem", pemOf("CERTIFICATE", first.cert.Raw), pemOf("CERTIFICATE", second.cert.Raw))
		var changes atomic.Int32
		k, err := Open(Options{Trust: Store{Location: path}, OnChange: func() { changes.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Watch(ctx)
		time.Sleep(WatchInterval - time.Millisecond)
		write(t, dir, "trust.pem", pemOf("CERTIFICATE", first.cert.Raw))
		time.Sleep(reloadDelay / 2)
		write(t, dir, "trust.pem", pemOf("CERTIFICATE", first.cert.Raw), pemOf("CERTIFICATE", second.cert.Raw))
		time.Sleep(2 * WatchInterval)
		synctest.Wait()
		if n := changes.Load(); n != 0 {
			t.Errorf("%d changes were told, want none", n)
		}
	})
}

// With Fixed, Watch leaves another certificate alone, also one that Reload has found too early. Reload uses it.
func TestWatchFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := newAuthority(t, "authority")
		issue := func(name string, from time.Duration) {
			cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(100 * day)})
			write(t, dir, "key.pem", cert, key)
		}
		issue("first", -time.Hour)
		k, err := Open(Options{Prefix: "ssl", ReloadOnDemandOnly: true, Key: Store{Location: filepath.Join(dir, "key.pem")}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Watch(ctx)
		issue("second", 2*WatchInterval)
		k.ReloadAndLog() // too early
		time.Sleep(4*WatchInterval + reloadDelay)
		synctest.Wait()
		if got := k.Certificate().Leaf.Subject.CommonName; got != "first" {
			t.Errorf("Watch has read %s, want first", got)
		}
		k.ReloadAndLog()
		if got := k.Certificate().Leaf.Subject.CommonName; got != "second" {
			t.Errorf("the certificate is %s after Reload, want second", got)
		}
	})
}

// Reload reports a change, and a broken file changes nothing.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t, "authority")
	cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "one"}})
	path := write(t, dir, "one.pem", cert, key)
	k, err := Open(Options{Key: Store{Location: path}})
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := k.Reload(); changed || err != nil {
		t.Errorf("Reload of the same: %t, %v", changed, err)
	}
	cert, key = a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "two"}})
	write(t, dir, "one.pem", cert, key)
	if changed, err := k.Reload(); !changed || err != nil {
		t.Errorf("Reload of another: %t, %v", changed, err)
	}
	write(t, dir, "one.pem", cert)
	if changed, err := k.Reload(); changed || err == nil {
		t.Errorf("Reload without a key: %t, %v", changed, err)
	}
	if got := k.Certificate().Leaf.Subject.CommonName; got != "two" {
		t.Errorf("the certificate is %s, want two", got)
	}
}
