package jute

import (
	"log/slog"
	"strconv"
)

// SessionID names a client's session: the server that made it in the top byte, a number
// that counts up below. 0 is no session. Ids of servers from 128 on are negative.
type SessionID int64

// String returns the id as ZooKeeper's tools print it: unsigned hex, no padding.
func (id SessionID) String() string {
	return "0x" + strconv.FormatUint(uint64(id), 16)
}

// LogValue implements slog.LogValuer.
func (id SessionID) LogValue() slog.Value {
	return slog.StringValue(id.String())
}
