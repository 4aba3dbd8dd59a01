package logs

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"time"

	"rollcall/operator/api"
)

const (
	// maxLines is how many lines a Log remembers: as many as a page under /v1/ has. A calm member logs
	// a few lines a day.
	maxLines = api.PageRows
	// maxLine is how many bytes of a line it remembers. Together that is 2 MiB at most; a usual line has
	// 150 bytes.
	maxLine = 2 << 10
)

// last remembers the last lines of a log.
type last struct {
	mu   sync.Mutex
	ring []api.Line // up to maxLines
	next int        // where the next line goes once the ring is full
}

// add remembers a line, or the beginning of it, without the line end.
func (l *last) add(at time.Time, level slog.Level, line []byte) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	text := string(line[:min(len(line), maxLine)])
	if len(line) > maxLine {
		text = strings.ToValidUTF8(text, "") + "…"
	}
	row := api.Line{At: stamp(at), Level: LevelName(level), Text: text}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < maxLines {
		l.ring = append(l.ring, row)
		return
	}
	l.ring[l.next] = row
	l.next = (l.next + 1) % maxLines
}

// lines returns the lines, oldest first.
func (l *last) lines() []api.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]api.Line, 0, len(l.ring))
	return append(append(all, l.ring[l.next:]...), l.ring[:l.next]...)
}
