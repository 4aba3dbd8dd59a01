package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/zk/sasl"
)

// jaasText has users of SASL in the section Server and in another one.
const jaasText = `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="hush" user_eve="hush2"; };
Others { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="hush3"; };
`

// loadLogin loads a zoo.cfg with these lines, and variables. The JAAS file is DIR/jaas.
func loadLogin(t *testing.T, lines, jaas string, env ...string) (cfg Config, warnings string, at func(string) string, err error) {
	t.Helper()
	dir, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=0\n" + lines, "jaas": jaas})
	vars := []string{"ZOO_CONF_DIR=" + dir}
	for _, v := range env {
		vars = append(vars, at(v))
	}
	cfg, all, err := Load("", vars, Flags{})
	return cfg, texts(all), at, err
}

// The users are those of the section that is named. The rule for ACLs follows.
func TestUsers(t *testing.T) {
	bobAndEve := sasl.NewUsers(map[string]string{"bob": "hush", "eve": "hush2"})
	ann := sasl.NewUsers(map[string]string{"ann": "hush3"})
	for _, tt := range []struct {
		lines, env, warning string
		want                *sasl.Users
	}{
		{"", "", "", nil},
		{"sasl.serverconfig=Others\n", "", "", nil},
		{"java.security.auth.login.config=DIR/jaas\n", "", "", bobAndEve},
		{"java.security.auth.login.config=DIR/jaas\nzookeeper.sasl.serverconfig=Others\n", "", "", ann},
		{"zookeeper.superUser=bob\njava.security.auth.login.config=DIR/jaas\n", "", "", bobAndEve},
		{"letAnySaslUserDoX=bob\n", "", "no client can log in by SASL", nil},
		{"letAnySaslUserDoX=bob\njava.security.auth.login.config=DIR/jaas\n", "", "", bobAndEve},
		{"superUser=zed\njava.security.auth.login.config=DIR/jaas\n", "", "superUser=zed is none of the users of SASL", bobAndEve},
		{"sasl.serverconfig=Others\n", "SERVER_JVMFLAGS=-Xmx1g -Djava.security.auth.login.config=DIR/jaas", "", ann},
	} {
		cfg, warnings, _, err := loadLogin(t, tt.lines, jaasText, tt.env)
		if err != nil {
			t.Errorf("%s: %v", tt.lines, err)
			continue
		}
		if got := cfg.Login.Users; (got == nil) != (tt.want == nil) || got != nil && !got.Equal(tt.want) || cfg.Rules.SASL != (got != nil) {
			t.Errorf("%s: users %v, rule %t", tt.lines, got, cfg.Rules.SASL)
		}
		if !strings.Contains(warnings, tt.warning) || tt.warning == "" && warnings != "" {
			t.Errorf("%s: warnings %s, want %q", tt.lines, warnings, tt.warning)
		}
	}
}

// A JAAS file that cannot be used stops the member. The error names the key, the file and the line, and
// shows no password.
func TestUsersAreRefused(t *testing.T) {
	const key = "java.security.auth.login.config="
	for _, tt := range []struct{ lines, jaas, want string }{
		{key + "DIR/nosuch", "", "zoo.cfg:3: " + key + "DIR/nosuch: no such file or directory; it must name a file that this user may read"},
		{key + "DIR", "", "it must name a file"},
		{key + "DIR/jaas\nsasl.serverconfig=None", jaasText, `no section "None" in the file`},
		{key + "DIR/jaas", strings.Replace(jaasText, "user_eve=", "user_eve ", 1), "line 1: a word or value; must be ="},
		{key + "DIR/jaas", strings.Repeat("/", sasl.MaxJAASBytes+1), "over 1048576 bytes"},
		{key, "", "zoo.cfg:3: " + key + ": must be a path"},
		{"superUser=", "", "zoo.cfg:3: superUser=: must be a name"},
	} {
		_, _, at, err := loadLogin(t, tt.lines+"\n", tt.jaas)
		if err == nil || !strings.Contains(err.Error(), at(tt.want)) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %s", tt.lines, err, at(tt.want))
		}
	}
}

