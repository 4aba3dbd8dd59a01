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
	who    string // the administrator, or ""
	values url.Values
	paths  *pathFilter // the paths that the caller is shown
	err    *Failure
}

// newQuery reads the parameters of a request. Each must be a parameter of the endpoint, and must not be a duplicate.
func newQuery(e *endpoint, r *http.Request, who string) *query {
	q := &query{Request: r, who: who}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.wrong("the parameters cannot be read: %v; write NAME=VALUE&NAME=VALUE, with %%XX for special characters", err)
		return q
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(name)
		switch {
		case !slices.Contains(e.parameters, name) && len(e.parameters) == 0:
			q.wrong("there is no parameter %.100q here; none is allowed", name)
		case !slices.Contains(e.parameters, name):
			q.wrong("there is no parameter %.100q here; allowed are %s", name, strings.Join(e.parameters, ", "))
		case len(values[name]) > 1:
			q.wrong("the parameter %s is given %d times; give it once", name, len(values[name]))
		case parameters[name].fault(value) != "":
			q.wrong("%s=%.100q: %s", name, value, parameters[name].fault(value))
		}
	}
	for _, name := range e.requiredParameters {
		if !values.Has(name) {
			q.wrong("the parameter %s is missing: %s", name, parameters[name].help)
		}
	}
	q.values = values
	return q
}

// wrong records a fault of the request, if it is the first one.
func (q *query) wrong(format string, args ...any) {
	if q.err == nil {
		q.err = &Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
	}
}

// page returns the parameters limit and from.
func (q *query) page() view.Page {
	return view.Page{Limit: q.number("limit"), From: q.values.Get("from")}
}

// number returns a parameter that is a number, or 0 if it is missing.
func (q *query) number(name string) int {
	n, err := strconv.Atoi(q.values.Get(name))
	if err != nil { // newQuery has checked it
		return 0
	}
	return n
}

// id returns a parameter that is the id of a session.
func (q *query) id(name string) jute.SessionID {
	if !q.values.Has(name) {
		return 0
	}
	return q.session(name, q.values.Get(name))
}

// ownID returns the id of the session in the path of the request.
func (q *query) ownID() jute.SessionID { return q.session("the session", q.PathValue("id")) }

func (q *query) session(name, text string) jute.SessionID {
	id, err := jute.ParseSessionID(text)
	if err != nil {
		q.wrong("%s: %v", name, err)
	}
	return id
}

// address returns the parameter address.
func (q *query) address() string {
	text := q.values.Get("address")
	_, err := netip.ParseAddr(text)
	_, perr := netip.ParseAddrPort(text)
	if q.values.Has("address") && err != nil && perr != nil {
		q.wrong("address=%.100q: allowed are an IP address, and one with a port, such as 10.0.0.7:41234 or [fd00::7]:41234", text)
	}
	return text
}

// order returns the parameter sort, or 0. An order has one page.
func (q *query) order() view.Order {
	for _, o := range []view.Order{view.ByLeft, view.ByWatches, view.ByEphemerals} {
		if q.values.Get("sort") == o.String() {
			if q.values.Has("from") {
				q.wrong("from: a list with the parameter sort has one page; leave one of the two out")
			}
			return o
		}
	}
	return 0
}

// path returns the parameter path, which must be a path of a node.
func (q *query) path() string {
	path := q.values.Get("path")
	if !jute.ValidPath(path) {
		q.wrong("path=%.100q: give the path of a node, such as path=/locks/a", path)
	}
	if q.err == nil && !q.paths.shows(path) {
		q.err = &Failure{Status: http.StatusUnauthorized, Text: "this path is below a node that not everybody may read; this needs credentials: Authorization: digest super:PASSWORD, or Bearer TOKEN"}
	}
	return path
}

// maxBody is the longest body of a request, in bytes.
const maxBody = 64 << 10

// body reads the JSON object that is the request's body into what into points to. An empty body is {}.
func (q *query) body(into any) { q.bodyOf(into, maxBody) }

// bodyOf does the same with a body of up to most bytes.
func (q *query) bodyOf(into any, most int64) {
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
		q.wrong("the body is not the JSON object that is wanted here: %v", err)
	}
}
