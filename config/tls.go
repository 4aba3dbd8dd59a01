package config

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"rollcall/internal/keystore"
)

// ClientTLS says how clients connect over TLS.
type ClientTLS struct {
	Key, Trust    keystore.Store // nothing is read from them here
	CRL           bool           // lists of revoked certificates count, and are in the file CRLs
	CRLs          string
	Terms         keystore.ServerTerms
	UnifiedPort   bool          // the port for plain connections takes TLS, too
	DetectTimeout time.Duration // how long such a client may take to say which
	MaxHandshakes int           // under way; default as in package server
	CertReload    bool          // files that have changed are read again
}

// nonEmptyText takes any text that is not empty. allowed says what it should be.
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

// clientAuth takes a word that says whether clients show a certificate.
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

// tlsProtocols takes versions of TLS.
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

// cipherSuites takes cipher suites by their names in Java.
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

// onlyWord takes one word, in any case of letters.
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

// finishSecure sets the address where clients connect over TLS.
func (d *rawConfig) finishSecure() error {
	if d.secureListener.port < 0 {
		if where := d.setIn["secureClientPortAddress"]; where != "" {
			return fmt.Errorf("%s: secureClientPortAddress without secureClientPort; set secureClientPort, too", where)
		}
		return nil
	}
	d.SecureAddr = joinHostPort(d.secureListener.host, d.secureListener.port)
	if d.SecureAddr == d.ClientAddr && d.secureListener.port > 0 {
		return fmt.Errorf("%s: secureClientPort is clientPort; choose another port, or leave secureClientPort out and set client.portUnification=true", d.whereSet("secureClientPort"))
	}
	return nil
}

// finishTLS checks that there is what connections over TLS need.
func (d *rawConfig) finishTLS() error {
	t, opens := &d.ClientTLS, "secureClientPort"
	if p := d.enabledProtocols; p.Min > 0 {
		t.Terms.Min, t.Terms.Max = p.Min, p.Max
	}
	if d.SecureAddr == "" {
		opens = "client.portUnification"
	}
	asked := t.Terms.Auth != keystore.NoCertificate
	switch {
	case d.SecureAddr == "" && !t.UnifiedPort:
		if where := d.setIn["ssl.keyStore.location"]; where != "" {
			d.addWarning(where, "ssl.keyStore.location has no effect without secureClientPort or client.portUnification")
		}
		return nil
	case t.Key.Location == "":
		return fmt.Errorf("%s: %s needs a private key with its certificate; set ssl.keyStore.location", d.whereSet(opens), opens)
	case asked && t.Trust.Location == "":
		return fmt.Errorf("%s: clients have to show a certificate, and nothing says which are believed; set ssl.trustStore.location, or ssl.clientAuth=none", cmp.Or(d.setIn["ssl.clientAuth"], d.whereSet(opens)))
	}
	d.Rules.X509 = asked
	return nil
}
