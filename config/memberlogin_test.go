package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/quorum/trust"
	"rollcall/zk/kerberos"
)

// The keys of ZooKeeper's login between members make the users in the JAAS file the secret of the members, or say what is missing.
func TestMemberLogin(t *testing.T) {
	const (
		jaas     = "java.security.auth.login.config=DIR/jaas\n"
		enable   = "quorum.auth.enableSasl=true\n"
		server   = "quorum.auth.serverRequireSasl=true\n"
		learner  = "quorum.auth.learnerRequireSasl=true\n"
		sections = "quorum.auth.server.saslLoginContext=S\nquorum.auth.learner.saslLoginContext=L\n"
	)
	tests := []struct {
		name, lines, err     string
		server, learner      string
		acceptPlain, clients bool
	}{
		{name: "off", lines: "quorum.auth.enableSasl=false\n"},
		{name: "required", lines: jaas + enable + server + learner, server: "QuorumServer", learner: "QuorumLearner"},
		{name: "as Java properties", lines: jaas + "zookeeper." + enable + server + learner, server: "QuorumServer", learner: "QuorumLearner"},
		{name: "other sections", lines: jaas + enable + server + learner + sections, server: "S", learner: "L"},
		{name: "not required yet", lines: jaas + enable + learner, server: "QuorumServer", learner: "QuorumLearner", acceptPlain: true},
		{name: "clients, too", lines: jaas + enable + server + learner + "sasl.serverconfig=Clients\n", server: "QuorumServer", learner: "QuorumLearner", clients: true},
		{name: "no file", lines: enable + server + learner, err: "zoo.cfg:3: quorum.auth.enableSasl=true needs a JAAS file with the sections QuorumServer and QuorumLearner; set java.security.auth.login.config"},
		{name: "of the server alone", lines: jaas + enable + server, err: "zoo.cfg:5: quorum.auth.serverRequireSasl=true needs quorum.auth.learnerRequireSasl=true"},
		{name: "not on", lines: jaas + learner, err: "zoo.cfg:4: quorum.auth.learnerRequireSasl=true needs quorum.auth.enableSasl=true"},
		{name: "two secrets", lines: jaas + enable + server + learner + "ensembleSecretFile=x\n", err: "zoo.cfg:4: quorum.auth.enableSasl=true, but ensembleSecretFile is set, too, in DIR/zoo.cfg:7"},
		{name: "clients' section is misspelt", lines: jaas + enable + server + learner + "sasl.serverconfig=Client\n", err: `no section "Client" in the file`},
		{name: "no users, and SASL is asked for", lines: jaas + enable + server + learner + "sessionRequireClientSASLAuth=true\n", err: "to a JAAS file whose section Server has users"},
		{name: "clients without a section", lines: jaas},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, at := inDir(t, map[string]string{
				"zoo.cfg": "dataDir=DIR\nclientPort=0\n" + tt.lines,
				"jaas":    "Clients { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann=\"a\"; };\n",
			})
			cfg, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
			if (err != nil) != (tt.err != "") || !strings.Contains(fmt.Sprint(err), at(tt.err)) {
				t.Fatalf("Load: %v, want %s", err, at(tt.err))
			}
			want := trust.MemberLogin{ServerSection: tt.server, LearnerSection: tt.learner}
			if tt.server != "" {
				want.File = at("DIR/jaas")
			}
			if err == nil && (cfg.Trust.MemberLogin != want || cfg.Trust.AcceptPlain != tt.acceptPlain || (cfg.Login.Users != nil) != tt.clients) {
				t.Errorf("%+v, want %+v; users of clients: %v", cfg.Trust, want, cfg.Login.Users != nil)
			}
			if plain := strings.Contains(texts(warnings), "plain connections between members are accepted"); plain != tt.acceptPlain {
				t.Errorf("warnings:\n%s", texts(warnings))
			}
		})
	}
}

// memberSections returns a JAAS file with these modules in the sections of members.
func memberSections(server, learner string) string {
	return "QuorumServer { " + server + "; };\nQuorumLearner { " + learner + "; };\n"
}

