package authority

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/internal/keystore"
)

const day = 24 * time.Hour

// A certificate is good for both sides of a connection and for each of its names, as package keystore reads
// it. The authority may have been read from its files.
func TestIssue(t *testing.T) {
	now := time.Now()
	a, err := New("rollcall", now, 365*day)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = ParsePEM(cert, key); err != nil {
		t.Fatal(err)
	}
	host, err := a.Issue([]string{"zk1.example.org", "10.0.0.1", "::1", "*.members"}, now, 1000*day)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own, ca := filepath.Join(dir, "host.pem"), filepath.Join(dir, "ca.pem")
	for path, text := range map[string][]byte{own: host, ca: cert} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, err := keystore.Open(keystore.Options{Key: keystore.Store{Location: own}, Trust: keystore.Store{Location: ca}})
	if err != nil {
		t.Fatal(err)
	}
	leaf := k.Certificate().Leaf
	if got := keystore.JavaSubject(leaf); got != "CN=zk1.example.org" {
		t.Errorf("the subject is %s", got)
	}
	if !leaf.NotAfter.Equal(a.cert.NotAfter) {
		t.Errorf("the certificate expires at %v, after its authority: %v", leaf.NotAfter, a.cert.NotAfter)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		for _, name := range []string{"zk1.example.org", "10.0.0.1", "::1", "a.members"} {
			if err := k.Verify([]*x509.Certificate{leaf}, usage, name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if k.Verify([]*x509.Certificate{leaf}, x509.ExtKeyUsageServerAuth, "zk2.example.org") == nil {
		t.Error("the certificate is good for another host")
	}
}

// What is no name of a host is refused.
func TestIssueRefuses(t *testing.T) {
	a, err := New("rollcall", time.Now(), day)
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{nil, {""}, {"a b"}, {"a", "../b"}, {"-a"}, {"a."}, {"fe80::1%eth0"}, {strings.Repeat("a", 64)}, {strings.Repeat("a.", 127) + "a"}} {
		if _, err := a.Issue(names, time.Now(), day); err == nil {
			t.Errorf("%q is a name", names)
		}
	}
}

// A certificate that cannot be signed is an error.
func TestTemplateIsNotSigned(t *testing.T) {
	a, err := New("rollcall", time.Now(), day)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.IssueFromTemplate(&x509.Certificate{SignatureAlgorithm: x509.SHA256WithRSA})
	if cert != nil || key != nil || err == nil || !strings.Contains(err.Error(), "SignatureAlgorithm") {
		t.Errorf("%v, %v, %v", cert, key, err)
	}
}

// Files that are not those of an authority are refused.
func TestReadRefuses(t *testing.T) {
	a, err := New("a", time.Now(), day)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New("b", time.Now(), day)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, _ := a.PEMFiles()
	_, other, _ := b.PEMFiles()
	host, err := a.Issue([]string{"host"}, time.Now(), day)
	if err != nil {
		t.Fatal(err)
	}
	hostCert := host[strings.Index(string(host), "-----BEGIN CERTIFICATE"):]
	for _, tt := range []struct {
		cert, key []byte
		want      string
	}{
		{cert, other, "the key does not belong to the certificate"},
		{hostCert, host, "the certificate is not an authority's"},
		{key, key, "certificate: there is no CERTIFICATE in PEM"},
		{cert, cert, "key: there is no PRIVATE KEY in PEM"},
		{nil, nil, "certificate: there is no"},
	} {
		if _, err := ParsePEM(tt.cert, tt.key); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
