package kerberos

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxConf is the longest krb5.conf, in bytes.
	MaxConf = 1 << 20
	// MaxClockSkew is the largest clockskew: tokens are remembered for twice as long.
	MaxClockSkew = time.Hour
)

// Conf is what a service needs of a krb5.conf.
type Conf struct {
	DefaultRealm string        // "": none
	ClockSkew    time.Duration // 0: DefaultClockSkew
	HasIncludes  bool          // it includes other files, which are not read
}

// ParseConf reads default_realm and clockskew of the section libdefaults. The first of each counts, as in MIT's library.
func ParseConf(content []byte) (c Conf, err error) {
	if len(content) > MaxConf {
		return Conf{}, fmt.Errorf("the file has over %d bytes", MaxConf)
	}
	section, number := "", 0
	for line := range strings.Lines(string(content)) {
		number++
		line = strings.TrimSpace(line)
		key, value, isSetting := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.Trim(strings.TrimSpace(value), `"`)
		switch {
		case strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "include ") || strings.HasPrefix(line, "includedir "):
			c.HasIncludes = true
		case strings.HasPrefix(line, "["):
			name, _, _ := strings.Cut(line[1:], "]")
			section = strings.TrimSpace(name)
		case section != "libdefaults" || !isSetting:
		case key == "default_realm" && c.DefaultRealm == "":
			c.DefaultRealm = value
		case key == "clockskew" && c.ClockSkew == 0:
			if c.ClockSkew, err = parseSkew(value); err != nil {
				return Conf{}, fmt.Errorf("line %d: clockskew=%s: %w", number, quoteShort(value), err)
			}
		}
	}
	return c, nil
}

// parseSkew parses seconds, with or without an s, or minutes with an m.
func parseSkew(text string) (time.Duration, error) {
	unit := time.Second
	digits := strings.TrimSuffix(text, "s")
	if minutes, ok := strings.CutSuffix(text, "m"); ok {
		digits, unit = minutes, time.Minute
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	skew := time.Duration(n) * unit
	if err != nil || skew < time.Second || skew > MaxClockSkew {
		return 0, fmt.Errorf("must be 1 to %d seconds", MaxClockSkew/time.Second)
	}
	return skew, nil
}
