package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/internal/keystore/authority"
)

// issueCertificate returns the files of an authority and of a certificate for localhost that was issued at from and is
// valid for valid.
func issueCertificate(t *testing.T, from time.Time, valid time.Duration) (trust, key string) {
	t.Helper()
	a, err := authority.New("test", from, valid)
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := a.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	own, err := a.Issue([]string{"localhost"}, from, valid)
	if err != nil {
		t.Fatal(err)
	}
	return string(cert), string(own)
}

// checkRun returns the status of config check, and what it has printed on both outputs.
func checkRun(t *testing.T, file string) (status cli.Status, text string) {
	t.Helper()
	var out, errs strings.Builder
	err := runCommandLine(t.Context(), []string{"config", "check", "-o", "wide", file}, cli.IOStreams{Out: &out, Err: &errs})
	if err != nil {
		errs.WriteString(err.Error())
	}
	return cli.StatusOf(err), strings.Join(strings.Fields(out.String()), " ") + "\n" + errs.String()
}

// config check reads every file with secrets and certificates, as serve does. For each fault it names the key
// and the file, and says what to do.
func TestConfigCheckReadsFiles(t *testing.T) {
	const head = "dataDir=DIR\nclientPort=0\n"
	trust, key := issueCertificate(t, time.Now(), 365*oneDay)
	oldTrust, oldKey := issueCertificate(t, time.Now().Add(-100*oneDay), 50*oneDay)
	soonTrust, soonKey := issueCertificate(t, time.Now(), 20*oneDay)
	_, laterKey := issueCertificate(t, time.Now().Add(100*oneDay), 50*oneDay)
	const notAllRead = "warning: not all files with secrets and certificates were read; correct what is refused, and check again"
	const clients = head + "secureClientPort=0\nssl.keyStore.location=DIR/"
	_, at := inDir(t, map[string]string{
		"trust.pem": trust, "key.pem": key, "oldTrust.pem": oldTrust, "oldKey.pem": oldKey, "soonTrust.pem": soonTrust, "soonKey.pem": soonKey, "laterKey.pem": laterKey,
		"secret": "0123456789abcdef\n", "short": "hush\n", "empty": "", "hash": "super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
		"jaas": "Server { broken", "token": "0123456789abcdef",

		"good": clients + "key.pem\nssl.trustStore.location=DIR/trust.pem\nensembleSecretFile=DIR/secret\nadmin.tokenFile=DIR/token\nDigestAuthenticationProvider.superDigestPath=DIR/hash\n",
		"every": clients + "none.pem\nssl.trustStore.location=DIR/empty\nssl.trustStore.type=PEM\nssl.crl=true\nssl.crl.location=DIR/secret\nensembleSecretFile=DIR/short\nadmin.tokenFile=DIR/short\n" +
			"sslQuorum=true\nssl.quorum.keyStore.location=DIR/trust.pem\nssl.quorum.trustStore.location=DIR/none.pem\njava.security.auth.login.config=DIR/jaas\n",
		"passwords": head + "ssl.keyStore.passwordPath=DIR/none\nssl.quorum.trustStore.passwordPath=DIR/empty\n",
		"expired":   clients + "oldKey.pem\nssl.trustStore.location=DIR/oldTrust.pem\n",
		"early":     clients + "laterKey.pem\nssl.clientAuth=none\n",
		"soon":      clients + "soonKey.pem\nssl.trustStore.location=DIR/soonTrust.pem\n",
		"noMyid":    clients + "none.pem\nssl.clientAuth=none\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\ninitLimit=5\nsyncLimit=2\n",
		"prepared":  head + "portUnification=true\nssl.quorum.keyStore.location=DIR/key.pem\n",
		"unused":    head + "ssl.keyStore.location=DIR/none.pem\n",
	})
	for _, tt := range []struct {
		file   string
		status cli.Status
		want   []string
		not    string
	}{
		{"good", cli.OK, nil, "warning:"},
		{"every", cli.Failed, []string{
			"8 values are refused",
			"DIR/every:4: ssl.keyStore.location=DIR/none.pem: no such file or directory; it must name a file that this user may read",
			"DIR/every:5: ssl.trustStore.location=DIR/empty: the file is empty",
			"DIR/every:8: ssl.crl.location=DIR/secret: there is no list of revoked certificates in the file; it must have",
			"DIR/every:9: ensembleSecretFile=DIR/short: line 1: a secret of 4 bytes; must have 16 to 1024; make one with",
			"DIR/every:10: admin.tokenFile=DIR/short: the token has 4 bytes; must have 16 to 4096",
			"DIR/every:12: ssl.quorum.keyStore.location=DIR/trust.pem: there is no private key in the file",
			"DIR/every:13: ssl.quorum.trustStore.location=DIR/none.pem: no such file",
			"DIR/every:14: java.security.auth.login.config=DIR/jaas: line 1: ",
			"DIR/short refused DIR/every:9",
		}, "warning:"},
		{"passwords", cli.Failed, []string{
			"2 values are refused", "DIR/passwords:3: ssl.keyStore.passwordPath=DIR/none: no such file", "DIR/passwords:4: ssl.quorum.trustStore.passwordPath=DIR/empty: the first line of the file is empty",
			notAllRead,
		}, ""},
		{"noMyid", cli.Failed, []string{"config check: DIR/myid is missing: it must hold", notAllRead}, ""},
		{"prepared", cli.Failed, []string{"config check: DIR/prepared:4: ssl.quorum.keyStore.location with portUnification=true needs ssl.quorum.trustStore.location", notAllRead}, ""},
		{"expired", cli.Failed, []string{
			"config check: DIR/expired:4: ssl.keyStore.location=DIR/oldKey.pem: the certificate of \"CN=localhost\" has expired: it was valid until ", "this machine's clock says",
			"warning: DIR/expired:5: ssl.trustStore.location=DIR/oldTrust.pem: the certificate of \"CN=test\" has expired: it was valid until", "replace it",
		}, ""},
		{"early", cli.Failed, []string{"ssl.keyStore.location=DIR/laterKey.pem: the certificate of \"CN=localhost\" is not valid yet: it is valid from", "this machine's clock says"}, ""},
		{"soon", cli.OK, []string{
			"warning: DIR/soon:4: ssl.keyStore.location=DIR/soonKey.pem: the certificate of \"CN=localhost\" expires soon: it is valid until",
			"warning: DIR/soon:5: ssl.trustStore.location=DIR/soonTrust.pem: the certificate of \"CN=test\" expires soon", "soonKey.pem dangerous DIR/soon:4",
		}, ""},
		{"unused", cli.OK, []string{"ssl.keyStore.location has no effect without secureClientPort"}, "no such file"},
	} {
		status, text := checkRun(t, at("DIR/"+tt.file))
		if status != tt.status || tt.not != "" && strings.Contains(text, tt.not) {
			t.Errorf("%s: status %d, want %d, without %q:\n%s", tt.file, status, tt.status, tt.not, text)
		}
		for _, want := range tt.want {
			if !strings.Contains(text, at(want)) {
				t.Errorf("%s: no %q in\n%s", tt.file, at(want), text)
			}
		}
		if strings.Contains(text, "hush") || strings.Contains(text, "0123456789abcdef") {
			t.Errorf("%s shows a secret:\n%s", tt.file, text)
		}
	}
}

