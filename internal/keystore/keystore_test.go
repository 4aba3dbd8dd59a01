package keystore

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Stores of openssl and of Java's keytool hold the same key and certificate in every format.
func TestKeyStores(t *testing.T) {
	want, err := Open(Options{Prefix: "ssl", Key: Store{Location: "testdata/member.pem"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Store{
		{Location: "testdata/member.pem", Password: "is not used"},
		{Location: "testdata/member.pem", Type: "pem"},
		{Location: "testdata/sec1.pem"},
		{Location: "testdata/encrypted.pem", Password: "secret"},
		{Location: "testdata/encrypted-sha512.pem", Password: "secret"},
		{Location: "testdata/openssl.p12", Password: "secret"},
		{Location: "testdata/openssl-legacy.p12", Password: "secret"},
		{Location: "testdata/keytool.p12", Password: "secret"},
		{Location: "testdata/keytool.p12", Password: "secret", Type: "jks"},
		{Location: "testdata/keytool.jks", Password: "secret"},
		{Location: "testdata/keytool.jks", Password: "secret", Type: "PKCS12"},
	} {
		k, err := Open(Options{Prefix: "ssl", Key: s, Trust: Store{Location: "testdata/authority.pem"}})
		if err != nil {
			t.Errorf("%+v: %v", s, err)
			continue
		}
		got := k.Certificate()
		if len(got.Certificate) != 1 || !bytes.Equal(got.Certificate[0], want.Certificate().Certificate[0]) {
			t.Errorf("%+v: %d certificates, want the member's alone: the authority is for the other side to have", s, len(got.Certificate))
		}
		if err := k.Verify([]*x509.Certificate{got.Leaf}, x509.ExtKeyUsageServerAuth, "elsewhere", "127.0.0.1"); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// Trust stores of openssl and keytool hold the authority.
func TestTrustStores(t *testing.T) {
	member, err := Open(Options{Key: Store{Location: "testdata/member.pem"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Store{
		{Location: "testdata/authority.pem"},
		{Location: "testdata/keytool-trust.p12", Password: "secret"},
		{Location: "testdata/keytool-trust.jks", Password: "secret"},
		{Location: "testdata/modern-trust.jks", Password: "secret"},
	} {
		k, err := Open(Options{Prefix: "ssl", Trust: s})
		if err != nil {
			t.Errorf("%+v: %v", s, err)
			continue
		}
		if k.Certificate() != nil || k.Roots() == nil {
			t.Errorf("%+v: certificate %v, roots %v", s, k.Certificate(), k.Roots())
		}
		if err := k.Verify([]*x509.Certificate{member.Certificate().Leaf}, x509.ExtKeyUsageClientAuth); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// Every file that cannot be used gets an error that names the key, the file, and what is wrong.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t, "authority")
	cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "one"}})
	_, otherKey := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "two"}})
	oldCert, oldKey := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "old"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(-time.Minute)})
	newCert, newKey := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "new"}, NotBefore: time.Now().Add(time.Hour), NotAfter: time.Now().Add(2 * time.Hour)})
	write(t, dir, "trailing.jks", file(t, "keytool.jks")[:600])
	write(t, dir, "huge-count.jks", []byte(jksMagic+"\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00timestmp\x00\x00\x00\x00\xff\xff\xff\xff"))
	write(t, dir, "version.jks", []byte(jksMagic+"\x00\x00\x00\x09"))
	write(t, dir, "empty.pem")
	write(t, dir, "large.pem", bytes.Repeat([]byte("#"), maxFileSize+1))
	write(t, dir, "text.pem", []byte("no key here"))
	write(t, dir, "cert.pem", cert)
	write(t, dir, "two-keys.pem", cert, key, otherKey)
	write(t, dir, "misfit.pem", cert, otherKey)
	write(t, dir, "old.pem", oldCert, oldKey)
	write(t, dir, "new.pem", newCert, newKey)
	write(t, dir, "broken.pem", pemOf("CERTIFICATE", []byte("x")))
	write(t, dir, "dek.pem", []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	write(t, dir, "store.bcfks", []byte("x"))
	write(t, dir, "store.key", key)
	weak := weakRSA(t)
	write(t, dir, "weak.pem", weak)
	write(t, dir, "cert-only.pem", cert)

	for _, tt := range []struct {
		store Store // relative to dir, or to testdata if that has it
		want  string
	}{
		{Store{Location: "missing.pem"}, "no such file or directory"},
		{Store{Location: "."}, "the file's name does not show its format"},
		{Store{Location: ".", Type: "PEM"}, "this is not a file"},
		{Store{Location: "empty.pem"}, "the file is empty"},
		{Store{Location: "large.pem"}, "more than 1048576 bytes"},
		{Store{Location: "text.pem"}, "this is not PEM"},
		{Store{Location: "broken.pem"}, "block 1, CERTIFICATE: "},
		{Store{Location: "cert.pem"}, "there is no private key in the file"},
		{Store{Location: "two-keys.pem"}, "there are 2 private keys"},
		{Store{Location: "misfit.pem"}, "none of the 1 certificates in the file belongs to its private key"},
		{Store{Location: "old.pem"}, `the certificate of "CN=old" has expired: it was valid until `},
		{Store{Location: "new.pem"}, `the certificate of "CN=new" is not valid yet: it is valid from `},
		{Store{Location: "weak.pem"}, "the RSA key has 512 bits"},
		{Store{Location: "dek.pem"}, "encrypted in the old manner of OpenSSL"},
		{Store{Location: "encrypted.pem"}, "the key is encrypted, and no password is set"},
		{Store{Location: "encrypted.pem", Password: "wrong"}, "the password does not fit, or the file is damaged"},
		{Store{Location: "store.bcfks"}, "BCFKS store can be read only by"},
		{Store{Location: "store.key"}, "the file's name does not show its format: it must end in .pem, .p12, .pfx or .jks, or set ssl.keyStore.type=PEM, PKCS12 or JKS"},
		{Store{Location: "store.key", Type: "DER"}, "ssl.keyStore.type=DER: must be PEM, PKCS12 or JKS"},
		{Store{Location: "keytool.p12"}, "the password does not fit"},
		{Store{Location: "keytool.p12", Password: "wrong"}, "the password does not fit"},
		{Store{Location: "keytool.jks", Password: "wrong"}, "the password does not fit"},
		{Store{Location: "own-password.jks", Password: "secret"}, "cannot be decrypted with the store's password"},
		{Store{Location: "trailing.jks", Password: "secret"}, "this is not a JKS store"},
		{Store{Location: "huge-count.jks", Password: "secret"}, "this is not a JKS store"},
		{Store{Location: "version.jks", Password: "secret"}, "version 9; it must be 1 or 2"},
		{Store{Location: "member.pem", Type: "PKCS12"}, "neither a PKCS12 store of one private key"},
		{Store{Location: "keytool-trust.p12", Password: "secret"}, "there is no private key in the file"},
	} {
		path := filepath.Join(dir, tt.store.Location)
		if _, err := os.Stat(filepath.Join("testdata", tt.store.Location)); err == nil && tt.store.Location != "." {
			path = filepath.Join("testdata", tt.store.Location)
		}
		tt.store.Location = path
		_, err := Open(Options{Prefix: "ssl", Key: tt.store})
		if err == nil || !strings.HasPrefix(err.Error(), "ssl.keyStore.location="+path+": ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.store, err, tt.want)
		}
		if err != nil && tt.store.Password != "" && strings.Contains(err.Error(), "wrong"+" ") {
			t.Errorf("%v has a password in it", err)
		}
	}
	for _, tt := range []struct{ file, password, want string }{
		{"testdata/openssl-trust.p12", "secret", "not marked as trusted"},
		{"testdata/keytool-trust.jks", "", "the password does not fit"},
		{"testdata/keytool.jks", "secret", "there is no certificate to trust"},
		{write(t, dir, "key-only.pem", key), "", "there is no certificate to trust"},
	} {
		_, err := Open(Options{Prefix: "ssl.quorum", Trust: Store{Location: tt.file, Password: tt.password}})
		if err == nil || !strings.HasPrefix(err.Error(), "ssl.quorum.trustStore.location="+tt.file+": ") ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.file, err, tt.want)
		}
	}
}

