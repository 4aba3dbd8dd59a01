package jute

import "strconv"

// Code is the result of an operation in a reply: OK or an error. It implements error. OK in an
// error variable is not nil, so return code.Err().
type Code int32

// These are all results that ZooKeeper knows. OnWire reports whether servers send one.
const (
	OK                           Code = 0
	SystemError                  Code = -1 // see NoRoom
	RuntimeInconsistency         Code = -2 // in a multi's results, after the operation that failed
	DataInconsistency            Code = -3
	ConnectionLoss               Code = -4
	MarshallingError             Code = -5
	Unimplemented                Code = -6
	OperationTimeout             Code = -7
	BadArguments                 Code = -8
	InvalidState                 Code = -9
	UnknownSession               Code = -12
	NewConfigNoQuorum            Code = -13
	ReconfigInProgress           Code = -14
	APIError                     Code = -100
	NoNode                       Code = -101
	NoAuth                       Code = -102
	BadVersion                   Code = -103
	NoChildrenForEphemerals      Code = -108
	NodeExists                   Code = -110
	NotEmpty                     Code = -111
	SessionExpired               Code = -112
	InvalidCallback              Code = -113
	InvalidACL                   Code = -114
	AuthFailed                   Code = -115
	Closing                      Code = -116
	Nothing                      Code = -117
	SessionMoved                 Code = -118
	NotReadOnly                  Code = -119
	EphemeralOnLocalSession      Code = -120
	NoWatcher                    Code = -121
	RequestTimeout               Code = -122
	ReconfigDisabled             Code = -123
	SessionClosedRequireSaslAuth Code = -124
	QuotaExceeded                Code = -125
	ThrottledOp                  Code = -127
)

// NoRoom is Rollcall's reply to a write of more data than there is room for. ZooKeeper has no such reply. It
// is SystemError, which ZooKeeper never sends and every client knows: clients break on a code that they do
// not know, and kazoo does on QuotaExceeded.
const NoRoom = SystemError

var codeNames = map[Code]string{
	OK:                           "ok",
	SystemError:                  "no room for more data",
	RuntimeInconsistency:         "not run: an earlier operation of the multi failed",
	DataInconsistency:            "data inconsistency",
	ConnectionLoss:               "connection lost",
	MarshallingError:             "request cannot be decoded",
	Unimplemented:                "operation not implemented",
	OperationTimeout:             "operation timed out",
	BadArguments:                 "bad arguments",
	InvalidState:                 "invalid state",
	UnknownSession:               "unknown session",
	NewConfigNoQuorum:            "no quorum of the new configuration is in sync",
	ReconfigInProgress:           "another reconfiguration is in progress",
	APIError:                     "api error",
	NoNode:                       "no node",
	NoAuth:                       "not authorized",
	BadVersion:                   "bad version",
	NoChildrenForEphemerals:      "ephemeral nodes cannot have children",
	NodeExists:                   "node exists",
	NotEmpty:                     "node has children",
	SessionExpired:               "session expired",
	InvalidCallback:              "invalid callback",
	InvalidACL:                   "invalid acl",
	AuthFailed:                   "authentication failed",
	Closing:                      "connection is closing",
	Nothing:                      "nothing to do",
	SessionMoved:                 "session moved to another connection",
	NotReadOnly:                  "server is read-only",
	EphemeralOnLocalSession:      "local sessions cannot own ephemeral nodes",
	NoWatcher:                    "no such watch",
	RequestTimeout:               "request timed out",
	ReconfigDisabled:             "reconfiguration is disabled",
	SessionClosedRequireSaslAuth: "sasl authentication required",
	QuotaExceeded:                "quota exceeded",
	ThrottledOp:                  "operation throttled",
}

// Error implements error. An unknown code is named by its number.
func (c Code) Error() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "code " + strconv.Itoa(int(c))
}

// Err returns c as an error, or nil if it is OK.
func (c Code) Err() error {
	if c == OK {
		return nil
	}
	return c
}

// IsSentByServers reports whether a server may send the code. The other codes mark ranges, are made by
// clients for themselves, or are internal. Clients break on codes that they do not know.
func (c Code) IsSentByServers() bool {
	switch c {
	case DataInconsistency, ConnectionLoss, OperationTimeout, InvalidState,
		UnknownSession, APIError, InvalidCallback, Closing, Nothing, SessionMoved, RequestTimeout:
		return false
	}
	_, known := codeNames[c]
	return known
}
