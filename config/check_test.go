package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each verdict has its cause. A value is dangerous only if it is so, and a secret is not shown.
func TestCheckVerdicts(t *testing.T) {
	const digest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
	tests := []struct {
		line    string
		verdict Verdict
		why     string
	}{
		{"snapCount=5000", InForce, ""},
		{"zookeeper.snapCount=5000", InForce, ""},
		{"snapCount=1", Refused, "must be"},
		{"leaderServes=no", NoEffect, "the leader takes clients, too"},
		{"leaderServes=yes", InForce, ""},
		{"group.1=1:2", Refused, "counted by heads"},
		{"snapcount=5000", Unknown, "no such key"},
		{"DigestAuthenticationProvider.superDigest=" + digest, InForce, ""},
		{"DigestAuthenticationProvider.superdigest=" + digest, Unknown, "no such key"},
		{"metricsProvider.ssl.keyStore.password=secret", NoEffect, "ZooKeeper's providers"},
		{"authProvider.1=secret", NoEffect, "Java classes"},
		{"zookeeper.SASLAuthenticationProvider.superPassword=secret", NoEffect, "in the JAAS file"},
		{"kerberos.password=secret", NoEffect, "how ZooKeeper's members log in again"},
		{"ssl.sslProvider=secret", NoEffect, "no such key is known"},

		{"tickTime=500", InForce, ""},
		{"tickTime=499", Dangerous, "may be over before"},
		{"failover=fast", InForce, ""},
		{"failover=150", InForce, ""},
		{"failover=149", Dangerous, "taken for a dead one"},
		{"failover=slow", Refused, "fast, normal, wan, or 100 to 60000 (ms)"},
		{"minSessionTimeout=6000", InForce, ""}, // the default tick is 3 s
		{"minSessionTimeout=5999", Dangerous, "below 2 ticks"},
		{"maxClientCnxns=1", InForce, ""},
		{"maxClientCnxns=0", Dangerous, "file descriptors"},
		{"jute.maxbuffer=4194304", InForce, ""},
		{"jute.maxbuffer=4194305", Dangerous, "holds up the others"},
		{"admin.serverAddress=127.0.0.2", InForce, ""},
		{"admin.serverAddress=localhost", InForce, ""},
		{"admin.serverAddress=0.0.0.0", Dangerous, "without admin.forceHttps=true"},
		{"metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider", InForce, ""},
		{"metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider", Dangerous, "can read the metrics"},
		{"admin.localReads=state", InForce, ""},
		{"admin.localReads=data", Dangerous, "every process on this machine reads nodes"},
		{"otlp.endpoint=http://127.0.0.1:4318", InForce, ""},
		{"otlp.endpoint=http://collector:4318", Dangerous, "use https"},
		{"otlp.endpoint=https://secret@collector", Refused, "otlp.headersFile"},
		{"archive.to=/mnt/archive", InForce, ""},
		{"archive.to=archive", Refused, "s3://bucket/prefix"},
		{"archive.to=s3://Bucket", Refused, "s3://bucket/prefix"},
		{"archive.endpoint=https://s3.example", InForce, ""},
		{"archive.endpoint=http://s3.example", Dangerous, "use https"},
		{"archive.endpoint=https://key:secret@s3.example", Refused, "put keys into the file of credentials"},
		{"archive.region=a b", Refused, "letters, digits and hyphens"},
		{"portUnification=false", InForce, ""},
		{"portUnification=true", Dangerous, "may be a member"},
		{"ssl.quorum.hostnameVerification=true", InForce, ""},
		{"ssl.quorum.hostnameVerification=false", Dangerous, "any certificate of the authority"},
		{"ssl.quorum.clientAuth=none", InForce, ""},
		{"skipACL=no", InForce, ""},
		{"skipACL=yes", Dangerous, "every client"},
		{"letAnySaslUserDoX=shared", Dangerous, "what ACLs let shared do"},
		{"letAnySaslUserDoX=", Refused, "a name of 1 to 1024 bytes"},
		{"letAnySaslUserDoX=a@b@c", Refused, "a name of 1 to 1024 bytes"},
		{"java.security.auth.login.config=DIR/users", InForce, ""},
		{"java.security.auth.login.config=DIR/open", Dangerous, "the file is open to others"},
		{"allowSaslFailedClients=false", InForce, ""},
		{"allowSaslFailedClients=true", Dangerous, "without an identity"},
		{"enforce.auth.schemes=digest", InForce, ""},
		{"enforce.auth.schemes=digest,ip", Dangerous, "none is rejected"},
	}
	for _, tt := range tests {
		dir, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=2181\n" + tt.line + "\n", "users": jaasText, "open": jaasText})
		if err := os.Chmod(filepath.Join(dir, "open"), 0o604); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "zoo.cfg")
		r := Check(file, nil, Flags{})
		name, value, _ := strings.Cut(at(tt.line), "=")
		var found []Key
		for _, k := range r.Config.Keys {
			if k.Source == file+":3" {
				found = append(found, k)
			}
		}
		if len(found) != 1 {
			t.Errorf("%s: rows %+v, want one", tt.line, found)
			continue
		}
		k := found[0]
		if strings.Contains(value, "secret") || strings.Contains(value, digest) || tt.verdict == Unknown {
			value = ""
		}
		if k.Name != canonicalName(name) || k.Value != value || k.Verdict != tt.verdict || !strings.Contains(k.Reason, tt.why) || (tt.why == "") != (k.Reason == "") {
			t.Errorf("%s: %+v, want it %s because %q", tt.line, k, tt.verdict, tt.why)
		}
		if failed := len(r.Errors) > 0; failed != (tt.verdict == Refused) {
			t.Errorf("%s: errors %v", tt.line, r.Errors)
		}
	}
}

