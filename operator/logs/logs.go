// Package logs writes the log of a process.
//
//   - Settings: the format and the level, as keys of the configuration set them.
//   - Log: a log with a level that can change while the process runs. It remembers its last lines, for
//     operators who ask a member for them.
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

	"rollcall/operator/api"
)

// Settings configure a Log. The zero value is a text from level info on.
type Settings struct {
	JSON  bool       // a line is a JSON object
	Level slog.Level // the log has events of this level and of higher ones
}

// Log is the log of a process. Make one with New. It is safe for concurrent use.
type Log struct {
	level  slog.LevelVar
	logger *slog.Logger
	recent lineRing

	mu              sync.Mutex // held while a line is written: lines do not mix
	out             io.Writer
	journalPriority bool
	lineBuffer      bytes.Buffer // the event that is written
}

// New returns a Log that writes to out. If journal is true, a line begins with its priority, as systemd's
// journal reads it and removes it.
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

// durationsAsText writes a length of time as "1.5s" in both formats.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// Logger returns what writes events to the log.
func (l *Log) Logger() *slog.Logger { return l.logger }

// UnfilteredLogger returns what writes events to the log whatever its level is: what operators did must not be
// missing from it.
func (l *Log) UnfilteredLogger() *slog.Logger { return slog.New(unfilteredHandler{l.logger.Handler()}) }

// unfilteredHandler is a handler that takes every event.
type unfilteredHandler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (unfilteredHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (a unfilteredHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return unfilteredHandler{a.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (a unfilteredHandler) WithGroup(name string) slog.Handler {
	return unfilteredHandler{a.Handler.WithGroup(name)}
}

// Level returns the level from which on events are in the log.
func (l *Log) Level() slog.Level { return l.level.Level() }

// SetLevel sets the level from which on events are in the log.
func (l *Log) SetLevel(level slog.Level) { l.level.Set(level) }

// LastLines returns the last lines, oldest first. A slow reader of the log does not hold it up.
func (l *Log) LastLines() []api.Line { return l.recent.lines() }

// handler is the Log's slog.Handler. The one in it formats an event into Log.line.
type handler struct {
	slog.Handler
	log *Log
}

// Handle implements slog.Handler.
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

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.log}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.log}
}

// syslogPriority returns the priority of syslog that stands for a level, as systemd's journal reads it at the
// beginning of a line.
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

// levelNames are the names of all levels.
var levelNames = []string{"debug", "info", "warn", "error"}

// AllowedLevels says in words which names ParseLevel takes.
const AllowedLevels = "debug, info, warn or error"

// ParseLevel returns the level with a name, in any case of letters. The error says which names there are.
func ParseLevel(name string) (level slog.Level, err error) {
	if !slices.Contains(levelNames, strings.ToLower(name)) {
		return 0, fmt.Errorf("allowed is %s", AllowedLevels)
	}
	return level, level.UnmarshalText([]byte(name))
}

// LevelName returns the name of a level, in lower case.
func LevelName(level slog.Level) string { return strings.ToLower(level.String()) }

// utcMillis is the time of an event as package api has it.
func utcMillis(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }
