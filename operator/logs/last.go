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
	// maxLines is the number of lines that a Log keeps: a page under /v1/. A healthy member logs a few lines a
	// day.
	maxLines = api.PageRows
	// maxLineBytes limits a kept line. Together they take 2 MiB at most; a usual line has 150 bytes.
	maxLineBytes = 2 << 10
)

// lineRing keeps the last lines of a log.
type lineRing struct {
	mu       sync.Mutex
	ring     []api.Line // up to maxLines
	nextSlot int        // where the next line goes once the ring is full
}

// add keeps a line without its line end, truncated to maxLineBytes.
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
