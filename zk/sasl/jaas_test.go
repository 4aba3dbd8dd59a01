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

// The users are those of all modules in the section, as Java 17 reads them.
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
		{"Server {\ncom.sun.security.auth.module.Krb5LoginModule required;};", "line 2: section \"Server\" uses Kerberos (Krb5LoginModule), which is not supported"},
		{"Server {\nmy.Module required;};", "line 2: section \"Server\" has the login module \"my.Module\"; must be " + module},
		{head + "user_bob=\"secret\";};\nServer {};", "line 4: duplicate section \"Server\""},
		{head + "user_bob=\"secret\";};\n# comment", "line 4: '#'; must be the name of a section"},
		{"Server [", "line 1: '['; must be {"},
		{"\n/* secret", "line 2: a comment that begins with /* must end with */"},
		{strings.Repeat(" ", MaxJAASBytes+1), "the file has over 1048576 bytes"},
	} {
		users, err := ParseJAAS([]byte(tt.text), "Server")
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) && !strings.Contains(err.Error(), "section \"Server\" "+tt.want) || users != nil {
			t.Errorf("%q:\n%v, want\n%s", tt.text[:min(len(tt.text), 200)], err, tt.want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in %v", err)
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
