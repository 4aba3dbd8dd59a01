package shell

import (
	"cmp"
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

// codeTexts are the texts of codes: the name in messages of ZooKeeper's Java client, and the message of zkCli.sh up to the
// path, if it has one of its own.
var codeTexts = map[jute.Code]struct{ javaName, zkCli string }{
	jute.SystemError:                  {"SystemError", ""},
	jute.RuntimeInconsistency:         {"RuntimeInconsistency", ""},
	jute.DataInconsistency:            {"DataInconsistency", ""},
	jute.ConnectionLoss:               {"ConnectionLoss", ""},
	jute.MarshallingError:             {"MarshallingError", ""},
	jute.Unimplemented:                {"Unimplemented", ""},
	jute.OperationTimeout:             {"OperationTimeout", ""},
	jute.BadArguments:                 {"BadArguments", "Arguments are not valid : "},
	jute.APIError:                     {"APIError", ""},
	jute.NoNode:                       {"NoNode", "Node does not exist: "},
	jute.NoAuth:                       {"NoAuth", "Insufficient permission : "},
	jute.BadVersion:                   {"BadVersion", "version No is not valid : "},
	jute.NoChildrenForEphemerals:      {"NoChildrenForEphemerals", "Ephemerals cannot have children: "},
	jute.NodeExists:                   {"NodeExists", "Node already exists: "},
	jute.NotEmpty:                     {"Directory not empty", "Node not empty: "},
	jute.SessionExpired:               {"Session expired", ""},
	jute.InvalidCallback:              {"Invalid callback", ""},
	jute.InvalidACL:                   {"InvalidACL", "Acl is not valid : "},
	jute.AuthFailed:                   {"AuthFailed", ""},
	jute.SessionMoved:                 {"Session moved", ""},
	jute.NotReadOnly:                  {"Not a read-only call", "Not a read-only call: "},
	jute.EphemeralOnLocalSession:      {"Ephemeral node on local session", ""},
	jute.NoWatcher:                    {"No such watcher", ""},
	jute.RequestTimeout:               {"Request timeout", ""},
	jute.ReconfigDisabled:             {"Reconfig is disabled", ""},
	jute.SessionClosedRequireSaslAuth: {"Session closed because client failed to authenticate", ""},
	jute.QuotaExceeded:                {"Quota has exceeded", "Quota has exceeded : "},
	jute.ThrottledOp:                  {"Op throttled due to high load", ""},
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
	text := codeTexts[f.code].zkCli
	switch {
	case text == "":
		return f.javaMessage()
	case f.path == "":
		return text + "null"
	}
	return text + f.path
}

// javaMessage returns the message of the Java client's exception.
func (f *requestError) javaMessage() string {
	name := cmp.Or(codeTexts[f.code].javaName, fmt.Sprintf("Unknown error %d", f.code))
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