// Every risk of the table has a value that shows it in the test above.
func TestEveryRiskIsTested(t *testing.T) {
	tested := "admin.localReads tickTime failover minSessionTimeout maxClientCnxns jute.maxbuffer admin.serverAddress metricsProvider.className portUnification ssl.quorum.hostnameVerification skipACL java.security.auth.login.config allowSaslFailedClients enforce.auth.schemes otlp.endpoint archive.endpoint letAnySaslUserDoX"
	for i := range keys {
		if k := &keys[i]; k.riskOf != nil && !strings.Contains(tested, k.name) {
			t.Errorf("%s: add its dangerous value to TestCheckVerdicts, and its name here", k.name)
		}
	}
}

// Check reports all keys that are wrong, and so does Load. A key that is not set has its
// default.
func TestCheckReportsAll(t *testing.T) {
	dir, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=x\ntickTime=-1\nsnapCount=7\nno.such=1\n"})
	file := filepath.Join(dir, "zoo.cfg")
	r := Check(file, []string{"JVMFLAGS=-Dzookeeper.skipACL=yes"}, parseFlags(t, "-set", "enforceQuota=true"))
	if len(r.Errors) != 2 || !strings.Contains(r.Errors[0].Error(), "clientPort=x") || !strings.Contains(r.Errors[1].Error(), "tickTime=-1") {
		t.Errorf("errors %v", r.Errors)
	}
	all := fmt.Sprintf("2 values are refused; %v; %v", r.Errors[0], r.Errors[1])
	if _, _, err := Load(file, nil, Flags{}); err == nil || err.Error() != all {
		t.Errorf("Load: %v, want %v", err, all)
	}
	from := map[string]string{"snapCount": file + ":4", "skipACL": "JVMFLAGS", "enforceQuota": "--set", "syncLimit": "default", "no.such": file + ":5"}
	for _, k := range r.Config.Keys {
		if want := from[k.Name]; want != "" && k.Source != want {
			t.Errorf("%s is from %s, want %s", k.Name, k.Source, want)
		}
		delete(from, k.Name)
		if k.Source == "default" && k.Default == "" {
			t.Errorf("%s: no default", k.Name)
		}
	}
	if len(from) > 0 {
		t.Errorf("not reported: %v", from)
	}
	if r := Check(filepath.Join(dir, "none.cfg"), nil, Flags{}); len(r.Errors) != 1 || len(r.Config.Keys) != 0 {
		t.Errorf("a file that is not there: %+v", r)
	}
	concerns, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nminSessionTimeout=9\nmaxSessionTimeout=8\n"})
	if r := Check(filepath.Join(concerns, "zoo.cfg"), nil, Flags{}); len(r.Errors) != 1 || len(r.Config.Keys) == 0 {
		t.Errorf("two keys that do not fit: %v, %d keys", r.Errors, len(r.Config.Keys))
	}
	audited, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\naudit.required=true\n"})
	if r := Check(filepath.Join(audited, "zoo.cfg"), nil, Flags{}); len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Error(), "audit.required=true needs audit.enable=true") {
		t.Errorf("audit.required without audit.enable: %v", r.Errors)
	}
}

// HTTP that is meant for other machines is no reason to trust every request over loopback: a warning says so, until somebody decides.
func TestLoopbackTrustWarning(t *testing.T) {
	for lines, want := range map[string]bool{
		"": false, "admin.serverAddress=0.0.0.0": true, "admin.serverAddress=localhost": false,
		"admin.serverAddress=0.0.0.0\nadmin.loopbackTrust=true": false, "admin.serverAddress=0.0.0.0\nadmin.loopbackTrust=false": false,
		"admin.serverAddress=0.0.0.0\nadmin.enableServer=false": false,
	} {
		dir, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=2181\n" + lines + "\n"})
		r := Check(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
		warned := slices.ContainsFunc(r.Warnings, func(w Warning) bool { return strings.Contains(w.Text, "admin.loopbackTrust=false") })
		if len(r.Errors) > 0 || warned != want {
			t.Errorf("%q: warned: %t, want %t; %v", lines, warned, want, r.Errors)
		}
	}
}
