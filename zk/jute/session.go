package jute

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// SessionID identifies a client's session. Its top byte is the id of the server that made it; the
// other bytes count up. 0 is no session. Ids made by servers from 128 on are negative.
type SessionID int64

// String returns the id as ZooKeeper's tools print it: unsigned hex, no padding.
func (id SessionID) String() string { return "0x" + strconv.FormatUint(uint64(id), 16) }

// ParseSessionID reads an id as String writes it. Capital digits and leading zeroes are allowed; 0 is not.
func ParseSessionID(text string) (SessionID, error) {
	digits, hex := strings.CutPrefix(text, "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if hex && err == nil && n != 0 && len(digits) <= maxHexDigits {
		return SessionID(n), nil
	}
	hint := ""
	if decimal, err := strconv.ParseInt(text, 10, 64); err == nil && decimal != 0 {
		hint = "; if this number is decimal, that is " + SessionID(decimal).String()
	}
	return 0, fmt.Errorf("%.100q is not the id of a session: that is 0x and up to %d hexadecimal digits, "+
		"such as 0x1000012f99a0001%s", text, maxHexDigits, hint)
}

// maxHexDigits is the length of 64 bits in hexadecimal.
const maxHexDigits = 16

// LogValue implements slog.LogValuer.
func (id SessionID) LogValue() slog.Value { return slog.StringValue(id.String()) }
