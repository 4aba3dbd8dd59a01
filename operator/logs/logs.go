// Package logs writes the log of a process.
//
//   - Settings: the format and the level, as keys of the configuration set them.
//   - Log: a log with a level that can change while the process runs. It keeps its last lines for operators.
//
// An event is one line, of text (key=value) or of JSON.
package logs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"rollcall/internal/lockwatch"
	"rollcall/operator/api"
)

// Settings configure a Log. The zero value is text with the minimum level info.
type Settings struct {
	JSON  bool       // a line is a JSON object
	Level slog.Level // minimum level
}

// Log is the log of a process. Make one with New. It is safe for concurrent use.
type Log struct {
	level  slog.LevelVar
	logger *slog.Logger
	recent lineRing

	mu              sync.Mutex // held while a line is written
	out             io.Writer
	journalPriority bool
	lineBuffer      bytes.Buffer // the record under way
}

// New returns a Log that writes to out. If journal is true, each line begins with its priority, which systemd's
// journal parses and removes.
func New(out io.Writer, s Settings, journal bool) *Log {
	l := &Log{out: out, journalPriority: journal}
	l.level.Set(s.Level)
	options := &slog.HandlerOptions{Level: &l.level, ReplaceAttr: durationsAsText}
	var h slog.Handler = slog.NewTextHandler(&l.lineBuffer, options)
	if s.JSON {
		h = slog.NewJSONHandler(&l.lineBuffer, options)
	}
	l.logger = slog.New(handler{h, l})
	return l
}

// durationsAsText writes a duration as "1.5s" in both formats.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// Logger returns the logger of this log.
func (l *Log) Logger() *slog.Logger { return l.logger }

// UnfilteredLogger returns a logger that ignores the minimum level, for records that must not be missing.
func (l *Log) UnfilteredLogger() *slog.Logger { return slog.New(unfilteredHandler{l.logger.Handler()}) }

type unfilteredHandler struct{ slog.Handler }

func (unfilteredHandler) Enabled(context.Context, slog.Level) bool { return true }

func (a unfilteredHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return unfilteredHandler{a.Handler.WithAttrs(attrs)}
}

func (a unfilteredHandler) WithGroup(name string) slog.Handler {
	return unfilteredHandler{a.Handler.WithGroup(name)}
}

// Level returns the minimum level.
func (l *Log) Level() slog.Level { return l.level.Level() }

// SetLevel sets the minimum level.
func (l *Log) SetLevel(level slog.Level) { l.level.Set(level) }

// LastLines returns the last lines, oldest first. It does not wait for a write that blocks.
func (l *Log) LastLines() []api.Line { return l.recent.lines() }

// handler is the Log's slog.Handler. The embedded one formats a record into Log.lineBuffer.
type handler struct {
	slog.Handler
	log *Log
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lineBuffer.Reset()
	if l.journalPriority {
		l.lineBuffer.WriteString(syslogPriority(r.Level))
	}
	prefix := l.lineBuffer.Len()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	l.recent.add(r.Time, r.Level, l.lineBuffer.Bytes()[prefix:])
	_, err := l.out.Write(l.lineBuffer.Bytes())
	return err
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.log}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.log}
}

// syslogPriority returns the prefix of a line for a level, in the form of systemd's journal.
func syslogPriority(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "<3>"
	case level >= slog.LevelWarn:
		return "<4>"
	case level >= slog.LevelInfo:
		return "<6>"
	}
	return "<7>"
}

var levelNames = []string{"debug", "info", "warn", "error"}

// AllowedLevels lists the names for ParseLevel in a sentence.
const AllowedLevels = "debug, info, warn or error"

// ParseLevel parses the name of a level in any case. The error lists the names.
func ParseLevel(name string) (level slog.Level, err error) {
	if !slices.Contains(levelNames, strings.ToLower(name)) {
		return 0, fmt.Errorf("must be %s", AllowedLevels)
	}
	return level, level.UnmarshalText([]byte(name))
}

// LevelName returns the name of a level in lower case.
func LevelName(level slog.Level) string { return strings.ToLower(level.String()) }

// utcMillis returns the time of a record in the form of package api.
func utcMillis(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }

// Locks returns the locks of the log. One of them is held while a line is written.
func (l *Log) Locks() []lockwatch.Lock {
	if l == nil {
		return nil
	}
	return []lockwatch.Lock{{Name: "logs.Log.mu", Locker: &l.mu}, {Name: "logs.lineRing.mu", Locker: &l.recent.mu}}
}