// config check holds a member's certificate against its server line, and reports whether others reach its ports.
func TestConfigCheckMembers(t *testing.T) {
	trust, key := issueCertificate(t, time.Now(), 365*oneDay) // for localhost
	list := func(host string) string {
		return "dataDir=DIR\nclientPort=0\ninitLimit=5\nsyncLimit=2\nserver.1=" + host + ":1:2\nserver.2=b.example:1:2\nserver.3=c.example:1:2\n"
	}
	const certificates = "ssl.quorum.keyStore.location=DIR/key.pem\nssl.quorum.trustStore.location=DIR/trust.pem\n"
	_, at := inDir(t, map[string]string{
		"myid": "1", "trust.pem": trust, "key.pem": key, "secret": "0123456789abcdef\n",
		"own":         list("localhost") + "sslQuorum=true\n" + certificates,
		"another's":   list("a.example") + "sslQuorum=true\n" + certificates,
		"prepared":    list("a.example") + "portUnification=true\n" + certificates,
		"unchecked":   list("a.example") + "sslQuorum=true\nssl.quorum.hostnameVerification=false\n" + certificates,
		"plain":       list("a.example"),
		"unused":      list("a.example") + certificates,
		"unified":     list("a.example") + "portUnification=true\n",
		"loopback":    list("127.0.0.1"),
		"everywhere":  list("127.0.0.1") + "quorumListenOnAllIPs=true\n",
		"secret only": list("a.example") + "ensembleSecretFile=DIR/secret\n",
	})
	const (
		exposed  = "server.1=a.example:1:2:participant: members are not authenticated: whoever reaches the ports for members can read and change everything; set ensembleSecretFile or sslQuorum"
		anothers = "ssl.quorum.keyStore.location=DIR/key.pem: the certificate is for localhost, but this member is server.1, whose host is a.example, so the other members would reject it"
	)
	for _, tt := range []struct {
		file   string
		status cli.Status
		want   []string // nil: nothing is wrong
	}{
		{"own", cli.OK, nil},
		{"another's", cli.Failed, []string{"config check: DIR/another's:9: " + anothers, "DIR/key.pem refused"}},
		{"prepared", cli.Failed, []string{anothers}},
		{"unchecked", cli.OK, nil},
		{"plain", cli.OK, []string{"warning: DIR/plain:5: " + exposed, "server.1 a.example:1:2 dangerous DIR/plain:5"}},
		{"unused", cli.OK, []string{exposed, "ssl.quorum.keyStore.location has no effect without sslQuorum, portUnification, admin.forceHttps or admin.portUnification"}},
		{"unified", cli.OK, []string{exposed}},
		{"loopback", cli.OK, []string{"members are not authenticated"}},
		{"everywhere", cli.OK, []string{"members are not authenticated"}},
		{"secret only", cli.OK, nil},
	} {
		status, text := checkRun(t, at("DIR/"+tt.file))
		if wrong := strings.Contains(text, "not authenticated") || strings.Contains(text, "would reject"); status != tt.status || wrong != (tt.want != nil) {
			t.Errorf("%s: status %d, want %d, and %q alone:\n%s", tt.file, status, tt.status, tt.want, text)
		}
		for _, want := range tt.want {
			if !strings.Contains(text, at(want)) {
				t.Errorf("%s: no %q in\n%s", tt.file, at(want), text)
			}
		}
	}
}

