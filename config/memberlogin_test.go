package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/quorum/trust"
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
