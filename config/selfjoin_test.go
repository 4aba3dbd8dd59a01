package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// With members.join=auto, a process that has proved nothing could become a member in some configurations. They are rejected.
func TestSelfJoinNeedsAProof(t *testing.T) {
	const (
		secret       = "ensembleSecretFile=DIR/secret\n"
		certificates = "sslQuorum=true\nssl.quorum.keyStore.location=DIR/k.pem\nssl.quorum.trustStore.location=DIR/t.pem\n"
		hosts        = "members.join.hosts=*.members.example, zk9\n"
		anyHost      = "ssl.quorum.hostnameVerification=false\n"
		users        = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\njava.security.auth.login.config=DIR/users\n"
		kerberos     = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\njava.security.auth.login.config=DIR/kerberos\n" +
			"java.security.krb5.conf=DIR/krb5\nquorum.auth.kerberos.servicePrincipal=member/_HOST\n"
		user     = "org.apache.zookeeper.server.auth.DigestLoginModule required user_ann=\"a\" username=ann password=\"a\""
		keytab   = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=\"DIR/keytab\" principal=\"member/a@R\""
		required = "quorum.auth.serverRequireSasl=true\n"
	)
	for _, tt := range []struct{ name, lines, err, warning string }{
		{"a secret", three + secret, "", ""},
		{"certificates", three + certificates, "zoo.cfg:1: members.join=auto with certificates between members needs members.join.hosts", ""},
		{"certificates, and the hosts of members", three + certificates + hosts, "", ""},
		{"both", three + secret + certificates, "members.join=auto with certificates between members needs members.join.hosts", ""},
		{"both, and the hosts of members", three + secret + certificates + hosts, "", ""},
		{"a secret, and the hosts of members", three + secret + hosts, "", ""},
		{"hosts with a wildcard in the middle", three + secret + "members.join.hosts=zk.*.example\n", `members.join.hosts=zk.*.example: host "zk.*.example": must be`, ""},
		{"every host", three + secret + "members.join.hosts=*\n", `host "*": must be`, ""},
		{"hosts of members that do not come", "members.join=off\n" + three + secret + hosts, "", "members.join.hosts has no effect without members.join=auto"},
		{"a secret, and a key about certificates that are not used", three + secret + anyHost, "", ""},
		{"one member", "standaloneEnabled=false\ninitLimit=5\nsyncLimit=2\nserver.1=a:2888:3888;2181\n" + secret, "", ""},
		{"logins of members", three + users + required, "", ""},
		{"nothing", three, "zoo.cfg:1: members.join=auto needs a proof of the members", ""},
		{"certificates for any host", three + certificates + hosts + anyHost, "zoo.cfg:1: members.join=auto with ssl.quorum.hostnameVerification=false", ""},
		{"both, and certificates for any host", three + secret + certificates + hosts + anyHost, "members.join=auto with ssl.quorum.hostnameVerification=false", ""},
		{"plain connections", three + secret + "portUnification=true\n", "members.join=auto with plain connections", ""},
		{"logins of members that are not required", three + users, "members.join=auto with plain connections", ""},
		{"Kerberos", three + kerberos + required, "members.join=auto with Kerberos", ""},
		{"a standalone server", "clientPort=2181\n" + secret, "zoo.cfg:1: members.join=auto on a standalone server", ""},
		{"one server line", "server.1=a:2888:3888;2181\n" + secret, "members.join=auto on a standalone server", ""},
		{"an even number of voters", three + secret + "members.voters=4\n", "members.voters=4: 4 is even; write an odd number", ""},
		{"a line of members that do not come", "members.join=off\n" + three + secret + "members.line=p{id}:1:2;3\n", "", "members.line has no effect without members.join=auto"},
		{"voters of members that do not come", "members.join=off\n" + three + secret + "members.voters=3\n", "", "members.voters has no effect without members.join=auto"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "dataDir=DIR\n" + tt.lines
			if !strings.HasPrefix(tt.lines, "members.join") {
				text = "members.join=auto\n" + text
			}
			dir, _ := inDir(t, map[string]string{
				"zoo.cfg": text, "myid": "1\n",
				"users": memberSections(user, user), "kerberos": memberSections(keytab, keytab), "krb5": "[libdefaults]\ndefault_realm = R\n",
			})
			_, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
			if (err != nil) != (tt.err != "") || !strings.Contains(fmt.Sprint(err), tt.err) || !strings.Contains(texts(warnings), tt.warning) {
				t.Errorf("Load: %v, want %q; warnings %s", err, tt.err, texts(warnings))
			}
		})
	}
}

// A host may come if a pattern of members.join.hosts matches it. A wildcard stands for one label, as in a certificate, and never for a part of an
// address.
func TestHostsThatMayCome(t *testing.T) {
	j := SelfJoin{Hosts: []string{"zk1.example", "*.members.example", "*.pods", "10.0.0.7", "*.0.0.8", "fd00::7"}}
	for host, want := range map[string]bool{
		"zk1.example": true, "ZK1.Example": true, "a.members.example": true, "A.Members.EXAMPLE": true, "rollcall-3.pods": true, "10.0.0.7": true, "fd00::7": true,
		"zk2.example": false, "members.example": false, ".members.example": false, "a.b.members.example": false, "amembers.example": false, "app.example": false,
		"pods": false, "10.0.0.8": false, "10.0.0.70": false, "": false,
	} {
		if got := j.HasHost(host); got != want {
			t.Errorf("%q may come: %t, want %t", host, got, want)
		}
	}
	if (SelfJoin{}).HasHost("zk1.example") {
		t.Error("a host may come without a pattern")
	}
}
