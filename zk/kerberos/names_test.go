package kerberos

import (
	"strings"
	"testing"
)

// The names match ZooKeeper 3.9.6, class KerberosName, in the realm EXAMPLE.COM.
func TestNames(t *testing.T) {
	for _, tt := range []struct{ rules, principal, want string }{
		{"", "bob@EXAMPLE.COM", "bob"},
		{"", "app/host@EXAMPLE.COM", "app"},
		{"DEFAULT", "bob@EXAMPLE.COM", "bob"},
		{"RULE:[1:$1]", "bob@OTHER.COM", "bob"},
		{"RULE:[2:$1.$2]", "app/host@OTHER.COM", "app.host"},
		{"RULE:[1:$1;$0](.*;OTHER.COM)s/;.*//", "bob@OTHER.COM", "bob"},
		{"RULE:[1:$1;$0](.*;OTHER.COM)s/;.*// DEFAULT", "bob@EXAMPLE.COM", "bob"},
		{"  RULE:[2:$1](app)s/^(.)pp$/service$1/\n\tDEFAULT ", "app/h@EXAMPLE.COM", "servicea"},
		{"RULE:[1:$1]s/o/0/", "boob@EXAMPLE.COM", "b0ob"},
		{"RULE:[1:$1]s/o/0/g", "boob@EXAMPLE.COM", "b00b"},
		{"RULE:[1:$1]s/(b)(o)/$2$11/", "bob@EXAMPLE.COM", "ob1b"},
		{`RULE:[1:$1]s/o/\$0\\/`, "bob@EXAMPLE.COM", `b$0\b`},
		{"RULE:[1:$1]s/x*/-/g", "bob@EXAMPLE.COM", "-b-o-b-"},
		{"RULE:[1:$1]s/(x)?b/<$1>/g", "bob@EXAMPLE.COM", "<>o<>"},
		{"RULE:[1:](.*)s/^$/nobody/", "bob@EXAMPLE.COM", "nobody"},
		{"RULE:[1:a](b)RULE:[1:c]", "bob@EXAMPLE.COM", "c"},
		{"RULE:[1:$1](b|bob)s/b//", "bob@EXAMPLE.COM", "ob"},
		{"RULE:[1:$1](b)s/b// DEFAULT", "bob@EXAMPLE.COM", "bob"},
	} {
		rules, err := ParseRules(tt.rules)
		if err != nil {
			t.Errorf("%s: %v", tt.rules, err)
			continue
		}
		names := Names{Rules: rules, DefaultRealm: "EXAMPLE.COM", RemoveHost: true, RemoveRealm: true}
		if got, err := names.NameOf(tt.principal); err != nil || got != tt.want {
			t.Errorf("%s: %s is %q, %v; want %q", tt.rules, tt.principal, got, err, tt.want)
		}
	}
}

// Host and realm are appended to the short name unless they are removed.
func TestNamesWithHostAndRealm(t *testing.T) {
	rules, err := ParseRules("RULE:[2:$1-service] DEFAULT")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, realm bool // removed
		service     string
		user        string
	}{
		{false, false, "app-service/host@EXAMPLE.COM", "bob@EXAMPLE.COM"},
		{true, false, "app-service@EXAMPLE.COM", "bob@EXAMPLE.COM"},
		{false, true, "app-service/host", "bob"},
		{true, true, "app-service", "bob"},
	} {
		names := Names{Rules: rules, DefaultRealm: "EXAMPLE.COM", RemoveHost: tt.host, RemoveRealm: tt.realm}
		for principal, want := range map[string]string{"app/host@EXAMPLE.COM": tt.service, "bob@EXAMPLE.COM": tt.user} {
			if got, err := names.NameOf(principal); err != nil || got != want {
				t.Errorf("%v: %q, %v; want %q", tt, got, err, want)
			}
		}
	}
}

