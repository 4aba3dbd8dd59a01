package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
)

// unprovedTLSConfig returns the TLS configuration of the dialed side for a protocol that proves the ends later. Its certificate is new and empty,
// even of times: no member checks it, so nothing depends on a clock.
func unprovedTLSConfig(protocol string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("trust: make a key: %w", err)
	}
	blank := &x509.Certificate{SerialNumber: big.NewInt(1)}
	raw, err := x509.CreateCertificate(rand.Reader, blank, blank, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("trust: make a certificate: %w", err)
	}
	c := baseTLSConfig()
	c.NextProtos = []string{protocol}
	c.Certificates = []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}
	return c, nil
}

// baseTLSConfig returns the settings of all connections between members: TLS 1.3 only, no session resumption,
// because every connection proves its ends, and records of full size.
func baseTLSConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true}
}
