package member

import (
	"strings"
	"time"

	"rollcall/config"
	"rollcall/internal/keystore"
	"rollcall/internal/secretfile"
	"rollcall/quorum/trust"
)

// CheckFiles reads the files with secrets and certificates that a member with these settings reads when it
// starts, except the files that package config reads. It returns all faults. One of them warns if members are
// not authenticated.
func CheckFiles(cfg config.Config) []*secretfile.Fault {
	faults := append(trustConfigOf(cfg).Check(), checkInsecurePorts(cfg)...)
	if cfg.SecureAddr != "" || cfg.ClientTLS.UnifiedPort {
		faults = append(faults, keystore.CheckFiles(clientKeyOptions(cfg.ClientTLS))...)
	}
	faults = append(faults, checkCollectorFiles(&cfg.OTLP)...)
	faults = append(faults, cfg.Archive.CheckFiles()...)
	return append(faults, cfg.HTTP.CheckToken()...)
}

func trustConfigOf(cfg config.Config) trust.Config {
	hosts := make(map[uint32]string, len(cfg.Servers))
	for _, s := range cfg.Servers {
		hosts[s.ID] = s.Host
	}
	return trust.Config{Settings: cfg.Trust, MemberID: cfg.MyID, ConfiguredHosts: hosts, Now: time.Now}
}

// checkInsecurePorts returns a warning about this member's server line if its ports do not authenticate members.
func checkInsecurePorts(cfg config.Config) []*secretfile.Fault {
	self, known := cfg.Servers.Find(cfg.MyID)
	if !known || len(cfg.Servers) == 1 || !cfg.Trust.IsPlain() {
		return nil
	}
	key, line, _ := strings.Cut(self.String(), "=")
	return secretfile.NewWarnings(key, line, insecurePortAdvice)
}
