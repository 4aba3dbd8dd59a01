package member_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/keystore/authority"
	"rollcall/member"
	"rollcall/operator/logs/logtest"
)

// loopbackListener has an address that only this machine reaches.
type loopbackListener struct{ net.Listener }

func (loopbackListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// onLoopback makes a member listen on loopback on some of its ports: those of which local returns true.
func onLoopback(cfg *member.Config, local func(addr string) bool) {
	cfg.BindAddress = func(addr string) string { return "127.0.0." + strings.TrimPrefix(addr, "m") }
	listen := cfg.Network.Listen
	cfg.Network.Listen = func(addr string) (net.Listener, error) {
		l, err := listen("m" + strings.TrimPrefix(addr, "127.0.0."))
		if err == nil && local(addr) {
			l = loopbackListener{l}
		}
		return l, err
	}
}

// A member says so if nobody has to prove on its ports for members who it is, also on loopback: other users of the machine
// can connect there. It logs that once, and only if other machines reach a port.
func TestExposure(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of the members in tests"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want, protection string
		members                int
		local                  bool
		adjust                 func(cfg *member.Config)
	}{
		{"plain", "members are not authenticated", "none", 3, false, func(*member.Config) {}},
		{"alone", "", "no ports", 1, false, func(*member.Config) {}},
		{"secret", "", "secret", 3, false, func(cfg *member.Config) { cfg.Trust.SecretFile = secret }},
		{"unified", "plain members are still accepted", "secret or plain", 3, false, func(cfg *member.Config) { cfg.Trust.SecretFile, cfg.Trust.AcceptPlain = secret, true }},
		{"plain on loopback", "members are not authenticated", "none", 3, true, func(cfg *member.Config) {
			onLoopback(cfg, func(string) bool { return true })
		}},
		{"unified on loopback", "plain members are still accepted", "secret or plain", 3, true, func(cfg *member.Config) {
			cfg.Trust.SecretFile, cfg.Trust.AcceptPlain = secret, true
			onLoopback(cfg, func(string) bool { return true })
		}},
		{"plain, the port of the log is local", "members are not authenticated", "none", 3, false, func(cfg *member.Config) {
			onLoopback(cfg, func(addr string) bool { return strings.HasSuffix(addr, ":3888") })
		}},
		{"plain, the port for gRPC is local", "members are not authenticated", "none", 3, false, func(cfg *member.Config) {
			onLoopback(cfg, func(addr string) bool { return !strings.HasSuffix(addr, ":3888") })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logtest.Buffer
				logger := slog.New(slog.NewTextHandler(&log, nil))
				e := cluster.Start(t, tt.members, cluster.Options{Adjust: tt.adjust, Logger: func(uint32) *slog.Logger { return logger }})
				at := e.Ready()
				if got := statusOf(t, e, at).InsecurePorts; got != tt.want {
					t.Errorf("the status says %q, want %q", got, tt.want)
				}
				if got := e.Member(at).Protection(); got != tt.protection {
					t.Errorf("protected by %q, want %q", got, tt.protection)
				}
				if got := e.Member(at).Health().InsecurePorts; got != tt.want {
					t.Errorf("health says %q, want %q", got, tt.want)
				}
				warned, want := strings.Count(log.String(), "whoever reaches the ports for members"), tt.members
				if tt.want == "" || tt.local {
					want = 0
				}
				if warned != want || want > 0 && !strings.Contains(log.String(), tt.want) {
					t.Errorf("%d lines of %d members, want %d of %q:\n%s", warned, tt.members, want, tt.want, log.String())
				}
			})
		})
	}
}

// The metric of the own certificate's validity falls with time, and a member without one has none.
func TestCertificateMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := authority.New("authority", time.Now(), 1000*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		trusted, _, err := a.PEMFiles()
		if err != nil {
			t.Fatal(err)
		}
		o, dir := operators{}, t.TempDir()
		e := cluster.Start(t, 3, cluster.Options{Tick: longTick, Adjust: func(cfg *member.Config) {
			o.listen(cfg)
			cfg.OperatorListener, cfg.MetricsListener = nil, cfg.OperatorListener // to everybody
			if cfg.ID == 3 {
				cfg.Trust.AcceptPlain = true
				return
			}
			own, err := a.Issue([]string{fmt.Sprintf("m%d", cfg.ID)}, time.Now(), 100*time.Hour)
			cfg.Trust.ShowCertificates, cfg.Trust.AcceptPlain = true, true
			cfg.Trust.Certificates.KeyStore.Location = filepath.Join(dir, fmt.Sprintf("own%d.pem", cfg.ID))
			cfg.Trust.Certificates.TrustStore.Location = filepath.Join(dir, "trusted.pem")
			if err := errors.Join(err, os.WriteFile(cfg.Trust.Certificates.KeyStore.Location, own, 0o600), os.WriteFile(cfg.Trust.Certificates.TrustStore.Location, trusted, 0o600)); err != nil {
				t.Fatal(err)
			}
		}})
		e.Ready()
		const name = `rollcall_certificate_valid_seconds{shown_to="members"}`
		before, _ := o.samples(t, 1)
		time.Sleep(5 * time.Minute)
		after, _ := o.samples(t, 1)
		if left := after[name]; left <= 99*3600 || left > 100*3600-300 || before[name]-left < 299 {
			t.Errorf("%v seconds are left, and five minutes before %v", left, before[name])
		}
		if none, _ := o.samples(t, 3); none[name] != 0 {
			t.Errorf("a member without a certificate shows %v", none[name])
		}
	})
}
