// Package authority makes a certificate authority and the certificates that it signs. It is for users who
// want certificates without a service that issues them, and for tests. It keeps nothing, and writes no file.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"time"
)

const (
	// clockTolerance is the time for which a certificate is valid before it was made, for machines whose
	// clocks are late.
	clockTolerance = time.Hour
	// serialBits is long enough that two certificates of an authority never have the same serial number.
	serialBits = 128
	// maxName is the longest host name in DNS.
	maxName = 253
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// New makes an authority with a new key. Its certificate is valid from an hour before now.
func New(name string, now time.Time, valid time.Duration) (*Authority, error) {
	tmpl := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, NotBefore: now.Add(-clockTolerance), NotAfter: now.Add(valid),
	}
	cert, key, err := new(Authority).IssueFromTemplate(tmpl)
	return &Authority{cert, key}, err
}

// ParsePEM returns the authority of a certificate and its key, both in PEM as PEMFiles returns them.
func ParsePEM(cert, key []byte) (*Authority, error) {
	c, err := pemBlock(cert, "CERTIFICATE")
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	k, err := pemBlock(key, "PRIVATE KEY")
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	a := &Authority{}
	if a.cert, err = x509.ParseCertificate(c); err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(k)
	if err != nil {
		return nil, err
	}
	own, ok := parsed.(*ecdsa.PrivateKey)
	switch {
	case !a.cert.IsCA:
		return nil, errors.New("the certificate is not an authority's")
	case !ok || !own.PublicKey.Equal(a.cert.PublicKey):
		return nil, errors.New("the key does not belong to the certificate")
	}
	a.key = own
	return a, nil
}

func pemBlock(text []byte, kind string) ([]byte, error) {
	b, _ := pem.Decode(text)
	if b == nil || b.Type != kind {
		return nil, fmt.Errorf("there is no %s in PEM", kind)
	}
	return b.Bytes, nil
}

// PEMFiles returns the certificate of the authority, which is public, and its key.
func (a *Authority) PEMFiles() (cert, key []byte, err error) {
	key, err = encodeKeyPEM(a.key)
	return encodeCertPEM(a.cert), key, err
}

// Issue returns a new key with a certificate, in PEM, and in one file as ZooKeeper reads it. The certificate
// is good for both sides of a connection, and for each of names: DNS names, which may begin with "*.", and
// addresses. Its subject is the first of them. It expires no later than the authority.
func (a *Authority) Issue(names []string, now time.Time, valid time.Duration) ([]byte, error) {
	tmpl := &x509.Certificate{
		NotBefore: now.Add(-clockTolerance), NotAfter: now.Add(valid), BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(names) == 0 {
		return nil, errors.New("a certificate needs a name")
	}
	tmpl.Subject.CommonName = names[0]
	for _, name := range names {
		if err := addName(tmpl, name); err != nil {
			return nil, err
		}
	}
	if tmpl.NotAfter.After(a.cert.NotAfter) {
		tmpl.NotAfter = a.cert.NotAfter
	}
	cert, key, err := a.IssueFromTemplate(tmpl)
	if err != nil {
		return nil, err
	}
	private, err := encodeKeyPEM(key)
	return append(private, encodeCertPEM(cert)...), err
}

// IssueFromTemplate returns a certificate made from tmpl with a new key and a serial number, and the key. It is for
// certificates that Issue does not make. An Authority without a certificate lets the key sign itself.
func (a *Authority) IssueFromTemplate(tmpl *x509.Certificate) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits)); err != nil {
		return nil, nil, err
	}
	parent, signer := tmpl, crypto.Signer(key)
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// addName adds a name to the certificate's.
func addName(tmpl *x509.Certificate, name string) error {
	if addr, err := netip.ParseAddr(name); err == nil && addr.Zone() == "" {
		tmpl.IPAddresses = append(tmpl.IPAddresses, addr.AsSlice())
		return nil
	}
	if !isDNSName(name) {
		return fmt.Errorf("%q is neither a DNS name nor an address", name)
	}
	tmpl.DNSNames = append(tmpl.DNSNames, name)
	return nil
}

// isDNSName reports whether name is valid for a host, or for all hosts below a name.
func isDNSName(name string) bool {
	if len(name) > maxName {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimPrefix(name, "*."), ".") {
		const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
		if label == "" || len(label) > 63 || strings.Trim(label, letters) != "" || label[0] == '-' ||
			label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

func encodeCertPEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func encodeKeyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
