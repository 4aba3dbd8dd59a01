package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"rollcall/operator/backup"
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

// query is a request under /v1/ whose parameters have been checked. The methods for parameters return the zero
// value if one is missing or wrong.
type query struct {
	*http.Request
	administrator string // "" without an administrator's credentials
	values        url.Values
	paths         *pathFilter // the paths that the caller may see
	fault         *Failure    // the first fault of the request
}

// newQuery checks the parameters of a request: e must have them, and none may be a duplicate.
func newQuery(e *endpoint, r *http.Request, administrator string) *query {
	q := &query{Request: r, administrator: administrator}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.addFault("the parameters cannot be read: %v; write NAME=VALUE&NAME=VALUE, with %%XX for special characters", err)
		return q
	}
	q.values = values
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(name)
		switch {
		case !slices.Contains(e.parameters, name) && len(e.parameters) == 0:
			q.addFault("unknown parameter %.100q; this endpoint has none", name)
		case !slices.Contains(e.parameters, name):
			q.addFault("unknown parameter %.100q; it must be one of %s", name, strings.Join(e.parameters, ", "))
		case len(values[name]) > 1:
			q.addFault("duplicate parameter %s: it is given %d times", name, len(values[name]))
		case e.parameter(name).valueFault(value) != "":
			q.addFault("%s=%.100q: %s", name, value, e.parameter(name).valueFault(value))
		}
	}
	for _, name := range e.requiredParameters {
		if !values.Has(name) {
			q.addFault("the parameter %s is missing: %s", name, e.parameter(name).help)
		}
	}
	if values.Has("sort") && values.Has("from") {
		q.addFault("from: a list with the parameter sort has one page; leave one of the two out")
	}
	if _, err := jute.ParseSessionID(r.PathValue("id")); err != nil && strings.Contains(e.path, "{id}") {
		q.addFault("the session: %v", err)
	}
	return q
}

// addFault records a fault of the request, unless it has one already.
func (q *query) addFault(format string, args ...any) {
	if q.fault == nil {
		q.fault = &Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
	}
}

// rejectHiddenPath rejects the request if the caller may not see the node that it names.
func (q *query) rejectHiddenPath() {
	if q.fault == nil && q.values.Has("path") && !q.paths.isVisible(q.values.Get("path")) {
		q.fault = &Failure{
			Status: http.StatusUnauthorized,
			Text: "this path is below a node that not everybody may read; this needs credentials: Authorization: digest " +
				"super:PASSWORD, or Bearer TOKEN",
		}
	}
}

// requester names the administrator and the address of the request, for the records of what it changes.
func (q *query) requester() string { return q.administrator + " from " + q.RemoteAddr }

func (q *query) pageParameters() view.Page {
	return view.Page{Limit: q.intParameter("limit"), Cursor: q.values.Get("from")}
}

func (q *query) intParameter(name string) int {
	n, _ := strconv.Atoi(q.values.Get(name)) // newQuery has checked it
	return n
}

func (q *query) sessionIDParameter(name string) jute.SessionID {
	id, _ := jute.ParseSessionID(q.values.Get(name)) // newQuery has checked it
	return id
}

