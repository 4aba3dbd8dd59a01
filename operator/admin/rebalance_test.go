package admin

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// A rebalance is for administrators and has a bounded rate. Its reply has the result for each member.
func TestV1Rebalance(t *testing.T) {
	const done = `{"balanced":true,"connections":6,"took_ms":3000,"items":[{"member":1,"before":9,"after":3,"closed":6,"failed":"busy"},{"member":2,"before":0,"after":6,"closed":0,"failed":""}],"silent":[{"member":3,`
	for _, tt := range []struct {
		visit  visit
		err    error
		status int
		want   string // in the answer
		asked  string
	}{
		{visit{header: signedIn, body: "{}"}, nil, 200, done, "rebalance 100 for super from 127.0.0.1:1"},
		{visit{header: signedIn, body: `{"per_second":1000}`}, nil, 200, done, "rebalance 1000 for super from 127.0.0.1:1"},
		{visit{header: signedIn, body: `{"per_second":1001}`}, nil, 400, "per_second: 1001; must be 1 to 1000", ""},
		{visit{header: signedIn, body: `{"per_second":0}`}, nil, 400, "per_second: 0; must be 1 to 1000", ""},
		{visit{header: signedIn, body: "{}"}, &Failure{Status: http.StatusConflict, Text: "already"}, 409, "already", "rebalance 100 for super from 127.0.0.1:1"},
		{visit{body: "{}"}, nil, 401, "credentials", ""},
		{visit{header: signedIn, body: "{}", from: "10.0.0.9:5"}, nil, 403, "own machine", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			opsOf(h).err = tt.err
			tt.visit.method, tt.visit.path = "POST", "/v1/members/rebalance"
			if w := tt.visit.to(h); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || opsOf(h).asked != tt.asked {
				t.Errorf("%s: %d %s, asked %q; want %d %s, %q", tt.visit.body, w.Code, w.Body, opsOf(h).asked, tt.status, tt.want, tt.asked)
			}
		})
	}
}
