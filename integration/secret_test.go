package integration

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/logs/logtest"
	"rollcall/quorum/trust"
	"rollcall/zk/jute"
)

// secretFile returns the path of a new file with a secret.
func secretFile(t *testing.T, secrets ...string) string {
	t.Helper()
	if len(secrets) == 0 {
		secrets = []string{"a secret of the members in tests"}
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(strings.Join(secrets, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A member with another secret takes no part: the others serve without it, log its address, and send no reply. A member
// that also accepts plain connections works with a plain one.
func TestSecret(t *testing.T) {
	const tick = time.Second
	right, wrong := secretFile(t), secretFile(t, "a secret that the others lack")
	// loginBy gives a member a login that all such members know.
	loginBy := func(user string) func(cfg *member.Config) {
		const module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
		file := filepath.Join(t.TempDir(), "jaas")
		text := fmt.Sprintf("QuorumServer { %s user_ann=\"a password of tests\" user_bob=\"a password of tests\"; };\n"+
			"QuorumLearner { %[1]s username=%[2]q password=\"a password of tests\"; };\n", module, user)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(cfg *member.Config) {
			cfg.Trust.SecretFile = ""
			cfg.Trust.MemberLogin = trust.MemberLogin{File: file, ServerSection: "QuorumServer", LearnerSection: "QuorumLearner"}
		}
	}
	for _, tt := range []struct {
		name   string
		odd    func(cfg *member.Config) // changes the configuration of member 3
		all    func(cfg *member.Config) // and that of the others
		serves bool                     // whether member 3 does
		logs   string
	}{
		{"the same", func(cfg *member.Config) { cfg.Trust.SecretFile = right }, func(*member.Config) {}, true, ""},
		{"another", func(cfg *member.Config) { cfg.Trust.SecretFile = wrong }, func(*member.Config) {}, false, "the proof is wrong: a process that says it is member 3"},
		{"a login of members", loginBy("ann"), loginBy("bob"), true, ""},
		{"a login of members, and a secret", loginBy("ann"), func(*member.Config) {}, false, "the proof is wrong: a process that says it is member 3"},
		{"plain", func(cfg *member.Config) { cfg.Trust.SecretFile = "" }, func(*member.Config) {}, false, "portUnification is not set"},
		{"plain, and the others take it", func(cfg *member.Config) { cfg.Trust.SecretFile = "" }, func(cfg *member.Config) { cfg.Trust.AcceptPlain = true }, true, "plain members are still accepted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := &logtest.Buffer{}
				e := cluster.Start(t, 3, cluster.Options{
					Tick:   tick,
					Logger: func(uint32) *slog.Logger { return slog.New(slog.NewTextHandler(logs, nil)) },
					Adjust: func(cfg *member.Config) {
						cfg.NewEnsemble = true // two can begin without the third
						if cfg.Trust.SecretFile = right; cfg.ID == 3 {
							tt.odd(cfg)
						} else {
							tt.all(cfg)
						}
					},
				})
				serves := func(id uint32) bool { return e.Member(id).Role() != "" }
				e.Wait("members 1 and 2 to serve", 60*tick, func() bool { return serves(1) && serves(2) })
				if tt.serves {
					e.Wait("member 3 to serve", 60*tick, func() bool { return serves(3) })
				} else if time.Sleep(30 * tick); serves(3) {
					t.Error("member 3 serves")
				}
				c := e.Connect(20*tick, 1, 2)
				if _, err := c.Create("/a", nil, jute.Persistent); err != nil {
					t.Error(err)
				}
				if !strings.Contains(logs.String(), tt.logs) || tt.logs == "" && strings.Contains(logs.String(), "refused connection") {
					t.Errorf("logged no %q:\n%s", tt.logs, logs.String())
				}
				for _, addr := range []string{"m1:2888", "m2:2888"} {
					conn, err := e.Network.Dial(t.Context(), 0, addr)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n"))
					if answer, err := io.ReadAll(conn); len(answer) > 0 {
						t.Errorf("a stranger is told %q, %v", answer, err)
					}
					_ = conn.Close()
				}
			})
		})
	}
}
