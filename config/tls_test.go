package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// What clients need to connect over TLS is checked as a whole. Nothing that is wrong leaves a port open with less
// security than it was meant to have.
func TestLoadTLS(t *testing.T) {
	const key, trust = "ssl.keyStore.location=/key.pem\n", "ssl.trustStore.location=/ca.pem\n"
	for _, tt := range []struct{ name, lines, secure, warning, err string }{
		{name: "all there is", lines: "secureClientPort=2281\n" + key + trust, secure: "0.0.0.0:2281"},
		{name: "address", lines: "secureClientPort=2281\nsecureClientPortAddress=10.0.0.1\n" + key + trust, secure: "10.0.0.1:2281"},
		{name: "nobody is asked", lines: "secureClientPort=2281\nssl.clientAuth=none\n" + key, secure: "0.0.0.0:2281"},
		{name: "address without port", lines: "secureClientPortAddress=10.0.0.1\n", err: "zoo.cfg:3: secureClientPortAddress without secureClientPort; set secureClientPort, too"},
		{name: "one port for both", lines: "secureClientPort=2181\n" + key + trust, err: "zoo.cfg:3: secureClientPort is clientPort; choose another port"},
		{name: "no key", lines: "secureClientPort=2281\n" + trust, err: "zoo.cfg:3: secureClientPort needs a private key with its certificate; set ssl.keyStore.location"},
		{name: "no key, unified", lines: "client.portUnification=true\n" + trust, err: "zoo.cfg:3: client.portUnification needs a private key"},
		{name: "nobody is believed", lines: "secureClientPort=2281\n" + key, err: "zoo.cfg:3: clients have to show a certificate, and nothing says which are believed; set ssl.trustStore.location, or ssl.clientAuth=none"},
		{name: "nobody who may is believed", lines: "secureClientPort=2281\nssl.clientAuth=want\n" + key, err: "zoo.cfg:4: clients have to show"},
		{name: "no port", lines: key, warning: "ssl.keyStore.location has no effect without secureClientPort or client.portUnification"},
		{name: "old protocol", lines: "ssl.enabledProtocols=TLSv1.1,TLSv1.2\n", err: "zoo.cfg:3: ssl.enabledProtocols=TLSv1.1,TLSv1.2: must be TLSv1.2, TLSv1.3, or both"},
		{name: "unsafe suite", lines: "ssl.ciphersuites=TLS_RSA_WITH_RC4_128_SHA\n", err: `the cipher suite "TLS_RSA_WITH_RC4_128_SHA" is not supported; it must be one of TLS_AES_128_GCM_SHA256, `},
		{name: "Bouncy Castle", lines: "ssl.keyStore.type=bcfks\n", err: "zoo.cfg:3: ssl.keyStore.type=bcfks: a BCFKS store can be read only by Bouncy Castle"},
		{name: "another provider", lines: "ssl.authProvider=sasl\n", err: "zoo.cfg:3: ssl.authProvider=sasl: must be x509"},
		{name: "password twice", lines: "ssl.keyStore.password=x\nssl.keyStore.passwordPath=DIR/secret\n", err: "ssl.keyStore.password is set, too, in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, _ := inDir(t, map[string]string{"zoo.cfg": "clientPort=2181\ndataDir=DIR\n" + tt.lines, "secret": "hush"})
			cfg, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("err = %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if cfg.SecureAddr != tt.secure || cfg.Rules.X509 != (tt.secure != "" && tt.name != "nobody is asked") {
				t.Errorf("SecureAddr %q, X509 %t", cfg.SecureAddr, cfg.Rules.X509)
			}
			if got := texts(warnings); !strings.Contains(got, tt.warning) {
				t.Errorf("warnings %q, want %s", got, tt.warning)
			}
		})
	}
}
