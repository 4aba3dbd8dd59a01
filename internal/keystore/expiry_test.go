package keystore

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/logs/logtest"
)

// Watch warns when the own certificate has 30 days, 7 days and 1 day left, and when it has expired, also if files
// are not read again by it. A member that starts later warns once, and a certificate that is replaced warns no more.
func TestExpiryWarnings(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := newAuthority(t, "authority")
			issue := func(left time.Duration) []byte {
				cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "one"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left)})
				return append(cert, key...)
			}
			dir := t.TempDir()
			path := write(t, dir, "one.pem", issue(100*day))
			var log logtest.Buffer
			var ahead atomic.Int64 // the wall clock's, so that no test sleeps through a hundred days
			k, err := Open(Options{Prefix: "ssl.quorum", Key: Store{Location: path}, ReloadOnDemandOnly: fixed, Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var watch sync.WaitGroup
			watch.Go(func() { k.Watch(ctx) })
			defer watch.Wait()
			defer cancel()
			count := func(of string) int { return strings.Count(log.String(), of) }
			begun := time.Now()
			for _, step := range []struct {
				at         time.Duration // after the start
				soon, over int           // lines until then
			}{
				{70*day - time.Minute, 0, 0},
				{70*day + time.Minute, 1, 0},
				{93*day - time.Minute, 1, 0},
				{93*day + time.Minute, 2, 0},
				{99*day - time.Minute, 2, 0},
				{99*day + time.Minute, 3, 0},
				{100*day - time.Minute, 3, 0},
				{100*day + time.Minute, 3, 1},
				{102 * day, 3, 1},
			} {
				ahead.Store(int64(step.at - time.Since(begun)))
				time.Sleep(WatchInterval)
				synctest.Wait()
				if soon, over := count("expires soon"), count("has expired"); soon != step.soon || over != step.over {
					t.Fatalf("fixed %v, after %v: %d and %d warnings, want %d and %d:\n%s", fixed, step.at, soon, over, step.soon, step.over, &log)
				}
			}
			if want := "key=ssl.quorum.keyStore.location file=" + path; count(want) != 4 || count("left=168h0m0s") != 1 || count("clock=") != 1 {
				t.Errorf("no %q in each line of\n%s", want, &log)
			}
			write(t, dir, "one.pem", issue(365*day))
			k.ReloadAndLog()
			time.Sleep(2 * WatchInterval)
			if soon, over := count("expires soon"), count("has expired"); soon != 3 || over != 1 {
				t.Errorf("after the certificate was replaced: %d and %d warnings:\n%s", soon, over, &log)
			}
		})
	}
}

// However often certificates change, there is at most one warning in a day.
func TestExpiryWarnsOnceADay(t *testing.T) {
	e, now, warned := expiryWarner{}, time.Unix(1e9, 0), 0
	for range 24 * 60 { // a minute each
		now = now.Add(time.Minute)
		for _, left := range []time.Duration{29 * day, 3 * day} {
			if e.recordIfDue(now.Add(left), now) {
				warned++
			}
		}
	}
	if warned != 1 {
		t.Errorf("%d warnings in a day, want 1", warned)
	}
}

// Check reports what is wrong with every file, and what needs attention soon.
func TestCheck(t *testing.T) {
	dir, a := t.TempDir(), newAuthority(t, "authority")
	issue := func(left time.Duration) []byte {
		cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "one"}, NotBefore: time.Now().Add(-100 * day), NotAfter: time.Now().Add(left)})
		return append(cert, key...)
	}
	list := func(name string, until time.Duration) string {
		der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: bigOne, ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(until)}, a.cert, a.key)
		if err != nil {
			t.Fatal(err)
		}
		return write(t, dir, name, der)
	}
	fresh, soon := write(t, dir, "fresh.pem", issue(90*day)), write(t, dir, "soon.pem", issue(29*day))
	for _, tt := range []struct {
		name  string
		o     Options
		fatal []string
		mild  []string
	}{
		{"nothing", Options{}, nil, nil},
		{"all well", Options{Key: Store{Location: fresh}, CheckCRLs: true, CRLFile: list("now.pem", time.Hour)}, nil, nil},
		{"soon", Options{Key: Store{Location: soon}}, nil, []string{`p.keyStore.location=` + soon + `: the certificate of "CN=one" expires soon`}},
		{"an old list", Options{CheckCRLs: true, CRLFile: list("old.pem", -time.Minute)}, nil, []string{`the list of "CN=authority" is not current`}},
		{"all are missing", Options{Key: Store{Location: "a.pem"}, Trust: Store{Location: "b.pem"}, CheckCRLs: true, CRLFile: "c"}, []string{"p.keyStore.location=a.pem: no such file", "p.trustStore.location=b.pem: no such file", "p.crl.location=c: no such file"}, nil},
		{"no list", Options{CheckCRLs: true}, []string{"p.crl=true: lists of revoked certificates are read from a file"}, nil},
	} {
		tt.o.Prefix = "p"
		var fatal, mild []string
		for _, f := range CheckFiles(tt.o) {
			if f.IsWarning {
				mild = append(mild, f.Error())
			} else {
				fatal = append(fatal, f.Error())
			}
		}
		for _, of := range []struct{ got, want []string }{{fatal, tt.fatal}, {mild, tt.mild}} {
			if len(of.got) != len(of.want) {
				t.Errorf("%s: %q, want %q", tt.name, of.got, of.want)
				continue
			}
			for i := range of.got {
				if !strings.Contains(of.got[i], of.want[i]) {
					t.Errorf("%s: %q, want %q", tt.name, of.got[i], of.want[i])
				}
			}
		}
	}
}
