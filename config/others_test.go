package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The zoo.cfg of each application, as its documentation shows it, starts a member: no key is unknown, and a member warns of what has no
// effect.
func TestFilesOfApplications(t *testing.T) {
	files, err := filepath.Glob("testdata/others/*.cfg")
	if err != nil || len(files) != 7 {
		t.Fatalf("%v, %v; want seven files", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir, _ := inDir(t, map[string]string{"zoo.cfg": string(text), "myid": "2"})
			r := Check(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
			if len(r.Errors) > 0 {
				t.Fatalf("%v", r.Errors)
			}
			if strings.Contains(texts(r.Warnings), "unknown") || r.Config.Dir != dir {
				t.Errorf("directory %s; warnings:\n%s", r.Config.Dir, texts(r.Warnings))
			}
		})
	}
}

// A jute.maxbuffer above what an entry of the log may have starts a member. The log and the check name the bound and its reason, once each.
func TestLargeBufferIsBounded(t *testing.T) {
	for _, value := range []string{"52428800", "0x3200000", "173159500"} {
		dir, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=2181\njute.maxbuffer=" + value + "\n"})
		r := Check(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
		if len(r.Errors) > 0 || r.Config.Limits.MaxBuffer != maxMaxBuffer {
			t.Fatalf("%v, MaxBuffer %d", r.Errors, r.Config.Limits.MaxBuffer)
		}
		if got := texts(r.Warnings); strings.Count(got, "counts as 8388608: a request is one entry of the log") != 1 {
			t.Errorf("warnings: %s", got)
		}
		for _, k := range r.Config.Keys {
			if k.Name == "jute.maxbuffer" && (k.Verdict != Dangerous || !strings.Contains(k.Reason, "counts as 8388608")) {
				t.Errorf("config check: %+v", k)
			}
		}
	}
}

// The variables of Bitnami's image make the same member as there.
func TestBitnamisVariables(t *testing.T) {
	dir := t.TempDir()
	env := []string{
		"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_SERVER_ID=2", "ZOO_PORT_NUMBER=2199", "ALLOW_ANONYMOUS_LOGIN=yes", "ZOO_ENABLE_AUTH=no",
		"ZOO_SERVERS=zoo1:2888:3888::1,zoo2:2888:3888::2,zoo3:2888:3888::5", "ZOO_LISTEN_ALLIPS_ENABLED=yes", "ZOO_MAX_SESSION_TIMEOUT=90000",
		"ZOO_HEAP_SIZE=1024", "ZOO_TLS_CLIENT_ENABLE=false", "ZOO_RECONFIG_ENABLED=yes", "ZOO_SNAPCOUNT=5000",
	}
	cfg, warnings, err := Load("", env, Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.MyID != 2 || cfg.ClientAddr != "0.0.0.0:2199" || !cfg.ListenOnAllIPs || cfg.MaxTimeout.Milliseconds() != 90000 || !cfg.Rules.Reconfig || cfg.SnapCount != 5000 || cfg.Standalone {
		t.Errorf("Load = %+v", cfg)
	}
	got := texts(warnings)
	for _, want := range []string{"ALLOW_ANONYMOUS_LOGIN: no effect", "ZOO_HEAP_SIZE: no effect", "/bitnami/zookeeper/data"} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings lack %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "unknown") {
		t.Errorf("warnings:\n%s", got)
	}

	env = []string{"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ALLOW_ANONYMOUS_LOGIN=yes"}
	if cfg, _, err := Load("", env, Flags{}); err != nil || !cfg.Standalone || cfg.ClientAddr != "0.0.0.0:2181" {
		t.Errorf("one server: %+v, %v", cfg, err)
	}
}

// What would make the ensemble less safe than Bitnami's is refused by name, with what to write.
func TestBitnamisRefusals(t *testing.T) {
	for variable, want := range map[string]string{
		"ZOO_ENABLE_AUTH=yes":                             "ZOO_ENABLE_AUTH=yes needs users: ZOO_SERVER_USERS has 0 names, and ZOO_SERVER_PASSWORDS 0 passwords",
		"ZOO_ENABLE_AUTH=on":                              "ZOO_ENABLE_AUTH=on: must be yes, true or 1, or no, false or 0",
		"ZOO_TLS_CLIENT_ENABLE=\"true\"":                  "must be yes, true or 1",
		"ZOO_SERVERS=,;":                                  "ZOO_SERVERS: ,;: names no server",
		"ZOO_SERVERS= ":                                   "names no server",
		"ZOO_ENABLE_QUORUM_AUTH=yes":                      "ZOO_ENABLE_QUORUM_AUTH=yes needs users: ZOO_QUORUM_SERVER_USERS has 0 names, and ZOO_QUORUM_SERVER_PASSWORDS 0 passwords",
		"ZOO_ENABLE_QUORUM_AUTH=on":                       "ZOO_ENABLE_QUORUM_AUTH=on: must be yes, true or 1, or no, false or 0",
		"ZOO_TLS_CLIENT_ENABLE=true":                      "ZOO_TLS_PORT_NUMBER: secureClientPort needs a private key with its certificate; set ssl.keyStore.location",
		"ZOO_TLS_QUORUM_ENABLE=true":                      "ZOO_TLS_QUORUM_ENABLE: sslQuorum=true needs ssl.quorum.keyStore.location",
		"ZOO_SERVERS=0.0.0.0:2888:3888,zoo2:2888:3888":    "write the name of this member in place of 0.0.0.0",
		"ZOO_SERVERS=zoo1:2888,zoo2:2888:3888":            "must be server.N=HOST:PORT:PORT;PORT, or HOST:PORT:PORT::N",
		"ZOO_SERVERS=zoo1:2888:3888::x,zoo2:2888:3888::2": "server.x",
	} {
		dir := t.TempDir()
		_, _, err := Load("", []string{"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_SERVER_ID=1", variable}, Flags{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", variable, err, want)
		}
	}
}

// Bitnami's variables of TLS and of users make the same member as there, and the faults of all variables are told at once.
func TestBitnamisLogins(t *testing.T) {
	dir := t.TempDir()
	env := []string{
		"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_SERVER_ID=1", "ZOO_SERVERS=zoo1:2888:3888,zoo2:2888:3888,zoo3:2888:3888",
		"ZOO_ENABLE_AUTH=yes", "ZOO_SERVER_USERS=ann,bob", "ZOO_SERVER_PASSWORDS=a;b", "ZOO_CLIENT_USER=ann", "ZOO_CLIENT_PASSWORD=a",
		"ZOO_TLS_CLIENT_ENABLE=true", "ZOO_TLS_CLIENT_KEYSTORE_FILE=/k.pem", "ZOO_TLS_CLIENT_KEYSTORE_PASSWORD=hush", "ZOO_TLS_CLIENT_TRUSTSTORE_FILE=/t.pem",
		"ZOO_TLS_QUORUM_ENABLE=true", "ZOO_TLS_QUORUM_KEYSTORE_FILE=/qk.pem", "ZOO_TLS_QUORUM_TRUSTSTORE_FILE=/qt.pem",
	}
	cfg, warnings, err := Load("", env, Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.SecureAddr != "0.0.0.0:3181" || cfg.ClientTLS.Key.Location != "/k.pem" || cfg.ClientTLS.Key.Password != "hush" || cfg.ClientTLS.Trust.Location != "/t.pem" {
		t.Errorf("clients: %s, %+v", cfg.SecureAddr, cfg.ClientTLS)
	}
	if q := cfg.Trust; !q.ShowCertificates || q.Certificates.KeyStore.Location != "/qk.pem" || q.Certificates.TrustStore.Location != "/qt.pem" {
		t.Errorf("members: %+v", q)
	}
	if cfg.Login.Users == nil || !cfg.Rules.SASL || strings.Contains(texts(warnings), "hush") || strings.Contains(texts(warnings), "unknown") {
		t.Errorf("users %v; warnings:\n%s", cfg.Login.Users, texts(warnings))
	}
	off := append(slices.Clone(env), "ZOO_TLS_CLIENT_ENABLE=no", "ZOO_TLS_QUORUM_ENABLE=no", "ZOO_ENABLE_AUTH=no")
	if cfg, _, err := Load("", off, Flags{}); err != nil || cfg.SecureAddr != "" || cfg.Trust.ShowCertificates || cfg.Login.Users != nil {
		t.Errorf("off: %s, %v, %v, %v", cfg.SecureAddr, cfg.Trust.ShowCertificates, cfg.Login.Users, err)
	}
	wrong := append(slices.Clone(env), "ZOO_ENABLE_QUORUM_AUTH=yes", "ZOO_TLS_CLIENT_ENABLE=maybe")
	if _, _, err := Load("", wrong, Flags{}); err == nil || !strings.HasPrefix(err.Error(), "2 values are refused; ") || !strings.Contains(err.Error(), "ZOO_ENABLE_QUORUM_AUTH=yes needs users") || !strings.Contains(err.Error(), "; ZOO_TLS_CLIENT_ENABLE=maybe") {
		t.Errorf("two faults: %v", err)
	}
	for _, names := range []string{"ann,ann", "ann,b/c@d@e", "ann," + strings.Repeat("x", 1025)} {
		named := append(slices.Clone(env), "ZOO_SERVER_USERS="+names)
		if _, _, err := Load("", named, Flags{}); err == nil || !strings.Contains(err.Error(), "each name must stand there once") {
			t.Errorf("%.20s: %v", names, err)
		}
	}
	jaas := filepath.Join(dir, "jaas")
	text := "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_eve=\"e\"; };\n"
	if err := os.WriteFile(jaas, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	two := append(slices.Clone(env), "JVMFLAGS=-Djava.security.auth.login.config="+jaas+" -Dzookeeper.superUser=zz")
	if _, _, err := Load("", two, Flags{}); err == nil || !strings.Contains(err.Error(), "section Server of the file has users, and ZOO_SERVER_USERS has some, too") {
		t.Errorf("users of two sources: %v", err)
	}
	super := append(slices.Clone(env), "JVMFLAGS=-Dzookeeper.superUser=zz")
	if _, warnings, err := Load("", super, Flags{}); err != nil || !strings.Contains(texts(warnings), "superUser=zz is none of the users of SASL") {
		t.Errorf("a super user who is none: %v\n%s", err, texts(warnings))
	}
}

// The variables of Confluent's image make the member of an ensemble that they make there. Those that Kubernetes sets for a service called
// zookeeper, and those that stand for no key, change nothing.
func TestConfluentsVariables(t *testing.T) {
	dir := t.TempDir()
	base := []string{"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir}
	env := append(slices.Clone(base),
		"ZOOKEEPER_SERVER_ID=2", "ZOOKEEPER_CLIENT_PORT=22181", "ZOOKEEPER_TICK_TIME=2500", "ZOOKEEPER_INIT_LIMIT=7", "ZOOKEEPER_SYNC_LIMIT=3",
		"ZOOKEEPER_SERVERS=zoo1:22888:23888;zoo2:22888:23888;zoo3:22888:23888", "ZOOKEEPER_AUTOPURGE_SNAP_RETAIN_COUNT=3", "ZOOKEEPER_4LW_COMMANDS_WHITELIST=ruok",
		"ZOOKEEPER_MAX_CLIENT_CNXNS=77", "ZOOKEEPER_JUTE_MAXBUFFER=2000000", "ZOOKEEPER_LOG4J_ROOT_LOGLEVEL=WARN",
		"ZOOKEEPER_PORT=tcp://10.0.0.1:2181", "ZOOKEEPER_PORT_2181_TCP=tcp://10.0.0.1:2181", "ZOOKEEPER_SERVICE_HOST=10.0.0.1",
		"KAFKA_OPTS=-Xmx1g -Dzookeeper.maxCnxns=99")
	cfg, warnings, err := Load("", env, Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.MyID != 2 || cfg.ClientAddr != "0.0.0.0:22181" || cfg.Tick != 2500*time.Millisecond || cfg.SyncLimit != 3 || cfg.Standalone ||
		len(cfg.Servers) != 3 || cfg.Limits.MaxClientConns != 77 || cfg.Limits.MaxBuffer != 2_000_000 || cfg.Limits.MaxConns != 99 {
		t.Errorf("Load = %+v", cfg)
	}
	if got := texts(warnings); strings.Count(got, "unknown") != 1 || !strings.Contains(got, "ZOOKEEPER_LOG4J_ROOT_LOGLEVEL: unknown variable") {
		t.Errorf("warnings:\n%s", got)
	}
	if cfg, _, err := Load("", append(slices.Clone(base), "ZOOKEEPER_CLIENT_PORT=22181"), Flags{}); err != nil || !cfg.Standalone || cfg.ClientAddr != "0.0.0.0:22181" {
		t.Errorf("one server: %+v, %v", cfg, err)
	}
	if cfg, _, err := Load("", append(slices.Clone(base), "ZOOKEEPER_CLIENT_PORT=tcp://10.0.0.1:2181"), Flags{}); err != nil || cfg.ClientAddr != "0.0.0.0:2181" {
		t.Errorf("a service called zookeeper-client: %+v, %v", cfg, err)
	}
	addressed := append(slices.Clone(base), "ZOOKEEPER_CLIENT_PORT=22181", "ZOOKEEPER_CLIENT_PORT_ADDRESS=127.0.0.1", "ZOOKEEPER_CLIENT_PORT_UNIFICATION=false",
		"ZOOKEEPER_GROUPS=1:2", "ZOOKEEPER_SERVERSX=1", "ZOOKEEPER_WEIGHT_1=1", "ZOOKEEPER_PORT_2181_UDP_ADDR=10.0.0.1")
	cfg, warnings, err = Load("", addressed, Flags{})
	if got := texts(warnings); err != nil || cfg.ClientAddr != "127.0.0.1:22181" || strings.Count(got, "unknown variable") != 2 ||
		!strings.Contains(got, "ZOOKEEPER_GROUPS: unknown") || !strings.Contains(got, "ZOOKEEPER_SERVERSX: unknown") {
		t.Errorf("an address for clients: %s, %v; warnings:\n%s", cfg.ClientAddr, err, got)
	}
	if _, _, err := Load("", append(slices.Clone(base), "ZOOKEEPER_SERVERS=0.0.0.0:1:2;b:1:2"), Flags{}); err == nil || !strings.Contains(err.Error(), "ZOOKEEPER_QUORUM_LISTEN_ON_ALL_IPS=true") {
		t.Errorf("a wildcard: %v", err)
	}
}

// A server with the weight 0 is an observer. The super users of all keys count, and ZooKeeper's key for silent connections does unless
// Rollcall's own is set.
func TestOthersKeysTakeEffect(t *testing.T) {
	jaas := "Users { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann=\"a\" user_bob=\"b\" user_eve=\"e\"; };"
	text := "dataDir=DIR\nclientPort=2181\ninitLimit=5\nsyncLimit=2\nserver.1=a:1:2\nweight.2=0\nserver.2=b:1:2\nserver.3=c:1:2\nweight.1=1\n" +
		"zookeeper.superUser=ann\nsuperUser.x=bob\nzookeeper.sasl.serverconfig=Users\njava.security.auth.login.config=DIR/jaas\nzookeeper.nio.sessionlessCnxnTimeout=2500\n"
	for own, want := range map[string]time.Duration{"": 2500 * time.Millisecond, "handshakeTimeout=4000\n": 4 * time.Second} {
		dir, _ := inDir(t, map[string]string{"zoo.cfg": text + own, "myid": "1", "jaas": jaas})
		cfg, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
		if err != nil {
			t.Fatal(err)
		}
		if two, _ := cfg.Servers.Find(2); !two.Observer || len(cfg.Servers.Voters()) != 2 {
			t.Errorf("servers: %v", cfg.Servers)
		}
		if supers := strings.Join(cfg.Login.SuperUsers, " "); supers != "ann bob" {
			t.Errorf("super users: %s", supers)
		}
		if cfg.Limits.Handshake != want {
			t.Errorf("%q: connections without a session end after %v", own, cfg.Limits.Handshake)
		}
		if got := texts(warnings); strings.Contains(got, "no effect") || strings.Contains(got, "unknown") {
			t.Errorf("warnings:\n%s", got)
		}
	}
}

// The users of Bitnami's login between members are their secret, and need no file. What is missing is named, and no password is shown.
func TestBitnamisMemberLogin(t *testing.T) {
	const on, users, passwords = "ZOO_ENABLE_QUORUM_AUTH=yes", "ZOO_QUORUM_SERVER_USERS=ann,bob", "ZOO_QUORUM_SERVER_PASSWORDS=hush-a,hush-b"
	const user, password = "ZOO_QUORUM_LEARNER_USER=bob", "ZOO_QUORUM_LEARNER_PASSWORD=hush-b"
	for _, tt := range []struct {
		name, err string
		env       []string
	}{
		{"as Bitnami's", "", []string{on, users, passwords, user, password}},
		{"no passwords", "ZOO_QUORUM_SERVER_USERS has 2 names, and ZOO_QUORUM_SERVER_PASSWORDS 0 passwords", []string{on, users, user, password}},
		{"no user of this member", "set ZOO_QUORUM_LEARNER_USER and ZOO_QUORUM_LEARNER_PASSWORD", []string{on, users, passwords, password}},
		{"no password of this member", "set ZOO_QUORUM_LEARNER_USER and ZOO_QUORUM_LEARNER_PASSWORD", []string{on, users, passwords, user}},
		{"another password", `ZOO_QUORUM_SERVER_USERS has no user "bob" with the password`, []string{on, users, passwords, user, password + "x"}},
		{"a stranger", `has no user "eve" with the password`, []string{on, users, passwords, "ZOO_QUORUM_LEARNER_USER=eve", password}},
		{"a secret, too", "ensembleSecretFile is set, too", []string{on, users, passwords, user, password, "ROLLCALL_ENSEMBLE_SECRET_FILE=/secret"}},
		{"a JAAS file, too", "leave one of them out", []string{
			on, users, passwords, user, password, "ZOO_CFG_EXTRA=quorum.auth.enableSasl=true quorum.auth.learnerRequireSasl=true",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			env := append([]string{
				"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_SERVER_ID=1", "ZOO_SERVERS=zoo1:2888:3888,zoo2:2888:3888,zoo3:2888:3888",
			}, tt.env...)
			cfg, warnings, err := Load("", env, Flags{})
			if (err != nil) != (tt.err != "") || !strings.Contains(fmt.Sprint(err), tt.err) {
				t.Fatalf("Load: %v, want %q", err, tt.err)
			}
			if text := fmt.Sprint(err) + texts(warnings); strings.Contains(text, "hush") || strings.Contains(text, "unknown") {
				t.Errorf("%s", text)
			}
			if err != nil {
				return
			}
			given := cfg.Trust.MemberLogin.Given
			if given == nil || given.Name != "bob" || len(given.Passwords) != 2 || cfg.Trust.IsPlain() || cfg.Trust.AcceptPlain {
				t.Errorf("%+v", cfg.Trust)
			}
			if text := fmt.Sprintf("%v %+v %#v", cfg, cfg.Trust, given); strings.Contains(text, "hush") {
				t.Errorf("a password is shown: %s", text)
			}
		})
	}
}
