package cli

import (
	"fmt"
	"strconv"
	"time"
)

// FormatDuration returns a length of time for people, in its two largest units, such as 350ms, 12s, 3m5s, 2h10m
// or 5d3h.
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

// formatMillis returns a number of milliseconds as Duration does, or "-" if it is not known.
func formatMillis(n *int64) string {
	if n == nil {
		return unknownText
	}
	return FormatDuration(time.Duration(*n) * time.Millisecond)
}

// unknownText stands for a value that is not known.
const unknownText = "-"

// formatAge returns how long before now at was, or "-" if at is zero. The clock that wrote at may be ahead.
func formatAge(now, at time.Time) string {
	if at.IsZero() {
		return unknownText
	}
	return FormatDuration(max(0, now.Sub(at)))
}

// FormatSize returns a number of bytes for people, such as 512 B, 1.2 KiB or 34 MiB.
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

// orDash returns text, or "-" if it is empty.
func orDash(text string) string {
	if text == "" {
		return unknownText
	}
	return text
}

// formatMember returns the id of a member, or "-" if it is none.
func formatMember(id uint32) string {
	if id == 0 {
		return unknownText
	}
	return strconv.FormatUint(uint64(id), 10)
}
