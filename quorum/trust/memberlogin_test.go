package trust

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

const loginModule = "org.apache.zookeeper.server.auth.DigestLoginModule required"

// jaasGuard returns the guard of a member with a JAAS file: the options that name the users of all members, and this member's login.
func jaasGuard(t *testing.T, self uint32, users, login string) (*Guard, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jaas")
	text := fmt.Sprintf("QuorumServer { %s %s; };\nQuorumLearner { %[1]s %[3]s; };\n", loginModule, users, login)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	g, err := New(Config{
		Settings: Settings{MemberLogin: MemberLogin{File: path, ServerSection: "QuorumServer", LearnerSection: "QuorumLearner"}},
		MemberID: self, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
	})
	return g, logs.String(), err
}

// Members whose files name the same users connect, whatever the order and whoever logs in. With another password, or with another list of
// users, they do not.
func TestMembersLogInByJAAS(t *testing.T) {
	const users, ann, bob = `user_ann="annsecret" user_bob="bobsecret"`, `username="ann" password="annsecret"`, `username="bob" password="bobsecret"`
	tests := []struct {
		name, users, login string
		meet               bool
	}{
		{"the same", users, ann, true},
		{"another order and user", `user_bob="bobsecret" user_ann="annsecret"`, bob, true},
		{"another password", `user_ann="annsecret" user_bob="other"`, ann, false},
		{"fewer users", `user_ann="annsecret"`, ann, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialed, _, err := jaasGuard(t, 1, users, ann)
				if err != nil {
					t.Fatal(err)
				}
				dialer, _, err := jaasGuard(t, 2, tt.users, tt.login)
				if err != nil {
					t.Fatal(err)
				}
				out, in := meet(dialer, dialed)
				if !tt.meet {
					wantRejection(t, in.err, NoProof, "says it is member 2")
					return
				}
				if out.err != nil || in.err != nil {
					t.Fatalf("dialer: %v; dialed: %v", out.err, in.err)
				}
				_, _ = out.conn.Close(), in.conn.Close()
			})
		})
	}
}

// A member does not start with a login that the others would reject, and a short password is named in the log. No text shows a password.
func TestMemberLoginFile(t *testing.T) {
	const hush, long = "hushhush", "a password of enough characters"
	for _, tt := range []struct{ users, login, err, log string }{
		{`user_ann="` + long + `"`, `username="ann" password="` + long + `"`, "", ""},
		{`user_ann="` + hush + `"`, `username="ann" password="` + hush + `"`, "", "every password of section QuorumServer has less than 16 characters"},
		{`user_ann="` + hush + `" user_b="` + long + `"`, `username="ann" password="` + hush + `"`, "", ""},
		{`user_ann="` + hush + `"`, `username="ann" password="` + long + `"`, `section QuorumServer has no user "ann" with the password that section QuorumLearner gives`, ""},
		{`user_ann="` + hush + `"`, `username="bob" password="` + hush + `"`, `section QuorumServer has no user "bob"`, ""},
		{`user_ann="` + hush + `"`, `username="ann"`, `section "QuorumLearner" has no password`, ""},
		{"", `username="ann" password="` + hush + `"`, `section "QuorumServer" has no user`, ""},
	} {
		g, logs, err := jaasGuard(t, 1, tt.users, tt.login)
		if (err == nil) != (tt.err == "") || (g == nil) != (tt.err != "") || !strings.Contains(fmt.Sprint(err), tt.err) {
			t.Errorf("%s %s: %v, want %q", tt.users, tt.login, err, tt.err)
		}
		if (logs == "") != (tt.log == "") || !strings.Contains(logs, tt.log) {
			t.Errorf("%s %s: logs %q, want %q", tt.users, tt.login, logs, tt.log)
		}
		if text := fmt.Sprint(err) + logs; strings.Contains(text, hush) || strings.Contains(text, long) {
			t.Errorf("a password is shown: %s", text)
		}
	}
}

// Members whose users come from variables connect to each other and to one with the same users in a file. A password of another value, or
// one that is too short, shows as with a file.
func TestMembersLogInByVariables(t *testing.T) {
	const long = "a password of enough characters"
	guard := func(self uint32, password string) (*Guard, string, error) {
		var logs bytes.Buffer
		given := &MemberUsers{Passwords: map[string]string{"ann": password}, Name: "ann", Password: password, From: "VARIABLE"}
		g, err := New(Config{Settings: Settings{MemberLogin: MemberLogin{Given: given}}, MemberID: self, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		return g, logs.String(), err
	}
	fromFile := func(self uint32, password string) (*Guard, string, error) {
		return jaasGuard(t, self, fmt.Sprintf("user_ann=%q", password), fmt.Sprintf("username=ann password=%q", password))
	}
	for _, tt := range []struct {
		name     string
		dialer   func(self uint32, password string) (*Guard, string, error)
		password string
		meet     bool
	}{{"the same", guard, long, true}, {"the same in a file", fromFile, long, true}, {"another", guard, "short", false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialed, logs, err := guard(1, long)
				if err != nil || logs != "" {
					t.Fatal(err, logs)
				}
				dialer, logs, err := tt.dialer(2, tt.password)
				if err != nil || strings.Contains(logs, "every password of VARIABLE has less than 16 characters") == tt.meet {
					t.Fatal(err, logs)
				}
				out, in := meet(dialer, dialed)
				if !tt.meet {
					wantRejection(t, in.err, NoProof, "has none of the secrets in VARIABLE")
					return
				}
				if out.err != nil || in.err != nil {
					t.Fatalf("dialer: %v; dialed: %v", out.err, in.err)
				}
				_, _ = out.conn.Close(), in.conn.Close()
			})
		})
	}
	given := &MemberUsers{Passwords: map[string]string{"ann": long}, Name: "bob", Password: long, From: "VARIABLE"}
	if _, err := New(Config{Settings: Settings{MemberLogin: MemberLogin{Given: given}}}); err == nil || !strings.Contains(err.Error(), `VARIABLE has no user "bob"`) || strings.Contains(err.Error(), long) {
		t.Errorf("a user that the others do not know: %v", err)
	}
}
