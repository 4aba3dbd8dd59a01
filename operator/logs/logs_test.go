package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Both formats have the same events, and the level can change while the log is written.
func TestLog(t *testing.T) {
	write := func(l *Log) {
		member := l.Logger().With("member", 1)
		member.Debug("hidden")
		member.Warn("link lost", "err", errors.New("two\nlines"), "after", 1500*time.Millisecond)
		l.SetLevel(slog.LevelDebug)
		member.Debug("shown")
		l.SetLevel(slog.LevelError)
		member.WithGroup("event").Warn("hidden")
		member.WithGroup("event").Error("broken", "term", 2)
	}
	tests := []struct {
		settings Settings
		journal  bool
		want     []string
	}{
		{Settings{}, false, []string{`level=WARN msg="link lost" member=1 err="two\nlines" after=1.5s`, `level=DEBUG msg=shown member=1`, `level=ERROR msg=broken member=1 event.term=2`}},
		{Settings{JSON: true}, false, []string{
			`"level":"WARN","msg":"link lost","member":1,"err":"two\nlines","after":"1.5s"}`, `"level":"DEBUG","msg":"shown","member":1}`, `"level":"ERROR","msg":"broken","member":1,"event":{"term":2}}`,
		}},
		{Settings{}, true, []string{`level=WARN msg="link lost" member=1 err="two\nlines" after=1.5s`, `level=DEBUG msg=shown member=1`, `level=ERROR msg=broken member=1 event.term=2`}},
		{Settings{Level: slog.LevelError}, true, []string{"level=DEBUG msg=shown member=1", "level=ERROR msg=broken member=1 event.term=2"}},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		l := New(&out, tt.settings, tt.journal)
		write(l)
		kept := l.LastLines()
		if len(kept) != len(tt.want) || l.Level() != slog.LevelError {
			t.Errorf("%+v: kept %v, level %v", tt.settings, kept, l.Level())
			continue
		}
		i := 0
		for line := range strings.Lines(out.String()) {
			if tt.journal {
				want := map[string]string{"debug": "<7>", "warn": "<4>", "error": "<3>"}[kept[i].Level]
				if !strings.HasPrefix(line, want) {
					t.Errorf("%q, want it to begin with %s", line, want)
				}
				line = strings.TrimPrefix(line, want)
			}
			if !strings.HasSuffix(line, tt.want[i]+"\n") || kept[i].Text+"\n" != line {
				t.Errorf("wrote %q, kept %q, want %q", line, kept[i].Text, tt.want[i])
			}
			if tt.settings.JSON && !json.Valid([]byte(line)) {
				t.Errorf("%q is not JSON", line)
			}
			i++
		}
		if kept[0].At.Location() != time.UTC || time.Since(kept[0].At) > time.Minute {
			t.Errorf("kept a line of %v", kept[0].At)
		}
	}
}

// The newest lines are kept, each up to maxLineBytes.
func TestLastLines(t *testing.T) {
	l := New(io.Discard, Settings{}, false)
	for i := range maxLines + 3 {
		l.Logger().Info("line", "n", i)
	}
	lines := l.LastLines()
	if len(lines) != maxLines || !strings.HasSuffix(lines[0].Text, "n=3") ||
		!strings.HasSuffix(lines[maxLines-1].Text, fmt.Sprint("n=", maxLines+2)) {
		t.Errorf("%d lines, from %q to %q", len(lines), lines[0].Text, lines[len(lines)-1].Text)
	}
	l.Logger().Info(strings.Repeat("ä", maxLineBytes))
	text := l.LastLines()[maxLines-1].Text
	if len(text) < maxLineBytes-2 || len(text) > maxLineBytes+len("…") || !strings.HasSuffix(text, "ä…") {
		t.Errorf("a long line is kept with %d bytes, and ends with %q", len(text), text[len(text)-5:])
	}
}

// While a line cannot be written, because nobody reads the other end of a pipe, the lines before it can
// be asked for, and the line itself, too.
func TestLinesWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		l := New(w, Settings{}, false)
		go l.Logger().Info("stuck")
		synctest.Wait()
		if got := l.LastLines(); len(got) != 1 || !strings.HasSuffix(got[0].Text, "msg=stuck") {
			t.Errorf("%v", got)
		}
		_ = r.Close()
	})
}

func TestParseLevel(t *testing.T) {
	for i, name := range levelNames {
		level, err := ParseLevel(strings.ToUpper(name))
		if want := slog.Level(4 * (i - 1)); level != want || err != nil || LevelName(level) != name {
			t.Errorf("%s: %v, %v, want %v", name, level, err, want)
		}
	}
	for _, name := range []string{"", "info ", "info+1", "warning", "trace", "4"} {
		if level, err := ParseLevel(name); err == nil || err.Error() != "must be debug, info, warn or error" {
			t.Errorf("%q: %v, %v", name, level, err)
		}
	}
}
