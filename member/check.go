package member

import (
	"strings"
	"time"

	"rollcall/config"
	"rollcall/internal/keystore"
	"rollcall/internal/secretfile"
	"rollcall/quorum/trust"
)

// CheckFiles reads the files with secrets and certificates that a member with these settings would read when
// it starts, and returns everything that is wrong with them. It also says if there are none and the members' ports
// are open to others. It starts nothing. The files that package config reads itself are not among them.
func CheckFiles(cfg config.Config) []*secretfile.Fault {
	faults := append(trustConfigOf(cfg).Check(), checkInsecurePorts(cfg)...)
	if cfg.SecureAddr != "" || cfg.ClientTLS.UnifiedPort {
		faults = append(faults, keystore.Check(clientKeyOptions(cfg.ClientTLS))...)
	}
	return append(faults, cfg.HTTP.CheckToken()...)
}

// trustConfigOf returns what a member with these settings proves to others, and asks of them.
func trustConfigOf(cfg config.Config) trust.Config {
	hosts := make(map[uint32]string, len(cfg.Servers))
	for _, s := range cfg.Servers {
		hosts[s.ID] = s.Host
	}
	return trust.Config{Settings: cfg.Trust, MemberID: cfg.MyID, ConfiguredHosts: hosts, Now: time.Now}
}

// checkInsecurePorts says of this member's server line that nobody has to prove who it is there.
func checkInsecurePorts(cfg config.Config) []*secretfile.Fault {
	self, known := cfg.OwnServer()
	if !known || len(cfg.Servers) == 1 || !cfg.Trust.IsPlain() {
		return nil
	}
	key, line, _ := strings.Cut(self.String(), "=")
	return secretfile.NewWarnings(key, line, insecurePortAdvice)
}
