package sasl

import (
	"maps"
	"strings"
	"testing"
)

const module = "org.apache.zookeeper.server.auth.DigestLoginModule"

// zookeepersFile is the example of ZooKeeper's documentation, with what else JAAS files have.
const zookeepersFile = `/* the users
   of clients */
QuorumServer {
       org.apache.zookeeper.server.auth.DigestLoginModule required
       user_test="test";
};
// the section that counts
Server {
       org.apache.zookeeper.server.auth.DigestLoginModule REQUIRED
       debug=true
       user_super="admin;secret" // a comment
       user_bob = bobsecret
       user_carol="c\"ar\\ol\101\12\n"
       "user_a b/c@D"="\z\400"
       user_empty="";
       org.apache.zookeeper.server.auth.DigestLoginModule sufficient user_more="m";
};
Client {
       com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/k" principal="zk/host@R";
};
`

// The users of all modules in the section are read, as Java 17 does.
func TestParseJAAS(t *testing.T) {
	want := map[string]string{
		"super": "admin;secret", "bob": "bobsecret", "carol": "c\"ar\\olA\n\n", "a b/c@D": "z 0", "empty": "", "more": "m",
	}
	for _, text := range []string{zookeepersFile, strings.ReplaceAll(zookeepersFile, "\n", "\r\n")} {
		got, err := ParseJAAS([]byte(text), "Server")
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("users %q, %v, want %q", got, err, want)
		}
	}
	if got, err := ParseJAAS([]byte(zookeepersFile), "QuorumServer"); err != nil || !maps.Equal(got, map[string]string{"test": "test"}) {
		t.Errorf("users of another section: %q, %v", got, err)
	}
	if got, err := ParseJAAS([]byte("Ü{"+module+" optional user_é='\"; / no end\n\"x\";};"), "Ü"); err == nil {
		t.Errorf("single quotes: %q", got)
	}
	if got, err := ParseJAAS([]byte("Ü{"+module+" optional user_é= / only a comment\n\"ß\";};"), "Ü"); err != nil || got["é"] != "ß" {
		t.Errorf("other letters: %q, %v", got, err)
	}
}

// Each error names the line and what is allowed, and shows no password.
func TestParseJAASRefuses(t *testing.T) {
	const head = "Server {\n" + module + " required\n"
	for _, tt := range []struct{ text, want string }{
		{"", `no section "Server" in the file`},
		{"Client {" + module + " required user_x=\"secret\";};", `no section "Server" in the file`},
		{"Server {};", "has no user; add an option such as user_bob="},
		{"Server {\n" + module + " required username=\"x\" password=\"secret\";};", "has no user"},
		{head + "user_bob=\"secret\";\n}", "line 4: the end of the file; must be ; after the } of a section"},
		{head + "user_bob=\"secret\";\n", "line 4: the end of the file; must be the class of a login module, or }"},
		{head + "user_bob=\"secret\"\n};", "line 3: the login module ends here without ; after its last option; add the ;"},
		{head + "};", "line 2: the login module ends here without ;"},
		{head + "user_bob=\"secret\"", "line 3: the login module ends here without ;"},
		{head + "user_bob=\"secret\"\n\n" + module + " required;\n};", "line 3: the login module ends here without ;"},
		{head + "user_bob \"secret\";\n};", "line 3: a word or value; must be = after the name of an option"},
		{head + "user_bob=;\n};", "line 3: ';'; must be a value in double quotes"},
		{head + "user_bob='secret';\n};", `line 3: '\''; must be a value in double quotes`},
		{head + "user_bob=\"secret\n\";};", "line 3: a text in double quotes must end on its line"},
		{head + "user_bob=\"secret\r\";};", "line 3: a text in double quotes must end on its line"},
		{head + "user_bob=\"secret", "line 3: a text in double quotes must end on its line"},
		{head + "user_bob=\"secret\\", "line 3: a text in double quotes must end on its line"},
		{head + "user_bob=\"secret\",\nuser_x=\"secret\";};", "line 3: ','; must be an option, or ;"},
		{head + "user_bob=\"secret\"\nuser_bob=\"secret\";};", `line 4: duplicate user "bob"`},
		{head + "user_=\"secret\";};", "line 3: the name after user_ must have 1 to 1024 bytes, with at most one @ and no / after it"},
		{head + "\"user_a@b@c\"=\"secret\";};", "line 3: the name after user_ must have 1 to 1024 bytes, with at most one @ and no / after it"},
		{head + "user_" + strings.Repeat("x", MaxUserName+1) + "=\"secret\";};", "line 3: the name after user_ must have 1 to 1024 bytes, with at most one @ and no / after it"},
		{head + "user_bob=\"${secret}\";};", "line 3: a value with ${"},
		{"Server {\n" + module + " needed user_bob=\"secret\";};", "line 2: the word after the class of a login module must be required, requisite, sufficient or optional"},
		{"Server {\ncom.sun.security.auth.module.Krb5LoginModule required;};", "line 2: section \"Server\" uses Kerberos (Krb5LoginModule), which is not supported here"},
		{"Server {\nmy.Module required;};", "line 2: section \"Server\" has the login module \"my.Module\"; must be " + module},
		{head + "user_bob=\"secret\";};\nServer {};", "line 4: duplicate section \"Server\""},
		{head + "user_bob=\"secret\";};\n# comment", "line 4: '#'; must be the name of a section"},
		{"Server [", "line 1: '['; must be {"},
		{"\n/* secret", "line 2: a comment that begins with /* must end with */"},
		{strings.Repeat(" ", MaxJAASBytes+1), "the file has over 1048576 bytes"},
	} {
		users, err := ParseJAAS([]byte(tt.text), "Server")
		if err == nil ||
			!strings.HasPrefix(err.Error(), tt.want) && !strings.Contains(err.Error(), "section \"Server\" "+tt.want) || users != nil {
			t.Errorf("%q:\n%v, want\n%s", tt.text[:min(len(tt.text), 200)], err, tt.want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in %v", err)
		}
	}
}

const kerberosOptions = " required useKeyTab=true keyTab=\"/etc/zk.keytab\" storeKey=true useTicketCache=false principal=\"zk/host@R\";};"

// The section decides whether clients log in by passwords or by Kerberos.
func TestParseServerLogin(t *testing.T) {
	for _, head := range []string{kerberosModule + " required debug=true useKeyTab = \"TRUE\" storeKey=true ", kerberosModule + " requisite storeKey=true useKeyTab=true "} {
		for option, want := range map[string]string{`"/etc/zk.keytab"`: "/etc/zk.keytab", `"FILE:/k"`: "/k", `"file:/k"`: "/k", `"file:"`: "file:"} {
			got, err := ParseServerLogin([]byte("Server {"+head+"keyTab="+option+` principal="zk/host@R";};`), "Server")
			if err != nil || got.Users != nil || got.Kerberos == nil || *got.Kerberos != (KerberosLogin{want, "zk/host@R"}) {
				t.Errorf("%s: %v, %v", option, got, err)
			}
		}
	}
	got, err := ParseServerLogin([]byte(zookeepersFile), "Server")
	if err != nil || got.Kerberos != nil || got.Users["bob"] != "bobsecret" {
		t.Errorf("users: %v, %v", got, err)
	}
}

func TestParseServerLoginRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"Server {" + kerberosModule + ` required storeKey=true keyTab="/k" principal="p";};`, `section "Server" needs useKeyTab=true in its ` + kerberosModule},
		{"Server {" + kerberosModule + ` required useKeyTab=true keyTab="/k" principal="p";};`, `section "Server" needs storeKey=true in its ` + kerberosModule},
		{"Server {" + kerberosModule + ` required useKeyTab=true storeKey=true principal="p";};`, `section "Server" has no keytab; add the option keyTab="/path"`},
		{"Server {" + kerberosModule + ` required useKeyTab=true storeKey=true keyTab="/k";};`, `section "Server" has no principal; add the option principal="zookeeper/host@REALM"`},
		{"Server {" + module + ` required user_bob="secret"; ` + kerberosModule + kerberosOptions, `section "Server" has users and ` + kerberosModule},
		{"Server {\ncom.ibm.security.auth.module.Krb5LoginModule required;};", `line 2: section "Server" has the login module "com.ibm.security.auth.module.Krb5LoginModule"; must be ` + kerberosModule},
		{"Server {" + module + ` required;};`, `section "Server" has no user`},
		{"Client {" + kerberosModule + kerberosOptions, `no section "Server"`},
	} {
		got, err := ParseServerLogin([]byte(tt.text), "Server")
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) && !strings.HasSuffix(err.Error(), tt.want) ||
			got.Users != nil || got.Kerberos != nil {
			t.Errorf("%s:\n%v, want\n%s", tt.text, err, tt.want)
		}
	}
}

