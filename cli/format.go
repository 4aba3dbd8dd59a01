package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rollcall/internal/screentext"
)

// FormatDuration returns a duration in its two largest units, such as 350ms, 12s, 3m5s, 2h10m or 5d3h.
func FormatDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + FormatDuration(-d)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	}
	for _, u := range []struct {
		size, part time.Duration
		of, and    string
	}{{24 * time.Hour, time.Hour, "d", "h"}, {time.Hour, time.Minute, "h", "m"}, {time.Minute, time.Second, "m", "s"}} {
		if d < u.size {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.size, u.of)
		if rest := d % u.size / u.part; rest > 0 {
			text += fmt.Sprintf("%d%s", rest, u.and)
		}
		return text
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func formatMillis(n *int64) string {
	if n == nil {
		return unknownText
	}
	return FormatDuration(time.Duration(*n) * time.Millisecond)
}

const unknownText = "-"

// formatAge returns "-" if at is zero, and 0 if at is in the future, because another clock may be ahead.
func formatAge(now, at time.Time) string {
	if at.IsZero() {
		return unknownText
	}
	return FormatDuration(max(0, now.Sub(at)))
}

// FormatSize returns a number of bytes such as 512 B, 1.2 KiB or 34 MiB.
func FormatSize(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	units := "KMGTPE"
	size, unit := float64(n)/1024, 0
	for size >= 1023.95 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	if size < 9.95 {
		return fmt.Sprintf("%.1f %ciB", size, units[unit])
	}
	return fmt.Sprintf("%.0f %ciB", size, units[unit])
}

// FormatCount returns a number of things, such as 1 node or 2 nodes.
func FormatCount(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// JoinFunc returns the texts of the elements of a list, with a separator between them.
func JoinFunc[T any](list []T, separator string, text func(T) string) string {
	texts := make([]string, len(list))
	for i, element := range list {
		texts[i] = text(element)
	}
	return strings.Join(texts, separator)
}

func orDash(text string) string { return cmp.Or(text, unknownText) }

func formatNumber[N int | int32 | int64 | uint64](n N) string { return fmt.Sprint(n) }

func formatMember(id uint32) string {
	if id == 0 {
		return unknownText
	}
	return strconv.FormatUint(uint64(id), 10)
}

// EscapeUnprintable replaces control characters, escape sequences, bidirectional controls and invalid UTF-8
// with escapes such as \x1b and \u202e. Clients choose paths, addresses and identities, so commands print
// them through this function.
func EscapeUnprintable(text string) string { return screentext.Escape(text) }
