package config

import (
	"os"
	"path/filepath"
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
		"ZOO_ENABLE_AUTH=yes":                             "ZOO_ENABLE_AUTH=yes: this variable of Bitnami's image is not served: write the users into a JAAS file",
		"ZOO_ENABLE_AUTH=yes ":                            "this variable of Bitnami's image is not served",
		"ZOO_ENABLE_AUTH=on":                              "this variable of Bitnami's image is not served",
		"ZOO_TLS_CLIENT_ENABLE=\"true\"":                  "set secureClientPort",
		"ZOO_SERVERS=,;":                                  "ZOO_SERVERS: ,;: names no server",
		"ZOO_SERVERS= ":                                   "names no server",
		"ZOO_ENABLE_QUORUM_AUTH=yes":                      "set ROLLCALL_ENSEMBLE_SECRET_FILE",
		"ZOO_TLS_CLIENT_ENABLE=true":                      "set secureClientPort",
		"ZOO_TLS_QUORUM_ENABLE=true":                      "set sslQuorum=true",
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