// weakRSA returns a key that is too short for TLS.
func weakRSA(t *testing.T) []byte {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, 512)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

// A chain leads from the certificate over the authorities between to the one that the other side has,
// in whatever order the file has them.
func TestChain(t *testing.T) {
	dir := t.TempDir()
	root := newAuthority(t, "root")
	between := &authority{t: t}
	between.cert, between.key = root.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "between"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign})
	cert, key := between.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, DNSNames: []string{"leaf"}})
	stranger := pemOf("CERTIFICATE", newAuthority(t, "stranger").cert.Raw)
	rootPEM, betweenPEM := pemOf("CERTIFICATE", root.cert.Raw), pemOf("CERTIFICATE", between.cert.Raw)
	store := Store{Location: write(t, dir, "leaf.pem", stranger, rootPEM, betweenPEM, cert, key)}
	k, err := Open(Options{Key: store, Trust: Store{Location: write(t, dir, "root.pem", rootPEM)}})
	if err != nil {
		t.Fatal(err)
	}
	shown := k.Certificate().Certificate
	if len(shown) != 2 || !bytes.Equal(shown[1], between.cert.Raw) {
		t.Fatalf("%d certificates are shown, want leaf and between", len(shown))
	}
	leaf := k.Certificate().Leaf
	if err := k.Verify([]*x509.Certificate{leaf, between.cert}, x509.ExtKeyUsageServerAuth, "leaf"); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"without between": k.Verify([]*x509.Certificate{leaf}, x509.ExtKeyUsageServerAuth),
		"another name":    k.Verify([]*x509.Certificate{leaf, between.cert}, x509.ExtKeyUsageServerAuth, "other"),
		"no certificate":  k.Verify(nil, x509.ExtKeyUsageServerAuth),
	} {
		if err == nil {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
	if k, err = Open(Options{Key: store}); err != nil {
		t.Fatal(err)
	}
	if err := k.Verify([]*x509.Certificate{leaf, between.cert}, x509.ExtKeyUsageServerAuth); err == nil {
		t.Error("a certificate is believed without a trust store")
	}
}

// Of several certificates of one key, the one that is valid for longest is shown: somebody has added the renewed
// one to the file.
func TestRenewedInOneFile(t *testing.T) {
	a := newAuthority(t, "authority")
	old, key := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "old"}})
	tmpl := &x509.Certificate{SerialNumber: bigOne, Subject: pkix.Name{CommonName: "renewed"}, NotBefore: old.NotBefore, NotAfter: old.NotAfter.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	before, renewed := pemOf("CERTIFICATE", old.Raw), pemOf("CERTIFICATE", der)
	for name, certs := range map[string][][]byte{"added at the end": {before, renewed}, "added at the beginning": {renewed, before}} {
		k, err := Open(Options{Key: Store{Location: write(t, t.TempDir(), "own.pem", append(certs, pemOf("PRIVATE KEY", keyDER))...)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Certificate().Leaf.Subject.CommonName; got != "renewed" {
			t.Errorf("%s: shown is the one of %s", name, got)
		}
	}
}

// A certificate that is meant for servers alone does not make a client.
func TestVerifyUsage(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t, "authority")
	k, err := Open(Options{Trust: Store{Location: write(t, dir, "ca.pem", pemOf("CERTIFICATE", a.cert.Raw))}})
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "server"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	chain := []*x509.Certificate{cert}
	if err := k.Verify(chain, x509.ExtKeyUsageServerAuth); err != nil {
		t.Error(err)
	}
	if k.Verify(chain, x509.ExtKeyUsageClientAuth) == nil {
		t.Error("the server's certificate is good for a client")
	}
}

// An error about a certificate that is not valid at this time has both times, and says that the clock may be wrong.
func TestWrongClock(t *testing.T) {
	a := newAuthority(t, "authority")
	cert, _ := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "one"}})
	trust := Store{Location: write(t, t.TempDir(), "ca.pem", pemOf("CERTIFICATE", a.cert.Raw))}
	for years, bound := range map[int]time.Time{-1: cert.NotBefore, 1: cert.NotAfter} {
		now := time.Now().AddDate(years, 0, 0).UTC()
		k, err := Open(Options{Trust: trust, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		err = k.Verify([]*x509.Certificate{cert}, x509.ExtKeyUsageClientAuth)
		for _, want := range []string{now.Format(time.RFC3339), bound.UTC().Format(time.RFC3339), "the clock of this machine is wrong"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("in %d years: %v, want %q in it", years, err, want)
			}
		}
	}
	for name, err := range map[string]error{"a handshake": &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, "another reason": x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}} {
		if got := strings.Contains(AddClockHint(err).Error(), "clock"); got != (name == "a handshake") {
			t.Errorf("%s: %v", name, AddClockHint(err))
		}
	}
}

