package keystore

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// minRSABits is the shortest RSA key with which crypto/tls signs.
const minRSABits = 1024

// ownCertificate returns the private key of the store with its certificate and the intermediate certificates,
// and the certificates as the chain.
func (h storeContents) ownCertificate(now time.Time) (*tls.Certificate, []*x509.Certificate, error) {
	switch {
	case len(h.keys) == 0:
		return nil, nil, errors.New("there is no private key in the file; a key store has one, and its certificate")
	case len(h.keys) > 1:
		return nil, nil, fmt.Errorf("there are %d private keys in the file; a key store has one", len(h.keys))
	}
	key := h.keys[0]
	if own, ok := key.(*rsa.PrivateKey); ok && own.N.BitLen() < minRSABits {
		return nil, nil, fmt.Errorf("the RSA key has %d bits; it must have at least %d, and 2048 are usual", own.N.BitLen(),
			minRSABits)
	}
	leaf := h.leafOf(key)
	if leaf == nil {
		return nil, nil, fmt.Errorf("none of the %d certificates in the file belongs to its private key", len(h.certs))
	}
	if now.After(leaf.NotAfter) {
		return nil, nil, fmt.Errorf("the certificate of %q has expired: it was valid until %s, and this machine's clock "+
			"says %s", leaf.Subject, leaf.NotAfter.UTC().Format(timeFormat), now.UTC().Format(timeFormat))
	}
	if now.Before(leaf.NotBefore) {
		return nil, nil, &notYetError{
			leaf.NotBefore,
			fmt.Errorf("the certificate of %q is not valid yet: it is valid from %s, and this machine's clock says %s",
				leaf.Subject, leaf.NotBefore.UTC().Format(timeFormat), now.UTC().Format(timeFormat)),
		}
	}
	cert, chain := &tls.Certificate{PrivateKey: key, Leaf: leaf}, h.chainFrom(leaf)
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, chain, nil
}

// notYetError is the error of a certificate that is not valid yet.
type notYetError struct {
	validFrom time.Time
	error
}

// leafOf returns the certificate of key, or nil if there is none. Of several, it returns the one that is
// valid longest.
func (h storeContents) leafOf(key crypto.Signer) *x509.Certificate {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil
	}
	var leaf *x509.Certificate
	for _, c := range h.certs {
		if public.Equal(c.PublicKey) && (leaf == nil || c.NotAfter.After(leaf.NotAfter)) {
			leaf = c
		}
	}
	return leaf
}

// chainFrom returns leaf and the issuers of each certificate, without the authority at the end, which the
// other side must have itself.
func (h storeContents) chainFrom(leaf *x509.Certificate) []*x509.Certificate {
	chain := []*x509.Certificate{leaf}
	for len(chain) <= len(h.certs) {
		last := chain[len(chain)-1]
		next := h.issuerOf(last)
		if next == nil || isSelfIssued(last) || isSelfIssued(next) {
			break
		}
		chain = append(chain, next)
	}
	return chain
}

// issuerOf returns the issuer of cert, or nil if the store does not have it.
func (h storeContents) issuerOf(cert *x509.Certificate) *x509.Certificate {
	for _, c := range h.certs {
		if bytes.Equal(c.RawSubject, cert.RawIssuer) && cert.CheckSignatureFrom(c) == nil {
			return c
		}
	}
	return nil
}

func isSelfIssued(cert *x509.Certificate) bool { return bytes.Equal(cert.RawSubject, cert.RawIssuer) }

// trustPool returns the trusted certificates of the store.
func (h storeContents) trustPool() (*x509.CertPool, error) {
	if len(h.trusted) == 0 {
		return nil, errors.New("there is no certificate to trust in the file; a trust store has those of authorities " +
			"(keytool -importcert)")
	}
	pool := x509.NewCertPool()
	for _, c := range h.trusted {
		pool.AddCert(c)
	}
	return pool, nil
}

// asSigner returns a private key if TLS can use it.
func asSigner(key any) (crypto.Signer, error) {
	if s, ok := key.(crypto.Signer); ok {
		return s, nil
	}
	return nil, fmt.Errorf("the private key is a %T; it must be RSA, ECDSA or Ed25519", key)
}
