package admin

import (
	"errors"
	"strings"
	"testing"

	"rollcall/operator/api"
)

// fakeLimits keep the last change, or fail.
type fakeLimits struct {
	changed api.LimitsChange
	err     error
}

func (f *fakeLimits) List() []api.Limit {
	return append([]api.Limit{{Name: "clients", Rule: "each address requests=5"}}, f.changed.Set...)
}

func (f *fakeLimits) Change(change api.LimitsChange) error {
	if f.err == nil {
		f.changed = change
	}
	return f.err
}

// Everybody who may read sees the limits, and administrators on the member's machine change them. A wrong limit changes nothing.
func TestLimits(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	limits := &fakeLimits{}
	h.member.limits = limits
	const change = `{"set":[{"name":"batch","rule":"subtree /batch requests=5"}]}`
	for _, tt := range []struct {
		visit  visit
		err    error
		status int
		want   string // in the answer
	}{
		{visit{method: "GET", path: "/v1/limits"}, nil, 200, `"rule":"each address requests=5"`},
		{visit{method: "GET", path: "/v1/limits", from: "10.0.0.9:5"}, nil, 401, "credentials"},
		{visit{method: "POST", path: "/v1/limits", body: change}, nil, 401, "credentials"},
		{visit{method: "POST", path: "/v1/limits", header: signedIn, body: `{"sets":[]}`}, nil, 400, "sets"},
		{visit{method: "POST", path: "/v1/limits", header: signedIn, body: change}, errors.New("limit batch: it is wrong"), 400, "limit batch: it is wrong"},
		{visit{method: "POST", path: "/v1/limits", header: signedIn, body: change}, nil, 200, `"name":"batch"`},
	} {
		limits.err = tt.err
		if w := tt.visit.to(h); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s %s: %d %s; want %d with %s", tt.visit.method, tt.visit.body, w.Code, w.Body, tt.status, tt.want)
		}
		if changed := len(limits.changed.Set) > 0; changed != (tt.status == 200 && tt.visit.method == "POST") {
			t.Errorf("%s %s: the limits are changed: %t", tt.visit.method, tt.visit.body, changed)
		}
	}
}