// With crl=true, a certificate counts only if a current list of its issuer does not have it.
func TestRevocation(t *testing.T) {
	member, err := Open(Options{Key: Store{Location: "testdata/member.pem"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file, want string
		years      int // from now
	}{
		{"testdata/nobody-revoked.pem", "", 0},
		{"testdata/revoked.pem", "was revoked at", 0},
		{"testdata/revoked.bin", "was revoked at", 0},
		{"testdata/revoked.pem", "was revoked at", 50},
	} {
		now := time.Now().AddDate(tt.years, 0, 0)
		k, err := Open(Options{Trust: Store{Location: "testdata/authority.pem"}, CheckCRLs: true, CRLFile: tt.file, Now: func() time.Time { return now }})
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		err = k.Verify([]*x509.Certificate{member.Certificate().Leaf}, x509.ExtKeyUsageClientAuth)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s in %d years: %v, want %s", tt.file, tt.years, err, tt.want)
		}
	}
	for file, want := range map[string]string{
		"":                       "ssl.crl=true: lists of revoked certificates are read from a file",
		"testdata/authority.pem": "ssl.crl.location=testdata/authority.pem: there is no list of revoked certificates",
	} {
		if _, err := Open(Options{Prefix: "ssl", CheckCRLs: true, CRLFile: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
}

// A file in which one list is damaged is rejected, because the certificates in that list would count as good.
func TestDamagedList(t *testing.T) {
	good, err := os.ReadFile("testdata/revoked.pem")
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, t.TempDir(), "lists.pem", good, pemOf("X509 CRL", []byte("damaged")))
	if _, err := Open(Options{Prefix: "ssl", CheckCRLs: true, CRLFile: file}); err == nil || !strings.Contains(err.Error(), "list 2: ") {
		t.Errorf("%v, want an error that names the second list", err)
	}
}

// A list counts only while it is current, and only if the issuer of the certificate has signed it.
func TestListThatDoesNotCount(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t, "authority")
	list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: bigOne, ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Minute)}, a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	k, err := Open(Options{
		Trust:     Store{Location: write(t, dir, "ca.pem", pemOf("CERTIFICATE", a.cert.Raw))},
		CheckCRLs: true, CRLFile: write(t, dir, "list.pem", pemOf("X509 CRL", list)), Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "one"}})
	if err := k.Verify([]*x509.Certificate{cert}, x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
	impostor := newAuthority(t, "authority")
	strange, _ := impostor.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "one"}})
	if err := k.current.Load().crls.checkNotRevoked(strange, impostor.cert, now); err == nil ||
		!strings.Contains(err.Error(), "no current list") {
		t.Errorf("with a list of another authority that has the same name: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if err := k.Verify([]*x509.Certificate{cert}, x509.ExtKeyUsageClientAuth); err == nil ||
		!strings.Contains(err.Error(), "no current list") {
		t.Errorf("with a list that is outdated: %v", err)
	}
}

// Each authority between a certificate and the root is held against the list of its own issuer.
func TestRevokedAuthority(t *testing.T) {
	root := newAuthority(t, "root")
	between := &authority{t: t}
	between.cert, between.key = root.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "between"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign})
	leaf, _ := between.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}})
	list := func(of *authority, revoked ...*x509.Certificate) []byte {
		tmpl := &x509.RevocationList{Number: bigOne, ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour)}
		for _, c := range revoked {
			tmpl.RevokedCertificateEntries = append(tmpl.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
		}
		der, err := x509.CreateRevocationList(rand.Reader, tmpl, of.cert, of.key)
		if err != nil {
			t.Fatal(err)
		}
		return pemOf("X509 CRL", der)
	}
	for _, tt := range []struct {
		lists [][]byte
		want  string
	}{
		{[][]byte{list(between), list(root)}, ""},
		{[][]byte{list(between), list(root, between.cert)}, `"CN=between" was revoked at`},
		{[][]byte{list(between)}, `revoked certificates of "CN=root" is available`},
	} {
		dir := t.TempDir()
		k, err := Open(Options{
			Trust:     Store{Location: write(t, dir, "ca.pem", pemOf("CERTIFICATE", root.cert.Raw))},
			CheckCRLs: true, CRLFile: write(t, dir, "lists.pem", tt.lists...),
		})
		if err != nil {
			t.Fatal(err)
		}
		err = k.Verify([]*x509.Certificate{leaf, between.cert}, x509.ExtKeyUsageClientAuth)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// An encrypted key cannot make a member derive a key for hours.
func TestIterationsOfEncryptedKey(t *testing.T) {
	raw := func(v any) asn1.RawValue {
		der, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return asn1.RawValue{FullBytes: der}
	}
	cipher := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 2}, Parameters: raw(make([]byte, 16))}
	for iterations, refused := range map[int]bool{1000: false, maxIterations + 1: true, 0: true, -1: true} {
		kdf := pkix.AlgorithmIdentifier{Algorithm: oidPBKDF2, Parameters: raw(pbkdf2Params{Salt: []byte("salt"), Iterations: iterations, Hash: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}}})}
		_, _, err := cipherOf(pkix.AlgorithmIdentifier{Algorithm: oidPBES2, Parameters: raw(pbes2{kdf, cipher})}, "password")
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "must take 1 to 1000000") {
			t.Errorf("%d iterations: %v, want it refused: %t", iterations, err, refused)
		}
	}
}

