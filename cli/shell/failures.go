package shell

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client"
	"rollcall/zk/jute"
)

// Exit statuses of a command, as in zkCli.sh.
const (
	statusOK          = 0
	statusFailed      = 1
	statusUnknown     = 127 // there is no such verb
	statusInterrupted = 130
)

var (
	errInterrupted = errors.New("interrupted")
	errUsage       = errors.New("usage") // the verb's usage is to be printed
	errTooLong     = errors.New("the request is longer than --max-request; nothing was sent")
)

// zkCliError is an error with a text of zkCli.sh, which is printed unchanged.
type zkCliError string

func (m zkCliError) Error() string { return string(m) }

type unknownVerb string

func (v unknownVerb) Error() string { return "Command not found: Command not found " + string(v) }

// requestError is the error of a request. An empty path is printed as "null".
type requestError struct {
	code   jute.Code
	path   string
	reason error // further details, or nil
}

// zkCliTexts are the messages of zkCli.sh for the codes that it knows, up to the path.
var zkCliTexts = map[jute.Code]string{
	jute.NoNode:                  "Node does not exist: ",
	jute.NoChildrenForEphemerals: "Ephemerals cannot have children: ",
	jute.NodeExists:              "Node already exists: ",
	jute.NotEmpty:                "Node not empty: ",
	jute.NotReadOnly:             "Not a read-only call: ",
	jute.InvalidACL:              "Acl is not valid : ",
	jute.NoAuth:                  "Insufficient permission : ",
	jute.BadArguments:            "Arguments are not valid : ",
	jute.BadVersion:              "version No is not valid : ",
	jute.QuotaExceeded:           "Quota has exceeded : ",
}

// Error implements error. It returns the message of zkCli.sh.
func (f *requestError) Error() string {
	switch f.code {
	case jute.ReconfigInProgress:
		return "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)"
	case jute.NewConfigNoQuorum:
		return "No quorum of new config is connected and up-to-date with the leader of last committed config - try " +
			"invoking reconfiguration after new servers are connected and synced"
	}
	text, ok := zkCliTexts[f.code]
	switch {
	case !ok:
		return f.javaMessage()
	case f.path == "":
		return text + "null"
	}
	return text + f.path
}

// javaCodeNames are the names of codes in messages of ZooKeeper's Java client.
var javaCodeNames = map[jute.Code]string{
	jute.SystemError:                  "SystemError",
	jute.RuntimeInconsistency:         "RuntimeInconsistency",
	jute.DataInconsistency:            "DataInconsistency",
	jute.ConnectionLoss:               "ConnectionLoss",
	jute.MarshallingError:             "MarshallingError",
	jute.Unimplemented:                "Unimplemented",
	jute.OperationTimeout:             "OperationTimeout",
	jute.BadArguments:                 "BadArguments",
	jute.APIError:                     "APIError",
	jute.NoNode:                       "NoNode",
	jute.NoAuth:                       "NoAuth",
	jute.BadVersion:                   "BadVersion",
	jute.NoChildrenForEphemerals:      "NoChildrenForEphemerals",
	jute.NodeExists:                   "NodeExists",
	jute.NotEmpty:                     "Directory not empty",
	jute.SessionExpired:               "Session expired",
	jute.InvalidCallback:              "Invalid callback",
	jute.InvalidACL:                   "InvalidACL",
	jute.AuthFailed:                   "AuthFailed",
	jute.SessionMoved:                 "Session moved",
	jute.NotReadOnly:                  "Not a read-only call",
	jute.EphemeralOnLocalSession:      "Ephemeral node on local session",
	jute.NoWatcher:                    "No such watcher",
	jute.RequestTimeout:               "Request timeout",
	jute.ReconfigDisabled:             "Reconfig is disabled",
	jute.SessionClosedRequireSaslAuth: "Session closed because client failed to authenticate",
	jute.QuotaExceeded:                "Quota has exceeded",
	jute.ThrottledOp:                  "Op throttled due to high load",
}

// javaMessage returns the message of the Java client's exception.
func (f *requestError) javaMessage() string {
	name, ok := javaCodeNames[f.code]
	if !ok {
		name = fmt.Sprintf("Unknown error %d", f.code)
	}
	if f.path == "" {
		return "KeeperErrorCode = " + name
	}
	return "KeeperErrorCode = " + name + " for " + f.path
}

// toRequestError converts the error of a request about a path for the shell. It returns nil for nil.
func toRequestError(err error, path string) error {
	var code jute.Code
	var nobody *unreachableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &nobody):
		return &requestError{code: jute.ConnectionLoss, path: path, reason: nobody}
	case errors.Is(err, context.Canceled):
		return errInterrupted
	case errors.Is(err, client.ErrTooLong):
		return errTooLong
	case errors.As(err, &code):
		return &requestError{code: code, path: path}
	}
	return &requestError{code: jute.ConnectionLoss, path: path, reason: err}
}

func hasCode(err error, code jute.Code) bool {
	f, ok := errors.AsType[*requestError](err)
	return ok && f.code == code
}
