package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall/operator/backup"
	"rollcall/operator/view"
)

// parameter is a parameter of endpoints under /v1/, in the query or, if the endpoint's path has {NAME}, in
// the path. It means the same in all of them.
type parameter struct {
	help     string
	maxValue int      // it is a number from 1 to most; 0: it is text
	values   []string // the values that it may have; nil: others, too
	pattern  string   // regular expression that its values match; "": others do, too
}

// sessionIDPattern is how the id of a session is written.
const sessionIDPattern = "^0x[0-9a-fA-F]{1,16}$"

// parameters are all of them.
var parameters = map[string]parameter{
	"address": {help: "only those of clients at this IP address, or address and port"},
	"from":    {help: "where the page begins: the next of the page before"},
	"id":      {help: "id of a session", pattern: sessionIDPattern},
	"limit":   {help: "the most rows of the page; default 1000", maxValue: view.MaxRows},
	"member":  {help: "only those of this member", maxValue: maxMemberID},
	"path":    {help: "path of a node"},
	"rate":    {help: "the most MiB in a second; default 8", maxValue: backup.MaxRate},
	"session": {help: "only those of the session with this id", pattern: sessionIDPattern},
	"sort":    {help: "the order: the least time left, the most watches, or the most ephemeral nodes first; there is one page", values: []string{view.ByTimeLeft.String(), view.ByWatches.String(), view.ByEphemerals.String()}},
	"state":   {help: "only those in this state", values: []string{view.StateConnected, view.StateDisconnected, view.StateUnknown}},
}

// maxMemberID is the highest id of a member.
const maxMemberID = 255

// valueFault returns what is wrong with a parameter's value, with what is allowed, or "".
func (p parameter) valueFault(value string) string {
	switch {
	case p.maxValue > 0:
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > p.maxValue {
			return fmt.Sprintf("allowed are the numbers from 1 to %d", p.maxValue)
		}
	case p.values != nil:
		if last := len(p.values) - 1; !slices.Contains(p.values, value) {
			return fmt.Sprintf("allowed are %s and %s", strings.Join(p.values[:last], ", "), p.values[last])
		}
	}
	return ""
}
