package jute

import (
	"log/slog"
	"strconv"
)

// SessionID identifies a client's session. Its top byte is the id of the server that made it; the
// other bytes count up. 0 is no session. Ids made by servers from 128 on are negative.
type SessionID int64

// String returns the id as ZooKeeper's tools print it: unsigned hex, no padding.
func (id SessionID) String() string {
	return "0x" + strconv.FormatUint(uint64(id), 16)
}

// LogValue implements slog.LogValuer.
func (id SessionID) LogValue() slog.Value {
	return slog.StringValue(id.String())
}
