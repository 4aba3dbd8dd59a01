package admin

import (
	"crypto"
	"crypto/tls"
	"io"
	"net"
	"slices"
)

// maxSignatures limits the TLS handshakes that sign at the same time. A signature takes about half a millisecond of
// all of a processor, so strangers at many addresses can take at most one processor from the clients. A handshake
// waits for at most maxConns signatures.
const maxSignatures = 1

// limitHandshakes returns a copy of config that ends a handshake unless admit returns nil for its client. It is asked
// when the client's first message is complete, before anything is signed. At most maxSignatures are made at a time.
func limitHandshakes(config *tls.Config, admit func(remote net.Addr) error) *tls.Config {
	if config == nil || admit == nil {
		return config
	}
	slots := make(chan struct{}, maxSignatures)
	limited, choose := limitSignatures(config, slots), config.GetConfigForClient
	limited.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := admit(hello.Conn.RemoteAddr()); err != nil || choose == nil {
			return nil, err
		}
		chosen, err := choose(hello)
		if err != nil || chosen == nil {
			return nil, err
		}
		return limitSignatures(chosen, slots), nil
	}
	return limited
}

// limitSignatures returns a copy of config whose keys sign in a slot.
func limitSignatures(config *tls.Config, slots chan struct{}) *tls.Config {
	limited := config.Clone()
	limited.Certificates = slices.Clone(config.Certificates)
	for i, c := range limited.Certificates {
		if key, ok := c.PrivateKey.(crypto.Signer); ok {
			limited.Certificates[i].PrivateKey = &limitedSigner{key, slots}
		}
	}
	return limited
}

// limitedSigner is a key that waits for a slot to sign. Who has a slot waits for nobody, so each wait ends.
type limitedSigner struct {
	crypto.Signer
	slots chan struct{}
}

// Sign implements crypto.Signer.
func (s *limitedSigner) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	return s.Signer.Sign(random, digest, opts)
}
