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
	// maxLineBytes is how many bytes of a line it remembers. Together that is 2 MiB at most; a usual line has
	// 150 bytes.
	maxLineBytes = 2 << 10
)

// lineRing remembers the last lines of a log.
type lineRing struct {
	mu       sync.Mutex
	ring     []api.Line // up to maxLines
	nextSlot int        // where the next line goes once the ring is full
}

// add remembers a line, or the beginning of it, without the line end.
func (l *lineRing) add(at time.Time, level slog.Level, line []byte) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	text := string(line[:min(len(line), maxLineBytes)])
	if len(line) > maxLineBytes {
		text = strings.ToValidUTF8(text, "") + "…"
	}
	row := api.Line{At: utcMillis(at), Level: LevelName(level), Text: text}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < maxLines {
		l.ring = append(l.ring, row)
		return
	}
	l.ring[l.nextSlot] = row
	l.nextSlot = (l.nextSlot + 1) % maxLines
}

// lines returns the lines, oldest first.
func (l *lineRing) lines() []api.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]api.Line, 0, len(l.ring))
	return append(append(all, l.ring[l.nextSlot:]...), l.ring[:l.nextSlot]...)
}