// A principal that no rule fits has no name, and neither has one of which a rule makes a name with a slash or an at sign.
func TestNoName(t *testing.T) {
	for _, tt := range []struct{ rules, principal, text string }{
		{"", "bob@OTHER.COM", `no rule of security.auth_to_local fits "bob@OTHER.COM"; DEFAULT fits principals of the realm "EXAMPLE.COM"`},
		{"RULE:[1:$1]", "app/host@EXAMPLE.COM", "no rule"},
		{"RULE:[3:$1]", "app/host@EXAMPLE.COM", "no rule"},
		{"RULE:[1:$1@$0]", "bob@EXAMPLE.COM", `rule "RULE:[1:$1@$0]" of security.auth_to_local makes "bob@EXAMPLE.COM" of "bob@EXAMPLE.COM"`},
		{"RULE:[1:a/b]", "bob@EXAMPLE.COM", "no slash"},
		{"RULE:[1:]", "bob@EXAMPLE.COM", "has 0 bytes"},
		{"RULE:[1:" + strings.Repeat("$1", 3000) + "]", "bob@EXAMPLE.COM", "over 4096 bytes"},
		{"RULE:[1:$1]s/b/" + strings.Repeat("x", 5000) + "/g", "bob@EXAMPLE.COM", "over 4096 bytes"},
		{"RULE:[1:$1]s/b/" + strings.Repeat("x", 3000) + "/g", "bob@EXAMPLE.COM", "over 4096 bytes"},
		{"RULE:[1:$1]s/b/" + strings.Repeat("x", 1100) + "/", "bob@EXAMPLE.COM", "must be 1 to 1024"},
	} {
		rules, err := ParseRules(tt.rules)
		if err != nil {
			t.Fatal(err)
		}
		names := Names{Rules: rules, DefaultRealm: "EXAMPLE.COM", RemoveHost: true, RemoveRealm: true}
		got, err := names.NameOf(tt.principal)
		if err == nil || faultOf(t, err) != NoName || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%.60s: %q, %v; want %s", tt.rules, got, err, tt.text)
		}
	}
}

func TestParseRulesRefuses(t *testing.T) {
	for _, tt := range []struct{ rules, text string }{
		{"default", `no rule at "default"; must be DEFAULT or RULE:`},
		{"DEFAULT RULE:1", `no rule at "RULE:1"`},
		{"RULE:[:$1]", `the number of parts is ""`},
		{"RULE:[1:$2]", "the format: a $ needs a number from 0 to 1"},
		{"RULE:[1:$]", "the format: a $ needs a number from 0 to 1"},
		{"RULE:[1:$99999999999999999999]", "the format: a $ needs a number from 0 to 1"},
		{"RULE:[99999999999999999999:$1]", "the number of parts is"},
		{"RULE:[1:$1](a[)", "the expression in parentheses"},
		{"RULE:[1:$1]s/(?=a)/b/", "the pattern: "},
		{"RULE:[1:$1]s/a/$1/", "the replacement: a $ needs a number from 0 to 0"},
		{"RULE:[1:$1]s/a/${x}/", "the replacement: a $ needs"},
		{`RULE:[1:$1]s/a/b\/`, "the replacement: a backslash at the end"},
		{strings.Repeat("DEFAULT ", MaxRules/8+1), "must be at most 65536"},
	} {
		if _, err := ParseRules(tt.rules); err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%.60s: %v, want %s", tt.rules, err, tt.text)
		}
	}
}

// No rules make the parser panic, and none of them makes a long name, or one with a slash or an at sign.
func FuzzRules(f *testing.F) {
	f.Add("RULE:[1:$1;$0](.*;OTHER.COM)s/(;).*/$1/g DEFAULT", "bob", "OTHER.COM")
	f.Add(`RULE:[2:$1$2](.*)s/a/\$b/`, "app/host", "EXAMPLE.COM")
	f.Fuzz(func(t *testing.T, text, name, realm string) {
		rules, err := ParseRules(text)
		if err != nil || strings.Contains(name, "@") {
			return
		}
		short, err := rules.apply(strings.Split(name, "/"), realm, "EXAMPLE.COM")
		if err == nil && (strings.ContainsAny(short, "/@") && !strings.ContainsAny(name, "/@") || len(short) > max(maxFormatted, len(name))+len(name)+maxFormatted) {
			t.Errorf("%q of %q", short, name)
		}
	})
}
