package member

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
)

// While a member stops, its warnings are information; errors stay errors.
func TestCalm(t *testing.T) {
	var leaving atomic.Bool
	var level slog.LevelVar
	var out bytes.Buffer
	log := slog.New(shutdownHandler{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: &level}), &leaving}).With("member", 1).WithGroup("g")
	for _, step := range []struct {
		leaving bool
		level   slog.Level
		want    string
	}{
		{false, slog.LevelInfo, "level=WARN msg=lost member=1 g.a=1\nlevel=ERROR msg=broken member=1\n"},
		{true, slog.LevelInfo, "level=INFO msg=lost member=1 g.a=1\nlevel=ERROR msg=broken member=1\n"},
		{true, slog.LevelWarn, "level=ERROR msg=broken member=1\n"},
	} {
		leaving.Store(step.leaving)
		level.Set(step.level)
		out.Reset()
		log.Warn("lost", "a", 1)
		log.Error("broken")
		var got strings.Builder
		for line := range strings.Lines(out.String()) {
			_, line, _ = strings.Cut(line, " ") // the time
			got.WriteString(line)
		}
		if got.String() != step.want {
			t.Errorf("leaving %t, level %v: logged %q, want %q", step.leaving, step.level, got.String(), step.want)
		}
	}
}
