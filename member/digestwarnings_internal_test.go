package member

import (
	"log/slog"
	"strings"
	"testing"

	"rollcall/config"
	"rollcall/operator/logs/logtest"
)

// Each algorithm of another member is warned of once, until it is the same as here. A member that names none, as
// of the version before, is not warned of.
func TestCompareDigests(t *testing.T) {
	var log logtest.Buffer
	w := &digestWarnings{ownAlgorithm: (&Config{}).digestAlgorithm(), log: slog.New(slog.NewTextHandler(&log, nil))}
	long := strings.Repeat("x", maxDigestName)
	for i, step := range []struct {
		member     uint32
		alg, there string // there: of the warning; "": there is none
	}{
		{2, "", ""},
		{2, "SHA1", ""},
		{2, "SHA-256", "SHA-256"},
		{2, "SHA-256", ""},
		{3, "SHA-256", "SHA-256"},
		{2, "SHA-512", "SHA-512"},
		{2, "SHA-512", ""},
		{2, "SHA1", ""},
		{2, "SHA-512", "SHA-512"},
		{2, "", ""},
		{3, long + "y", long},
	} {
		w.warnIfDifferent(step.member, step.alg)
		got := log.Take()
		if step.there == "" && got != "" || step.there != "" && !strings.HasSuffix(got, "here=SHA1 there="+step.there+"\n") {
			t.Errorf("step %d: %q is logged of %q, want %q", i, got, step.alg, step.there)
		}
	}
	off := Config{Settings: config.Settings{NoDigest: true}}
	w.ownAlgorithm = off.digestAlgorithm()
	if w.warnIfDifferent(4, "SHA-256"); log.String() != "" {
		t.Errorf("without the scheme: %s", log.String())
	}
}
