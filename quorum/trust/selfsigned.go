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

// secretTLSConfig returns the configuration of TLS for the dialed side of a connection that is proved
// with a secret. The certificate is new and says nothing, not even a time: nobody checks it, so nothing
// depends on a clock.
func secretTLSConfig() (*tls.Config, error) {
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
	c.NextProtos = []string{secretProtocol}
	c.Certificates = []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}
	return c, nil
}

// baseTLSConfig is what all connections between members have in common: TLS 1.3 alone, no session that
// is resumed, because every connection proves its ends anew, and records of full size.
func baseTLSConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true}
}
