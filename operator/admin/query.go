package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"rollcall/operator/view"
	"rollcall/zk/jute"
)

// query is a request under /v1/ while it is read. Its methods return the values of parameters, or the zero
// value of one that is missing or wrong. The first wrong one is kept in err.
type query struct {
	*http.Request
	administrator string // the administrator, or ""
	values        url.Values
	paths         *pathFilter // the paths that the caller is shown
	fault         *Failure
}

// newQuery reads the parameters of a request. Each must be a parameter of the endpoint, and must not be a duplicate.
func newQuery(e *endpoint, r *http.Request, who string) *query {
	q := &query{Request: r, administrator: who}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.addFault("the parameters cannot be read: %v; write NAME=VALUE&NAME=VALUE, with %%XX for special characters", err)
		return q
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(name)
		switch {
		case !slices.Contains(e.parameters, name) && len(e.parameters) == 0:
			q.addFault("there is no parameter %.100q here; none is allowed", name)
		case !slices.Contains(e.parameters, name):
			q.addFault("there is no parameter %.100q here; allowed are %s", name, strings.Join(e.parameters, ", "))
		case len(values[name]) > 1:
			q.addFault("the parameter %s is given %d times; give it once", name, len(values[name]))
		case parameters[name].valueFault(value) != "":
			q.addFault("%s=%.100q: %s", name, value, parameters[name].valueFault(value))
		}
	}
	for _, name := range e.requiredParameters {
		if !values.Has(name) {
			q.addFault("the parameter %s is missing: %s", name, parameters[name].help)
		}
	}
	q.values = values
	return q
}

// addFault records a fault of the request, if it is the first one.
func (q *query) addFault(format string, args ...any) {
	if q.fault == nil {
		q.fault = &Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
	}
}

// pageParameters returns the parameters limit and from.
func (q *query) pageParameters() view.Page {
	return view.Page{Limit: q.intParameter("limit"), Cursor: q.values.Get("from")}
}

// intParameter returns a parameter that is a number, or 0 if it is missing.
func (q *query) intParameter(name string) int {
	n, err := strconv.Atoi(q.values.Get(name))
	if err != nil { // newQuery has checked it
		return 0
	}
	return n
}

// sessionIDParameter returns a parameter that is the id of a session.
func (q *query) sessionIDParameter(name string) jute.SessionID {
	if !q.values.Has(name) {
		return 0
	}
	return q.parseSessionID(name, q.values.Get(name))
}

// pathSessionID returns the id of the session in the path of the request.
func (q *query) pathSessionID() jute.SessionID {
	return q.parseSessionID("the session", q.PathValue("id"))
}

func (q *query) parseSessionID(name, text string) jute.SessionID {
	id, err := jute.ParseSessionID(text)
	if err != nil {
		q.addFault("%s: %v", name, err)
	}
	return id
}

// addressParameter returns the parameter address.
func (q *query) addressParameter() string {
	text := q.values.Get("address")
	_, err := netip.ParseAddr(text)
	_, perr := netip.ParseAddrPort(text)
	if q.values.Has("address") && err != nil && perr != nil {
		q.addFault("address=%.100q: allowed are an IP address, and one with a port, such as 10.0.0.7:41234 or [fd00::7]:41234", text)
	}
	return text
}

// orderParameter returns the parameter sort, or 0. An order has one page.
func (q *query) orderParameter() view.SessionOrder {
	for _, o := range []view.SessionOrder{view.ByTimeLeft, view.ByWatches, view.ByEphemerals} {
		if q.values.Get("sort") == o.String() {
			if q.values.Has("from") {
				q.addFault("from: a list with the parameter sort has one page; leave one of the two out")
			}
			return o
		}
	}
	return 0
}

// pathParameter returns the parameter path, which must be a path of a node.
func (q *query) pathParameter() string {
	path := q.values.Get("path")
	if !jute.ValidPath(path) {
		q.addFault("path=%.100q: give the path of a node, such as path=/locks/a", path)
	}
	if q.fault == nil && !q.paths.isVisible(path) {
		q.fault = &Failure{Status: http.StatusUnauthorized, Text: "this path is below a node that not everybody may read; this needs credentials: Authorization: digest super:PASSWORD, or Bearer TOKEN"}
	}
	return path
}

// maxBodyBytes is the longest body of a request, in bytes.
const maxBodyBytes = 64 << 10

// decodeBody reads the JSON object that is the request's body into what into points to. An empty body is {}.
func (q *query) decodeBody(into any) { q.decodeBodyUpTo(into, maxBodyBytes) }

// decodeBodyUpTo does the same with a body of up to most bytes.
func (q *query) decodeBodyUpTo(into any, most int64) {
	d := json.NewDecoder(http.MaxBytesReader(nil, q.Body, most))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if errors.Is(err, io.EOF) {
		return
	}
	if err == nil && !errors.Is(d.Decode(&struct{}{}), io.EOF) {
		err = errors.New("there is more than one value")
	}
	if err != nil {
		q.addFault("the body is not the JSON object that is wanted here: %v", err)
	}
}
