package config

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"rollcall/internal/keystore"
)

// ClientTLS has the settings for clients over TLS.
type ClientTLS struct {
	Key, Trust    keystore.Store // package config does not read them
	CRL           bool           // certificates that the file CRLs revokes are rejected
	CRLs          string
	OCSP          bool // certificates are checked by OCSP
	VerifyHost    bool // a certificate must be for the address of its client
	ReverseDNS    bool // or for a name of that address
	Terms         keystore.ServerTerms
	UnifiedPort   bool          // the plain client port takes TLS, too
	DetectTimeout time.Duration // limits the wait for the first bytes of such a client
	MaxHandshakes int           // at a time; default as in package server
	CertReload    bool          // changed files are reloaded
}

// nonEmptyText takes any text but "". allowed describes it.
func nonEmptyText(allowed string, field func(*rawConfig) *string) kind {
	return kind{
		allowed: allowed,
		parse: func(d *rawConfig, s setting) error {
			if s.value == "" {
				return errAllowed
			}
			return storeValue(d, field, s.value)
		},
	}
}

// storeType takes the format of a key store or trust store.
func storeType(field func(*rawConfig) *string) kind {
	return kind{
		allowed: "PEM, PKCS12 or JKS",
		parse: func(d *rawConfig, s setting) error {
			if strings.EqualFold(s.value, "BCFKS") {
				return keystore.ErrBCFKS
			}
			if !keystore.IsKnownType(s.value) {
				return errAllowed
			}
			return storeValue(d, field, strings.ToUpper(s.value))
		},
	}
}

func clientAuth(field func(*rawConfig) *keystore.ClientAuth) kind {
	return kind{
		allowed: "need, want or none",
		parse: func(d *rawConfig, s setting) error {
			auth, ok := keystore.ParseClientAuth(s.value)
			if !ok {
				return errAllowed
			}
			return storeValue(d, field, auth)
		},
	}
}

func tlsProtocols(terms func(*rawConfig) *keystore.ServerTerms) kind {
	return kind{
		allowed: "TLSv1.2, TLSv1.3, or both with a comma between them",
		parse: func(d *rawConfig, s setting) error {
			least, most, ok := keystore.ParseProtocols(s.value)
			if !ok {
				return errAllowed
			}
			t := terms(d)
			t.Min, t.Max = least, most
			return nil
		},
	}
}

// cipherSuites takes Java's names of cipher suites.
func cipherSuites(field func(*rawConfig) *[]uint16) kind {
	return kind{
		allowed: "cipher suites with commas between them, of those that Go holds to be safe",
		parse: func(d *rawConfig, s setting) error {
			ids, err := keystore.ParseCiphers(s.value)
			if err != nil {
				return err
			}
			return storeValue(d, field, ids)
		},
	}
}

// onlyWord takes one word, regardless of case.
func onlyWord(only string) kind {
	return kind{
		allowed: only,
		parse: func(_ *rawConfig, s setting) error {
			if !strings.EqualFold(s.value, only) {
				return errAllowed
			}
			return nil
		},
	}
}

// setSecureAddress sets the address where clients connect over TLS.
func (d *rawConfig) setSecureAddress() error {
	if d.secureListener.port < 0 {
		if where := d.setIn["secureClientPortAddress"]; where != "" {
			return fmt.Errorf("%s: secureClientPortAddress without secureClientPort; set secureClientPort, too", where)
		}
		return nil
	}
	d.config.SecureAddr = joinHostPort(d.secureListener.host, d.secureListener.port)
	if d.config.SecureAddr == d.config.ClientAddr && d.secureListener.port > 0 {
		return fmt.Errorf("%s: secureClientPort is clientPort; choose another port, or leave secureClientPort out and set "+
			"client.portUnification=true", d.whereSet("secureClientPort"))
	}
	return nil
}

// setTLSTerms checks that the stores that clients over TLS need are set, and sets the versions of TLS and whether the
// scheme x509 is on.
func (d *rawConfig) setTLSTerms() error {
	t, opens := &d.config.ClientTLS, "secureClientPort"
	if p := d.enabledProtocols; p.Min > 0 {
		t.Terms.Min, t.Terms.Max = p.Min, p.Max
	}
	if d.config.SecureAddr == "" {
		opens = "client.portUnification"
	}
	asked := t.Terms.Auth != keystore.NoCertificate
	switch {
	case d.config.SecureAddr == "" && !t.UnifiedPort:
		if where := d.setIn["ssl.keyStore.location"]; where != "" {
			d.addWarning(where, "ssl.keyStore.location has no effect without secureClientPort or client.portUnification")
		}
		return nil
	case t.Key.Location == "":
		return fmt.Errorf("%s: %s needs a private key with its certificate; set ssl.keyStore.location", d.whereSet(opens),
			opens)
	case asked && t.Trust.Location == "":
		return fmt.Errorf("%s: clients have to show a certificate, and nothing says which are believed; set "+
			"ssl.trustStore.location, or ssl.clientAuth=none", cmp.Or(d.setIn["ssl.clientAuth"], d.whereSet(opens)))
	}
	d.config.Rules.X509 = asked
	if t.VerifyHost && d.hostsUnverified {
		t.VerifyHost = false
		d.addWarning(d.whereSet("ssl.clientHostnameVerification"), "ssl.clientHostnameVerification has no effect with ssl.hostnameVerification=false")
	}
	if t.OCSP && !asked {
		return fmt.Errorf("%s: ssl.ocsp=true, but ssl.clientAuth=none asks no client for a certificate; leave one of them out", d.whereSet("ssl.ocsp"))
	}
	return nil
}
