package config

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/server"
)

// writeKeytab writes a keytab with one key of a service, of the type aes256-cts-hmac-sha1-96.
func writeKeytab(t *testing.T, path, service, host, realm string) {
	t.Helper()
	entry := binary.BigEndian.AppendUint16(nil, 2)
	for _, text := range []string{realm, service, host} {
		entry = append(binary.BigEndian.AppendUint16(entry, uint16(len(text))), text...)
	}
	entry = append(entry, 0, 0, 0, 1, 0, 0, 0, 1, 1) // the name's type, the time, the version
	entry = binary.BigEndian.AppendUint16(entry, 18)
	entry = append(binary.BigEndian.AppendUint16(entry, 32), strings.Repeat("k", 32)...)
	content := append(binary.BigEndian.AppendUint32([]byte{5, 2}, uint32(len(entry))), entry...)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// loadKerberos loads a zoo.cfg with these lines and a JAAS file with Kerberos. The keytab has a key of zookeeper/h@R.
func loadKerberos(t *testing.T, lines, principal, krb5 string) (cfg Config, warnings string, at func(string) string, err error) {
	t.Helper()
	dir, at := inDir(t, map[string]string{
		"zoo.cfg": "dataDir=DIR\nclientPort=0\njava.security.auth.login.config=DIR/jaas\njava.security.krb5.conf=DIR/krb5.conf\n" + lines,
		"jaas": "Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false " +
			"keyTab=\"DIR/keytab\" principal=\"" + principal + "\"; };",
		"krb5.conf": krb5,
	})
	writeKeytab(t, filepath.Join(dir, "keytab"), "zookeeper", "h", "R")
	cfg, all, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
	return cfg, texts(all), at, err
}

// The JAAS file decides for Kerberos, krb5.conf has the realm and the skew, and keys have what becomes of names.
func TestKerberos(t *testing.T) {
	const conf = "[libdefaults]\ndefault_realm = D\nclockskew = 60\n"
	for _, tt := range []struct {
		lines, principal, krb5 string
		want                   server.Kerberos
		warning                string
	}{
		{"", "zookeeper/h@R", "", server.Kerberos{Principal: "zookeeper/h@R", DefaultRealm: "R", Rules: "DEFAULT"}, ""},
		{"", "zookeeper/h@R", conf, server.Kerberos{Principal: "zookeeper/h@R", DefaultRealm: "D", ClockSkew: time.Minute, Rules: "DEFAULT"}, ""},
		{"requireKerberosConfig=true\n", "zookeeper/h", strings.Replace(conf, "= D", "= R", 1), server.Kerberos{Principal: "zookeeper/h@R", DefaultRealm: "R", ClockSkew: time.Minute, Rules: "DEFAULT"}, ""},
		{
			"zookeeper.kerberos.removeHostFromPrincipal=true\nkerberos.removeRealmFromPrincipal=true\nzookeeper.security.auth_to_local=RULE:[1:$1]s/a/b/g DEFAULT\n", "zookeeper/h@R", "",
			server.Kerberos{Principal: "zookeeper/h@R", DefaultRealm: "R", Rules: "RULE:[1:$1]s/a/b/g DEFAULT", RemoveHost: true, RemoveRealm: true},
			"",
		},
		{"", "zookeeper/h@R", "includedir /etc/krb5.conf.d/\n", server.Kerberos{Principal: "zookeeper/h@R", DefaultRealm: "R", Rules: "DEFAULT"}, "includes other files, which are not read"},
		{"kerberos.canonicalizeHostNames=true\n", "zookeeper/h@R", "", server.Kerberos{Principal: "zookeeper/h@R", DefaultRealm: "R", Rules: "DEFAULT"}, "kerberos.canonicalizeHostNames has no effect"},
		{"sessionRequireClientSASLAuth=true\nsuperUser=zed\n", "zookeeper/h@R", "", server.Kerberos{Principal: "zookeeper/h@R", DefaultRealm: "R", Rules: "DEFAULT"}, ""},
	} {
		cfg, warnings, at, err := loadKerberos(t, tt.lines, tt.principal, tt.krb5)
		if err != nil {
			t.Errorf("%s: %v", tt.lines, err)
			continue
		}
		tt.want.KeytabFile = at("DIR/keytab")
		if cfg.Login.Kerberos != tt.want || cfg.Login.Users != nil || !cfg.Rules.SASL {
			t.Errorf("%s: %+v, want %+v; rule %t", tt.lines, cfg.Login.Kerberos, tt.want, cfg.Rules.SASL)
		}
		if !strings.Contains(warnings, tt.warning) || tt.warning == "" && warnings != "" {
			t.Errorf("%s: warnings %s, want %q", tt.lines, warnings, tt.warning)
		}
	}
}

// What cannot be used stops the member, with words that say what is allowed.
func TestKerberosIsRefused(t *testing.T) {
	for _, tt := range []struct{ lines, principal, krb5, want string }{
		{"", "zookeeper/other@R", "", "keytab DIR/keytab: the keytab has no key of zookeeper/other@R; it has those of zookeeper/h@R"},
		{"", "zookeeper/h", "", `the principal "zookeeper/h" has no realm, and there is no default_realm`},
		{"", "*", "", `the principal "*" must be a service and a host with a realm`},
		{"requireKerberosConfig=true", "zookeeper/h@R", "", "requireKerberosConfig=true, and DIR/krb5.conf has no default_realm"},
		{"", "zookeeper/h@R", "[libdefaults]\nclockskew = 0", "DIR/krb5.conf: line 2: clockskew"},
		{"java.security.krb5.conf=DIR/nosuch", "zookeeper/h@R", "", "DIR/nosuch: "},
		{"security.auth_to_local=", "zookeeper/h@R", "", "security.auth_to_local=: must be DEFAULT, and rules that begin with RULE:"},
		{"security.auth_to_local=RULE:[1:$2]", "zookeeper/h@R", "", "a $ needs a number from 0 to 1"},
	} {
		_, _, at, err := loadKerberos(t, tt.lines+"\n", tt.principal, tt.krb5)
		if err == nil || !strings.Contains(err.Error(), at(tt.want)) {
			t.Errorf("%s %s: %v, want %s", tt.lines, tt.principal, err, at(tt.want))
		}
	}
	_, _, _, err := loadLogin(t, "java.security.auth.login.config=DIR/jaas\n", "Server { com.sun.security.auth.module.Krb5LoginModule required; };")
	if err == nil || !strings.Contains(err.Error(), "needs useKeyTab=true") {
		t.Error(err)
	}
}

// A keytab that others may read causes a warning.
func TestOpenKeytab(t *testing.T) {
	_, _, at, err := loadKerberos(t, "", "zookeeper/h@R", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at("DIR/keytab"), 0o604); err != nil {
		t.Fatal(err)
	}
	_, warnings, err := Load(at("DIR/zoo.cfg"), nil, Flags{})
	if err != nil || !strings.Contains(texts(warnings), at("keytab DIR/keytab: the file is open to others")) {
		t.Errorf("%v, %s", err, texts(warnings))
	}
}
