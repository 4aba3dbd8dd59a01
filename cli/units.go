package cli

import (
	"fmt"
	"strconv"
	"time"
)

// Duration returns a length of time for people, in its two largest units, such as 350ms, 12s, 3m5s, 2h10m
// or 5d3h.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
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

// millis returns a number of milliseconds as Duration does, or "-" if it is not known.
func millis(n *int64) string {
	if n == nil {
		return unknown
	}
	return Duration(time.Duration(*n) * time.Millisecond)
}

// unknown stands for a value that is not known.
const unknown = "-"

// age returns how long before now at was, or "-" if at is zero. The clock that wrote at may be ahead.
func age(now, at time.Time) string {
	if at.IsZero() {
		return unknown
	}
	return Duration(max(0, now.Sub(at)))
}

// Size returns a number of bytes for people, such as 512 B, 1.2 KiB or 34 MiB.
func Size(n int64) string {
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
		return unknown
	}
	return text
}

// member returns the id of a member, or "-" if it is none.
func member(id uint32) string {
	if id == 0 {
		return unknown
	}
	return strconv.FormatUint(uint64(id), 10)
}