// rejectUnknownMember rejects the request if its parameter member names none of the ensemble.
func (q *query) rejectUnknownMember(e Ensemble) {
	if q.fault != nil || !q.values.Has("member") {
		return
	}
	ids := []uint32{e.Self}
	for _, p := range e.Peers {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	member := uint32(q.intParameter("member"))
	if slices.Contains(ids, member) {
		return
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatUint(uint64(id), 10)
	}
	q.addFault("member=%d: the ensemble has no member %[1]d; it has %s", member, strings.Join(texts, ", "))
}

// pathSessionID returns the session id in the path of the request.
func (q *query) pathSessionID() jute.SessionID {
	id, _ := jute.ParseSessionID(q.PathValue("id")) // newQuery has checked it
	return id
}

func (q *query) orderParameter() view.SessionOrder {
	for _, o := range sessionOrders {
		if q.values.Get("sort") == o.String() {
			return o
		}
	}
	return 0
}

// maxBodyBytes limits the body of a request.
const maxBodyBytes = 64 << 10

// decodeBody decodes the JSON object in the body. An empty body stands for {}.
func (q *query) decodeBody(into any) { q.decodeBodyUpTo(into, maxBodyBytes) }

func (q *query) decodeBodyUpTo(into any, maxBytes int64) {
	d := json.NewDecoder(http.MaxBytesReader(nil, q.Body, maxBytes))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if errors.Is(err, io.EOF) {
		return
	}
	if err == nil && !errors.Is(d.Decode(&struct{}{}), io.EOF) {
		err = errors.New("there is more than one value")
	}
	if err != nil {
		q.addFault("the body is not the JSON object that this endpoint takes: %v", err)
	}
}

// parameter describes a parameter of endpoints under /v1/: in the query or, if the endpoint's path has {NAME}, in
// the path. It means the same in all of them, except those in changesParameters.
type parameter struct {
	help     string
	maxValue int                       // a number from 1 to maxValue; 0: text
	values   []string                  // the allowed values; nil: any
	pattern  string                    // regular expression of the values, for the description; "": any
	check    func(value string) string // returns the fault of a value; nil: there is none
}

const sessionIDPattern = "^0x[0-9a-fA-F]{1,16}$"

var sessionOrders = []view.SessionOrder{view.ByTimeLeft, view.ByWatches, view.ByEphemerals}

var parameters = map[string]parameter{
	"address": {help: "only those of clients at this IP address, or address and port", check: addressFault},
	"at":      {help: "shows the state at this moment of the past: " + momentHelp + "; needs what /v1/history needs", check: momentFault},
	"after":   {help: "index of an entry of the log", maxValue: math.MaxInt},
	"file":    {help: "name of a file: segments/NAME of a segment; snapshots/NAME/meta and snapshots/NAME/state of a snapshot"},
	"from":    {help: "where the page begins: the next of the page before"},
	"id":      {help: "id of a session", pattern: sessionIDPattern, check: sessionIDFault},
	"limit":   {help: "the most rows of the page; default 1000", maxValue: view.MaxRows},
	"request": {help: "the id of a slow request"},
	"member":  {help: "only those of this member", maxValue: maxMemberID},
	"path":    {help: "path of a node", check: pathFault},
	"rate":    {help: "the most MiB in a second; default 8", maxValue: backup.MaxRate},
	"session": {help: "only those of the session with this id", pattern: sessionIDPattern, check: sessionIDFault},
	"sort": {help: "the order: the least time left, the most watches, or the most ephemeral nodes first; there is " +
		"one page", values: []string{view.ByTimeLeft.String(), view.ByWatches.String(), view.ByEphemerals.String()}},
	"state": {help: "only those in this state", values: []string{view.StateConnected, view.StateDisconnected, view.StateUnknown}},
}

// maxMemberID is the highest id of a member.
const maxMemberID = 255

// parameter returns the parameter of an endpoint with a name.
func (e *endpoint) parameter(name string) parameter {
	if p, own := changesParameters[name]; own && e.path == changesPath {
		return p
	}
	return parameters[name]
}

// valueFault returns the fault of a value, or "" if it is valid.
func (p parameter) valueFault(value string) string {
	switch {
	case p.check != nil:
		return p.check(value)
	case p.maxValue > 0:
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > p.maxValue {
			return fmt.Sprintf("must be a number from 1 to %d", p.maxValue)
		}
	case p.values != nil:
		if last := len(p.values) - 1; !slices.Contains(p.values, value) {
			return fmt.Sprintf("must be %s or %s", strings.Join(p.values[:last], ", "), p.values[last])
		}
	}
	return ""
}

func addressFault(value string) string {
	if _, err := netip.ParseAddr(value); err == nil {
		return ""
	}
	if _, err := netip.ParseAddrPort(value); err == nil {
		return ""
	}
	return "must be an IP address, or one with a port, such as 10.0.0.7:41234 or [fd00::7]:41234"
}

func pathFault(value string) string {
	if jute.ValidPath(value) {
		return ""
	}
	return "must be the path of a node, such as path=/locks/a"
}

func sessionIDFault(value string) string {
	if _, err := jute.ParseSessionID(value); err != nil {
		return err.Error()
	}
	return ""
}