// A client has a keytab, or the cache of tickets.
func TestParseClientKerberos(t *testing.T) {
	for _, tt := range []struct {
		text string
		want *KerberosLogin
		err  bool
	}{
		{"Client {" + kerberosModule + kerberosOptions, &KerberosLogin{"/etc/zk.keytab", "zk/host@R"}, false},
		{"Client {" + kerberosModule + ` required useTicketCache=true principal="bob@R";};`, &KerberosLogin{"", "bob@R"}, false},
		{"Client {" + kerberosModule + ` required useTicketCache=true;};`, &KerberosLogin{}, false},
		{"Client {" + kerberosModule + ` required useKeyTab=true keyTab="/k" principal="bob@R";};`, &KerberosLogin{"/k", "bob@R"}, false},
		{"Client {" + kerberosModule + ` required principal="bob@R";};`, nil, true},
		{"Client {" + module + ` required username="bob" password="secret";};`, nil, false},
		{"Server {" + module + ` required username="bob" password="secret";};`, nil, true},
	} {
		got, err := ParseClientKerberos([]byte(tt.text), "Client")
		if (err != nil) != tt.err || (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: %v, %v", tt.text, got, err)
		}
	}
}

// No file makes the reader panic or run on. What it accepts has users that ACLs can name.
func FuzzParseJAAS(f *testing.F) {
	f.Add(zookeepersFile)
	f.Add("Server{\"" + module + "\" optional user_\"x\"=1;};")
	f.Fuzz(func(t *testing.T, text string) {
		users, err := ParseJAAS([]byte(text), "Server")
		if (err == nil) != (len(users) > 0) {
			t.Fatalf("%q, %v", users, err)
		}
		for name := range users {
			if name == "" || !ValidName(name) {
				t.Fatalf("user %q", name)
			}
		}
	})
}

// A section has Kerberos if its module is Krb5LoginModule and the file is well-formed.
func TestUsesKerberos(t *testing.T) {
	const file = "A { com.sun.security.auth.module.Krb5LoginModule required; };\nB { " + module + " required user_a=b; };\n"
	for section, want := range map[string]bool{"A": true, "B": false, "C": false} {
		if got := UsesKerberos([]byte(file), section); got != want {
			t.Errorf("section %s: %t, want %t", section, got, want)
		}
	}
	if UsesKerberos([]byte(file+"D {"), "A") {
		t.Error("a file that ends within a section counts")
	}
}