// One warning tells that a private key lies open.
func TestReadableKey(t *testing.T) {
	dir := t.TempDir()
	cert, key := newAuthority(t, "authority").issue(&x509.Certificate{Subject: pkix.Name{CommonName: "one"}})
	path := write(t, dir, "one.pem", cert, key)
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if _, err := Open(Options{Prefix: "ssl", Key: Store{Location: path}, Log: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "a file with secrets is open to others"); got != want {
			t.Errorf("mode %o: %d warnings, want %d: %s", mode, got, want, &log)
		}
	}
}

// A panic of a library is an error.
func TestGuarded(t *testing.T) {
	_, err := readRecoveringPanics(func([]byte, string) (storeContents, error) { panic("no room") }, nil, "")
	if err == nil || !strings.Contains(err.Error(), "the file is damaged: reading it ended with no room") {
		t.Errorf("err = %v", err)
	}
}

// A store cannot make a member derive keys for hours, or go down without end.
func TestBoundIterations(t *testing.T) {
	type salted struct {
		Salt       []byte
		Iterations int
	}
	type outer struct{ Inner []byte } // a string of bytes that has a structure, as in PKCS12
	wrap := func(v any) []byte {
		der, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	deep := wrap(outer{})
	for range maxNesting {
		deep = wrap(outer{deep})
	}
	for _, tt := range []struct {
		name string
		der  []byte
		want string
	}{
		{"as many as allowed", wrap(outer{wrap(salted{[]byte("salt"), maxIterations})}), ""},
		{"one more", wrap(outer{wrap(salted{[]byte("salt"), maxIterations + 1})}), "too many iterations"},
		{"deep", deep, "too deep"},
	} {
		err := checkIterations(tt.der, maxNesting)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