// Files that only Rollcall has are rejected if others may read them. Files that ZooKeeper has, too, get a warning.
func TestConfigCheckModes(t *testing.T) {
	_, key := issueCertificate(t, time.Now(), 365*oneDay)
	_, at := inDir(t, map[string]string{
		"key.pem": key, "secret": "0123456789abcdef\n", "hash": "super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n", "jaas": "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"x\"; };",
		"cfg": "dataDir=DIR\nclientPort=0\nsecureClientPort=0\nssl.clientAuth=none\nssl.keyStore.location=DIR/key.pem\nsslQuorum=true\nssl.quorum.keyStore.location=DIR/key.pem\n" +
			"ssl.quorum.trustStore.location=DIR/key.pem\nensembleSecretFile=DIR/secret\nadmin.tokenFile=DIR/secret\nssl.quorum.keyStore.passwordPath=DIR/secret\n" +
			"DigestAuthenticationProvider.superDigestPath=DIR/hash\njava.security.auth.login.config=DIR/jaas\n",
	})
	secrets := []string{
		"ssl.keyStore.location", "ssl.quorum.keyStore.location", "ssl.quorum.keyStore.passwordPath",
		"DigestAuthenticationProvider.superDigestPath", "java.security.auth.login.config",
	}
	for mode, exposed := range map[os.FileMode]bool{0o600: false, 0o440: false, 0o444: true, 0o644: true, 0o660: true} {
		for _, name := range []string{"key.pem", "secret", "hash", "jaas"} {
			if err := os.Chmod(at("DIR/"+name), mode); err != nil {
				t.Fatal(err)
			}
		}
		status, text := checkRun(t, at("DIR/cfg"))
		if exposed != (status != cli.OK) {
			t.Errorf("mode %o: status %d:\n%s", mode, status, text)
		}
		for _, key := range []string{"ensembleSecretFile", "admin.tokenFile"} {
			if rejected := strings.Contains(text, ": "+key+"="+at("DIR/secret")+": the file is open to other users") && strings.Contains(text, "run chmod 600 "+at("DIR/secret")); rejected != exposed {
				t.Errorf("mode %o: %s: rejected %v, want %v:\n%s", mode, key, rejected, exposed, text)
			}
		}
		for _, key := range secrets {
			warned := false
			for line := range strings.Lines(text) {
				warned = warned || strings.HasPrefix(line, "warning: ") && strings.Contains(line, " "+key) && strings.Contains(line, "the file is open to others") && strings.Contains(line, "chmod 600")
			}
			if warned != exposed {
				t.Errorf("mode %o: %s: warned %v, want %v:\n%s", mode, key, warned, exposed, text)
			}
		}
	}
}