// A JAAS file without the default section has no users, with a warning: harnesses write empty ones, and one file may serve a
// member and its commands. Where a client must log in by SASL, the member does not start.
func TestNoSectionOfUsers(t *testing.T) {
	const key = "java.security.auth.login.config=DIR/jaas\n"
	for _, jaas := range []string{"", strings.Replace(jaasText, "Server {", "Client {", 1)} {
		cfg, warnings, at, err := loadLogin(t, key, jaas)
		if err != nil || cfg.Login.Users != nil || cfg.Rules.SASL {
			t.Errorf("%q: %v, users %v, rule %t", jaas, err, cfg.Login.Users, cfg.Rules.SASL)
		}
		if want := at("DIR/jaas has no section Server: no client can log in by SASL"); !strings.Contains(warnings, want) {
			t.Errorf("%q: warnings %s, want %q", jaas, warnings, want)
		}
		const refused = "sessionRequireClientSASLAuth asks for SASL, and no client can log in by it"
		if _, _, _, err := loadLogin(t, key+"sessionRequireClientSASLAuth=true\n", jaas); err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("%q: %v, want %s", jaas, err, refused)
		}
	}
}

// A JAAS file that others can read causes a warning.
func TestOpenUsers(t *testing.T) {
	dir, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=0\njava.security.auth.login.config=DIR/jaas\n", "jaas": jaasText})
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o604: true, 0o602: true, 0o660: true} {
		if err := os.Chmod(at("DIR/jaas"), mode); err != nil {
			t.Fatal(err)
		}
		_, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
		if got := strings.Contains(texts(warnings), "java.security.auth.login.config: the file is open to others"); err != nil || got != warned {
			t.Errorf("mode %v: %v, %s", mode, err, texts(warnings))
		}
	}
}

// The schemes that clients need follow from three keys, as in ZooKeeper.
func TestSchemes(t *testing.T) {
	const users = "java.security.auth.login.config=DIR/jaas\n"
	for _, tt := range []struct {
		lines   string
		schemes []string
		warning string
		err     string
	}{
		{"enforce.auth.enabled=false\nsessionRequireClientSASLAuth=false\n", nil, "", ""},
		{users + "sessionRequireClientSASLAuth=true\n", []string{"sasl"}, "", ""},
		{users + "zookeeper.enforce.auth.enabled=true\nenforce.auth.schemes=sasl , digest\n", []string{"sasl", "digest"}, "", ""},
		{"enforce.auth.enabled=true\nenforce.auth.schemes=digest,sasl\n", []string{"digest", "sasl"}, "", ""},
		{users + "sessionRequireClientSASLAuth=true\nenforce.auth.enabled=true\nenforce.auth.schemes=digest\n", []string{"sasl"}, "", ""},
		{"enforce.auth.schemes=digest\n", nil, "enforce.auth.schemes has no effect without enforce.auth.enabled=true", ""},
		{"enforce.auth.enabled=true\n", nil, "", "zoo.cfg:3: enforce.auth.enabled=true needs enforce.auth.schemes: one or more of digest, ip, sasl, x509"},
		{"enforce.auth.enabled=true\nenforce.auth.schemes=,\n", nil, "", "needs enforce.auth.schemes"},
		{"enforce.auth.enabled=true\nenforce.auth.schemes=world\n", nil, "", "zoo.cfg:4: enforce.auth.schemes=world: must be digest, ip, sasl, x509, with commas between them"},
		{"sessionRequireClientSASLAuth=true\n", nil, "", "zoo.cfg:3: sessionRequireClientSASLAuth asks for SASL, and no client can log in by it; set java.security.auth.login.config"},
		{"enforce.auth.schemes=sasl\nenforce.auth.enabled=true\n", nil, "", "zoo.cfg:3: enforce.auth.schemes asks for SASL"},
	} {
		cfg, warnings, _, err := loadLogin(t, tt.lines, jaasText)
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %s", tt.lines, err, tt.err)
		}
		if err == nil && !slices.Equal(cfg.Login.Schemes, tt.schemes) {
			t.Errorf("%s: schemes %q, want %q", tt.lines, cfg.Login.Schemes, tt.schemes)
		}
		if !strings.Contains(warnings, tt.warning) || tt.warning == "" && err == nil && warnings != "" {
			t.Errorf("%s: warnings %s, want %q", tt.lines, warnings, tt.warning)
		}
	}
}
