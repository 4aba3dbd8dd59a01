package member_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/operator/logs/logtest"
	"rollcall/zk/jute"
)

// secretPath returns a file with a secret of members.
func secretPath(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// comingByThemselves lets members come by themselves, with a secret. adjust may be nil.
func comingByThemselves(t *testing.T, adjust func(cfg *member.Config)) cluster.Options {
	t.Helper()
	secret := secretPath(t, "a secret of the members in tests")
	return cluster.Options{Adjust: func(cfg *member.Config) {
		cfg.Trust.SecretFile, cfg.SelfJoin.Auto, cfg.SelfJoin.Voters = secret, true, 5
		if adjust != nil {
			adjust(cfg)
		}
	}}
}

// voters returns the voters of the list, if raft's configurations have settled.
func voters(e *cluster.Ensemble) (ids []uint32) {
	if e.Settled() {
		ids = e.List().Voters()
	}
	return ids
}

func awaitVoters(t *testing.T, e *cluster.Ensemble, want ...uint32) {
	t.Helper()
	e.Wait(fmt.Sprintf("the voters %v", want), time.Minute, func() bool { return slices.Equal(voters(e), want) })
}

// writer creates nodes until it is ended, one after the other.
type writer struct {
	client *cluster.Client
	stop   chan struct{}
	done   chan []string // with the paths that were acknowledged
}

func startWriter(t *testing.T, e *cluster.Ensemble, members ...uint32) *writer {
	w := &writer{e.Connect(40*time.Second, members...), make(chan struct{}), make(chan []string, 1)}
	go func() {
		var acknowledged []string
		for n := 0; ; n++ {
			select {
			case <-w.stop:
				w.done <- acknowledged
				return
			case <-t.Context().Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
			path := fmt.Sprintf("/n%d", n)
			if _, err := w.client.Create(path, nil, jute.Persistent); err == nil {
				acknowledged = append(acknowledged, path)
			}
		}
	}()
	return w
}

// end ends the writes, and checks that each member of ids has all that were acknowledged.
func (w *writer) end(t *testing.T, e *cluster.Ensemble, ids ...uint32) {
	t.Helper()
	close(w.stop)
	acknowledged := <-w.done
	if len(acknowledged) < 20 {
		t.Errorf("only %d writes were acknowledged", len(acknowledged))
	}
	for _, id := range ids {
		c := e.Connect(40*time.Second, id)
		if err := c.Sync(); err != nil {
			t.Fatalf("member %d: %v", id, err)
		}
		for _, path := range acknowledged {
			if _, err := c.Exists(path, false); err != nil {
				t.Errorf("member %d has lost %s: %v", id, path, err)
			}
		}
	}
}

func bootNew(e *cluster.Ensemble, ids ...uint32) {
	for _, id := range ids {
		e.Add(id)
	}
	for _, id := range ids {
		e.Boot(id)
	}
}

// One member becomes three and five by starting the others, two at once. A fourth one and a sixth one observe. No acknowledged write is
// lost, and the audit log names who came.
func TestMembersComeByThemselves(t *testing.T) {
	t.Run("with a secret", func(t *testing.T) {
		comeByThemselves(t, func(*testing.T) func(*member.Config) { return func(*member.Config) {} })
	})
	t.Run("with certificates", func(t *testing.T) { comeByThemselves(t, certify) })
}

// comeByThemselves is TestMembersComeByThemselves with one kind of proof.
func comeByThemselves(t *testing.T, prove func(t *testing.T) func(cfg *member.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		lines, proof := new(auditLines), prove(t)
		e := one(t, comingByThemselves(t, func(cfg *member.Config) {
			cfg.Audit.Enable, cfg.AuditOutput = true, lines
			proof(cfg)
		}))
		w := startWriter(t, e, 1)
		bootNew(e, 2, 3)
		awaitVoters(t, e, 1, 2, 3)
		bootNew(e, 4)
		e.Wait("member 4 to observe", time.Minute, func() bool { return e.Settled() && e.Member(4).Role() == "observer" })
		time.Sleep(20 * time.Second)
		awaitVoters(t, e, 1, 2, 3)
		bootNew(e, 5)
		awaitVoters(t, e, 1, 2, 3, 4, 5)
		bootNew(e, 6, 7)
		e.Wait("members 6 and 7 to observe", time.Minute, func() bool {
			return e.Settled() && e.Member(6).Role() == "observer" && e.Member(7).Role() == "observer"
		})
		time.Sleep(20 * time.Second)
		awaitVoters(t, e, 1, 2, 3, 4, 5)
		w.end(t, e, 1, 2, 3, 4, 5, 6, 7)
		var came []string
		for _, line := range lines.find(t, "join members", "") {
			if line.Result == "success" && line.Target != "" && line.Address != "" {
				came = append(came, strings.Join(line.Who, " "))
			}
		}
		slices.Sort(came)
		for i, id := range []uint32{2, 3, 4, 5, 6, 7} {
			if i >= len(came) || !strings.Contains(came[i], fmt.Sprintf("member %d", id)) {
				t.Fatalf("the audit log names %q, want members 2 to 7 once each:\n%s", came, lines.String())
			}
		}
	})
}

// A leader lets nobody in that may not come: the list stays as it is, and the log has the reason.
func TestMembersThatMayNotCome(t *testing.T) {
	strange := secretPath(t, "a secret that the others lack")
	var issue, issueOther func(cfg *member.Config) // certificates that are valid in the test's time
	for _, tt := range []struct {
		name   string
		id     uint32
		adjust func(cfg *member.Config)
		logs   string
	}{
		{"the leader lets none in", 4, func(cfg *member.Config) { cfg.SelfJoin.Auto = cfg.ID == 4 }, "members.join=auto is not set here"},
		{"it does not ask", 4, func(cfg *member.Config) { cfg.SelfJoin.Auto = cfg.ID != 4 }, ""},
		{"without a proof", 4, func(cfg *member.Config) { cfg.Trust.SecretFile = "" }, "it has proved neither a secret nor a certificate"},
		{"with another secret", 4, func(cfg *member.Config) {
			if cfg.ID == 4 {
				cfg.Trust.SecretFile = strange
			}
		}, "the proof is wrong"},
		{"a certificate, and a line of another host", 4, func(cfg *member.Config) {
			if issue(cfg); cfg.ID == 4 {
				cfg.EnsembleText = []byte("server.4=m9:2888:3888:participant;m9:2181")
			}
			dial := cfg.Network.Dial
			cfg.Network.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				return dial(ctx, strings.ReplaceAll(addr, "m9:", "m4:")) // it is there, and its certificate is for m4
			}
		}, "its certificate is not one of a member at m9, the host of its server line: x509: certificate is valid for m4, not m9"},
		{"an application with a certificate of the authority", 4, func(cfg *member.Config) {
			issue(cfg)
			cfg.SelfJoin.Hosts = []string{"m1", "m2", "m3", "*.members"}
		}, "members.join.hosts=m1,m2,m3,*.members does not have m4, the host of its server line"},
		{"certificates, and no hosts of members", 4, func(cfg *member.Config) {
			issue(cfg)
			cfg.SelfJoin.Hosts = nil
		}, "members.join.hosts is not set here"},
		{"a secret, and another host than the members'", 4, func(cfg *member.Config) {
			cfg.SelfJoin.Hosts = []string{"m1", "m2", "m3"}
		}, "members.join.hosts=m1,m2,m3 does not have m4"},
		{"a certificate of another authority", 4, func(cfg *member.Config) {
			if cfg.ID == 4 {
				issueOther(cfg)
			} else {
				issue(cfg)
			}
		}, "certificate signed by unknown authority"},
		{"a line of another member", 4, func(cfg *member.Config) {
			if cfg.ID == 4 {
				cfg.EnsembleText = []byte("server.4=m2:2888:3888:participant;m4:2181")
			}
		}, "server.2 has the address m2:2888 too"},
		{"a line of another member's process", 4, func(cfg *member.Config) {
			if cfg.ID == 4 {
				cfg.EnsembleText = []byte("server.4=m9:2888:3888:participant;m9:2181")
			}
			dial := cfg.Network.Dial
			cfg.Network.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				return dial(ctx, strings.ReplaceAll(addr, "m9:", "m2:"))
			}
		}, "it does not reply at m9:2888"},
		{"a line where nobody is", 4, func(cfg *member.Config) {
			if cfg.ID == 4 {
				cfg.EnsembleText = []byte("server.4=m9:2888:3888:participant;m4:2181")
			}
		}, "it does not reply at m9:2888"},
		{"a port for clients that another one has", 4, func(cfg *member.Config) {
			if cfg.ID == 4 {
				cfg.EnsembleText = []byte("server.4=m4:2888:3888:participant;m1:2181")
			}
		}, "m1:2181"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				issue, issueOther = certify(t), certify(t)
				logs := &logtest.Buffer{}
				opts := comingByThemselves(t, tt.adjust)
				opts.Logger = func(uint32) *slog.Logger { return slog.New(slog.NewTextHandler(logs, nil)) }
				e := cluster.Start(t, 3, opts)
				e.Ready()
				bootNew(e, tt.id)
				time.Sleep(30 * time.Second)
				if got := e.Members(); !slices.Equal(got, []uint32{1, 2, 3}) {
					t.Errorf("the list has %v", got)
				}
				if !strings.Contains(logs.String(), tt.logs) || tt.logs == "" && strings.Contains(logs.String(), "was not let into") {
					t.Errorf("logged no %q:\n%s", tt.logs, logs.String())
				}
				c := e.Connect(40*time.Second, 1, 2, 3)
				if _, err := c.Create("/a", nil, jute.Persistent); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A request with a line that the member's own configuration could not have is rejected before it is read, and one with a number in use too.
func TestStrangeRequestsToCome(t *testing.T) {
	const (
		good    = "server.9=m9:2888:3888:participant;m9:2181"
		badLine = "is not one line of server.9"
	)
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, comingByThemselves(t, func(cfg *member.Config) { cfg.SelfJoin.Auto = cfg.ID != 9 }))
		leader := e.Ready()
		bootNew(e, 9)
		var others []string
		for id := 100; id < 130; id++ {
			others = append(others, fmt.Sprintf("server.%d=h%d:2888:3888:observer;h%d:2181", id, id, id))
		}
		for _, tt := range []struct {
			name, line string
			from       member.Caller
			want       string
		}{
			{"an id in use", strings.ReplaceAll(good, "server.9", fmt.Sprintf("server.%d", leader%3+1)), member.Caller{ID: leader%3 + 1, Proved: true}, "the list has a member"},
			{"no line", "", member.Caller{ID: 9, Proved: true}, badLine},
			{"a huge line", good + strings.Repeat(" ", 1<<20), member.Caller{ID: 9, Proved: true}, badLine},
			{"two lines", good + "\n" + strings.ReplaceAll(good, "9", "8"), member.Caller{ID: 9, Proved: true}, badLine},
			{"another's line", strings.ReplaceAll(good, "9", "8"), member.Caller{ID: 9, Proved: true}, badLine},
			{"no port for clients", "server.9=m9:2888:3888", member.Caller{ID: 9, Proved: true}, badLine},
			{"no line at all", "\x00\xff", member.Caller{ID: 9, Proved: true}, badLine},
			{"no proof", good, member.Caller{ID: 9}, "proved neither"},
			{"a command", good, member.Caller{ID: 9, Proved: true, IsCommand: true}, "no other member"},
			{"another ensemble", good, member.Caller{ID: 9, Proved: true, Ensemble: [32]byte{1}}, "of another ensemble"},
			{"another process at its address", good, member.Caller{ID: 9, Proved: true}, "another process replies"},
			{"too many members", good, member.Caller{ID: 9, Proved: true}, "the list has 33 servers"},
		} {
			if tt.name == "too many members" {
				if err := changeList(t, e, leader, serverlist.Change{Joining: strings.Join(others, ",")}); err != nil {
					t.Fatal(err)
				}
			}
			if err := member.AskToCome(t.Context(), e.Member(leader), tt.from, tt.line); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: the leader says %v, want %q", tt.name, err, tt.want)
			}
		}
		if _, found := e.List().Find(9); found {
			t.Error("the list has member 9")
		}
	})
}

// A leader or a newcomer that dies while a member comes in loses nothing: the member votes in the end.
func TestDeathsWhileAMemberComes(t *testing.T) {
	for after := time.Duration(0); after < 5*time.Second; after += 700 * time.Millisecond {
		for _, dies := range []string{"the leader", "a newcomer"} {
			t.Run(fmt.Sprintf("%s after %v", dies, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := cluster.Start(t, 3, comingByThemselves(t, nil))
					id := e.Ready()
					w := startWriter(t, e, 1, 2, 3)
					if dies == "a newcomer" {
						id = 4
					}
					bootNew(e, 4, 5)
					time.Sleep(after)
					e.Kill(id)
					time.Sleep(20 * time.Second)
					e.Boot(id)
					awaitVoters(t, e, 1, 2, 3, 4, 5)
					w.end(t, e, 1, 2, 3, 4, 5)
				})
			})
		}
	}
}
