package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The zoo.cfg of docs/production.md is accepted on each of its machines without a warning.
func TestProductionPageHasNoWarning(t *testing.T) {
	page, err := os.ReadFile("../docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "    cat > /etc/rollcall/zoo.cfg <<END\n")
	text, _, ended := strings.Cut(rest, "\n    END\n")
	if !found || !ended {
		t.Fatal("docs/production.md has no zoo.cfg between cat and END")
	}
	for _, n := range []string{"1", "2", "3"} {
		dir, at := inDir(t, map[string]string{
			"myid": n + "\n", "secret": strings.Repeat("s", 44) + "\n", "token": strings.Repeat("t", 64) + "\n", "metrics-token": strings.Repeat("m", 64) + "\n",
		})
		lines := strings.NewReplacer("    ", "", "$n", n, "/etc/rollcall", "DIR", "/var/lib/rollcall", "DIR", "/var/backups/rollcall", "DIR").Replace(text)
		file := filepath.Join(dir, "zoo.cfg")
		if err := os.WriteFile(file, []byte(at(lines)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, warnings, err := Load(file, nil, Flags{})
		if err != nil || len(warnings) > 0 {
			t.Errorf("machine %s: %v, and the warnings:\n%s", n, err, texts(warnings))
		}
		if len(cfg.Servers) != 3 || !cfg.HTTP.ForceHTTPS {
			t.Errorf("machine %s has %d servers, forceHttps=%t", n, len(cfg.Servers), cfg.HTTP.ForceHTTPS)
		}
	}
}