// Sections with Krb5LoginModule have members prove themselves by Kerberos. What is wrong there keeps a member from starting.
func TestMemberKerberos(t *testing.T) {
	const (
		keys    = "java.security.auth.login.config=DIR/jaas\njava.security.krb5.conf=DIR/krb5\nquorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n"
		require = "quorum.auth.serverRequireSasl=true\n"
		name    = "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST\n"
		module  = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
		server  = module + "keyTab=\"DIR/server.keytab\" principal=\"zkquorum/M1@R\""
		learner = module + "keyTab=\"FILE:DIR/learner.keytab\" principal=\"learner/m1\""
		users   = "org.apache.zookeeper.server.auth.DigestLoginModule required user_ann=\"a\" username=ann password=\"a\""
		conf    = "[libdefaults]\ndefault_realm = R\nclockskew = 60\n"
	)
	of := func(name string) kerberos.Principal { return kerberos.Principal{Name: name, Realm: "R"} }
	usual := trust.Kerberos{
		Dialed: trust.KeytabPrincipal{Keytab: "DIR/server.keytab", Principal: of("zkquorum/M1")}, DialedName: "zkquorum/_HOST",
		Dialing: trust.KeytabPrincipal{Keytab: "DIR/learner.keytab", Principal: of("learner/m1")}, Krb5Conf: "DIR/krb5", ClockSkew: time.Minute,
	}
	shared := usual
	shared.DialedName = "zkquorum/localhost"
	for _, tt := range []struct {
		name, lines, jaas, krb5 string
		want                    trust.Kerberos
		plain                   bool
		warning, err            string
	}{
		{name: "usual", lines: keys + require + name, want: usual},
		{name: "with its realm", lines: keys + require + "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST@R\n", want: usual},
		{name: "not required yet", lines: keys + name, want: usual, plain: true, warning: "plain connections between members are accepted and opened"},
		{
			name: "one principal of all, as by default", lines: keys + require, want: shared,
			warning: "quorum.auth.kerberos.servicePrincipal=zkquorum/localhost is one principal of all members",
		},
		{name: "another realm", lines: keys + require + "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST@S\n", err: "zoo.cfg:8: quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST@S: the realm is S; must be that of this member's principals, R"},
		{name: "users in one", lines: keys + require + name, jaas: memberSections(users, learner), err: "of the sections QuorumServer and QuorumLearner one has Kerberos, and the other one users"},
		{name: "users in the other", lines: keys + require + name, jaas: memberSections(server, users), err: "one has Kerberos, and the other one users"},
		{name: "users", lines: keys + require + name, jaas: memberSections(users, users), warning: "quorum.auth.kerberos.servicePrincipal has no effect: section QuorumServer has users"},
		{name: "no keytab", lines: keys + require + name, jaas: memberSections(module+"principal=x", learner), err: "section \"QuorumServer\" has no keytab"},
		{name: "no principal", lines: keys + require + name, jaas: memberSections(server, module+"keyTab=x"), err: "section \"QuorumLearner\" has no principal"},
		{name: "no realm", lines: keys + require + name, krb5: "\n", err: "section QuorumLearner: the principal \"learner/m1\" has no realm"},
		{name: "bad krb5.conf", lines: keys + require + name, krb5: "[libdefaults]\nclockskew = x\n", err: "DIR/krb5: line 2: clockskew="},
		{
			name: "a cache of tickets", lines: keys + require + name, err: "section QuorumLearner takes tickets from a cache",
			jaas: memberSections(server, "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true principal=x"),
		},
		{name: "no section", lines: keys + require + name, jaas: "QuorumServer { " + server + "; };\n", err: "no section \"QuorumLearner\" in the file"},
		{name: "while members move from a secret", lines: keys + require + name + "ensembleSecretFile=DIR/krb5\n", want: usual},
		{name: "users and a secret", lines: keys + require + "ensembleSecretFile=x\n", jaas: memberSections(users, users), err: "but ensembleSecretFile is set, too"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.jaas == "" {
				tt.jaas = memberSections(server, learner)
			}
			dir, at := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=0\n" + tt.lines, "jaas": tt.jaas, "krb5": cmp.Or(tt.krb5, conf)})
			cfg, warnings, err := Load(filepath.Join(dir, "zoo.cfg"), nil, Flags{})
			if (err != nil) != (tt.err != "") || !strings.Contains(fmt.Sprint(err), at(tt.err)) {
				t.Fatalf("Load: %v, want %s", err, at(tt.err))
			}
			if err != nil {
				return
			}
			for _, path := range []*string{&tt.want.Dialed.Keytab, &tt.want.Dialing.Keytab, &tt.want.Krb5Conf} {
				*path = at(*path)
			}
			if cfg.Trust.Kerberos != tt.want || cfg.Trust.AcceptPlain != tt.plain || (cfg.Trust.MemberLogin.File != "") == (tt.want != trust.Kerberos{}) {
				t.Errorf("%+v, want %+v", cfg.Trust, tt.want)
			}
			if text := texts(warnings); !strings.Contains(text, tt.warning) || tt.warning == "" && text != "" {
				t.Errorf("warnings:\n%s", text)
			}
		})
	}
}
