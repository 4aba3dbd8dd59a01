package past

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Moment is a place in a log that is to be found: after the transaction that took a zxid, or at a time. The zero value is the
// end of the log.
type Moment struct {
	zxid   int64 // 0 if the moment is a time, or the end
	unixMs int64
	isTime bool
}

// AtZxid returns the moment after the transaction that took zxid, which is above 0.
func AtZxid(zxid int64) Moment { return Moment{zxid: zxid} }

// AtTime returns the moment before the first entry whose stamp is after t.
func AtTime(t time.Time) Moment { return Moment{unixMs: t.UnixMilli(), isTime: true} }

// Time returns the time, or the zero value if the moment is none.
func (m Moment) Time() time.Time {
	if !m.isTime {
		return time.Time{}
	}
	return time.UnixMilli(m.unixMs).UTC()
}

// Zxid returns the zxid, or false if the moment is none.
func (m Moment) Zxid() (zxid int64, ok bool) { return m.zxid, m.zxid != 0 }

// IsEnd reports whether the moment is the end of the log.
func (m Moment) IsEnd() bool { return m == Moment{} }

// String returns the zxid or the time.
func (m Moment) String() string {
	switch {
	case m.IsEnd():
		return "the end of the log"
	case m.isTime:
		return time.UnixMilli(m.unixMs).UTC().Format(timeFormat)
	}
	return fmt.Sprintf("zxid 0x%x", uint64(m.zxid))
}

// momentForms describes what ParseMoment takes.
const momentForms = "a moment is a zxid (0x100000002), a time with its offset from UTC (2026-03-01T03:12:00Z, " +
	"2026-03-01T03:12:00+01:00) or a time ago (10m ago)"

// ParseMoment parses a zxid in hexadecimal digits after 0x, a time of RFC 3339 with its offset from UTC, or a time ago such as
// "10m ago", "1h30m ago" or "2d ago", with or without the last word. It rejects times after now.
func ParseMoment(text string, now time.Time) (Moment, error) {
	text = strings.TrimSpace(text)
	if digits, ok := cutZxidPrefix(text); ok {
		return parseZxid(text, digits)
	}
	if length, ok := parseAgo(text); ok {
		if length < 0 {
			return Moment{}, fmt.Errorf("%.100q is after now", text)
		}
		return AtTime(now.Add(-length)), nil
	}
	if at, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "T", 1)); err == nil {
		if at.After(now) {
			return Moment{}, fmt.Errorf("%s is after now: this machine's clock shows %s", at.Format(timeFormat),
				now.UTC().Format(timeFormat))
		}
		return AtTime(at), nil
	}
	return Moment{}, explainMoment(text)
}

func cutZxidPrefix(text string) (digits string, ok bool) {
	if digits, ok = strings.CutPrefix(text, "0x"); ok {
		return digits, true
	}
	return strings.CutPrefix(text, "0X")
}

func parseZxid(text, digits string) (Moment, error) {
	zxid, err := strconv.ParseUint(digits, 16, 63)
	switch {
	case err != nil:
		return Moment{}, fmt.Errorf("%.100q is not a zxid: that is 0x and 1 to 16 hexadecimal digits, such as 0x100000002, "+
			"and at most 0x7fffffffffffffff", text)
	case zxid == 0:
		return Moment{}, fmt.Errorf("no transaction has the zxid 0x0; the first one is usually 0x100000000")
	}
	return AtZxid(int64(zxid)), nil
}

// parseAgo parses a duration, which may begin with days and end with "ago".
func parseAgo(text string) (time.Duration, bool) {
	text = strings.TrimSpace(strings.TrimSuffix(text, "ago"))
	days := time.Duration(0)
	if number, rest, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return 0, false
		}
		if days = time.Duration(n) * 24 * time.Hour; rest == "" {
			return days, true
		}
		text = rest
	}
	length, err := time.ParseDuration(text)
	return days + length, err == nil
}

// localForms are times without an offset.
var localForms = []string{
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02", "15:04:05", "15:04",
}

// explainMoment returns the error for a text of no known form.
func explainMoment(text string) error {
	for _, form := range localForms {
		if _, err := time.Parse(form, strings.Replace(text, " ", "T", 1)); err == nil {
			return fmt.Errorf("%.100q has no date, or no offset from UTC, so it is not clear which time it is; %s", text, momentForms)
		}
	}
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		return fmt.Errorf("%.100q has no 0x in front, which a zxid has, and no unit, which a time ago has; %s", text, momentForms)
	}
	return fmt.Errorf("%.100q is no moment; %s", text, momentForms)
}
