package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/view"
	"rollcall/znode"
)

// signedIn are the headers of an administrator's request.
var signedIn = []string{"Authorization", "digest super:secret", "Content-Type", "application/json"}

// opsOf returns the fake Operations of h.
func opsOf(h *HTTP) *fakeOps { return h.cfg.Operations.(*fakeOps) }

// The replies have the values of the member, under the keys of package api.
func TestV1Answers(t *testing.T) {
	const session = `"id":"0x1000012f99a0001","state":"connected","member":1,"address":"10.0.0.1:46396","timeout_ms":15000,"left_ms":13500,"heard_ms":1500,
		"created":"2026-11-20T02:43:20.123Z","ephemerals":2,"watches":3,"connection":{`
	for _, tt := range []struct{ path, want string }{
		{"status", `{"items":[{"member":1,"role":"leader","leader":1,"term":4,"clients":"10.0.1.1:2181","quorum":"a:2888","election":"a:3888","console":"http://10.0.1.1:8080","zxid":"0x4000000a1",
			"applied":90,"committed":91,"lag":1,"sessions":1,"connections":2,"watches":3,"data_bytes":510,"log_bytes":1000,"snapshot":50,"snapshot_at":"2026-11-20T02:43:20Z",
			"digest":"agrees","digest_index":64,"version":"1","started":"2026-11-20T02:43:20Z","clock_ahead_ms":-20,"joining":false,"drained":false,"exposed":"","removed":false,"no_memory":false,
			"not_serving":"","data_free":0,"log_free":0,"data_quota":0,"data_used":0,"memory_limit":0,"memory_used":0,"stalled":"","damaged":""},{"member":2,`},
		{"status", `"lag":null,`},
		{"status", `"snapshot_at":null,"digest":"unknown","digest_index":0,`},
		{"status", `"joining":true,"drained":true,"exposed":"","removed":true,"no_memory":true,"not_serving":"","data_free":0,"log_free":0,"data_quota":0,"data_used":0,"memory_limit":0,"memory_used":0,"stalled":"the disk hangs","damaged":"entry 7"}],"next":"","silent":[{"member":3,"reason":"down","detail":"connection refused"}]}`},
		{"sessions", `{"items":[{` + session + `"member":1,"number":7,"address":"10.0.0.1:46396","tls":"","cipher":"","session":"0x1000012f99a0001","timeout_ms":15000,"established":"2026-11-20T02:43:20Z",
			"received":8,"sent":9,"requests_per_s":1.5,"bytes_per_s":640,"queued":2,"last_op":"getChildren2","last_zxid":"0x20000000a","last_us":2000,"min_us":900,"avg_us":1000,"max_us":4000}},
			{"id":"0x8000000000000001","state":"unknown","member":3,"address":"","timeout_ms":1000,"left_ms":null,"heard_ms":null,"created":"0001-01-01T00:00:00Z","ephemerals":0,"watches":0,"connection":null}`},
		{"sessions/0x1000012f99a0001", `{` + session},
		{"sessions/0x1000012f99a0001", `"max_us":4000},"silent":[{"member":3,"reason":"down","detail":"connection refused"}]}`},
		{"sessions/0x1/ephemerals", `{"items":[{"path":"/a"},{"path":"/b/c"}],"next":"","silent":[{`},
		{"sessions/0x1/watches", `{"items":[{"member":1,"connection":7,"session":"0x1000012f99a0001","path":"/a","data":true,"children":true,"persistent":false,"recursive":false},`},
		{"watches?path=/a", `{"member":2,"connection":1,"session":"0x2","path":"/é","data":false,"children":false,"persistent":true,"recursive":true}],`},
		{"connections", `{"member":2,"number":1,"address":"[::1]:4","tls":"TLSv1.3","cipher":"TLS_AES_128_GCM_SHA256","session":"","timeout_ms":0,"established":"0001-01-01T00:00:00Z","received":0,"sent":0,"requests_per_s":0,"bytes_per_s":0,"queued":0,"last_op":"","last_zxid":"0x0","last_us":0,`},
		{"owner?path=/a", `{"path":"/a","kind":"ephemeral","id":"0x1000012f99a0001","ended":false,"session":{` + session},
		{"ends", `{"items":[{"id":"0x1000012f99a0001","state":"ended","ended":"2026-11-20T02:43:20Z","reason":"killed","by":"super from 127.0.0.1:1","address":"10.0.0.1:46396",
			"member":1,"leader":2,"term":4,"zxid":"0x4000000a2","silent_ms":3000,"timeout_ms":15000,"ephemerals":2,"number":2},{"id":"0x5",`},
		{"ends?session=0x5", `{"items":[{"id":"0x5","state":"ended",`},
		{"buckets", `{"tick_ms":2000,"at":"2026-11-20T02:43:20Z","leader":2,"buckets":[{"due_ms":-5,"sessions":3},{"due_ms":1995,"sessions":40}],"later":1,"silent":[{"member":3,`},
		{"removals", `{"items":[{"path":"/é","removed":"2026-11-20T02:43:20Z","zxid":"0x4000000a3","cause":"delete","session":"0x5","address":"10.0.0.2:1","member":2,"end":null},
			{"path":"/swept","removed":"2026-11-20T02:43:20Z","zxid":"0x4000000a2","cause":"session ended","session":"0x1000012f99a0001","address":"10.0.0.1:46396","member":1,
			"end":{"id":"0x1000012f99a0001","state":"ended",`},
		{"removals?path=/old", `{"path":"/old","removed":"2026-11-20T02:43:20Z","zxid":"0x4000000a1","cause":"session ended","session":"0x77","address":"10.0.0.3:1","member":3,"end":null},
			{"path":"/ttl","removed":"2026-11-20T02:43:20Z","zxid":"0x4000000a0","cause":"ttl","session":"","address":"","member":0,"end":null},
			{"path":"/container","removed":"2026-11-20T02:43:20Z","zxid":"0x40000009f","cause":"container","session":"","address":"","member":0,"end":null}],"next":"","silent":[{"member":3,`},
		{"members", `{"ensemble":"ab12","version":"0x400000005","leader":1,"committed":91,"removed":false,"settled":false,"items":[
			{"member":1,"server":"server.1=a:2888:3888:participant;0.0.0.0:2181","quorum":"a:2888","election":"a:3888","clients":"0.0.0.0:2181","configured":"a:3888","role":"participant","voter":true,
			"state":"leader","applied":90,"lag":1,"needed":true,"drained":false,"detail":""},
			{"member":2,"server":"server.2=b:2888:3888:observer","quorum":"b:2888","election":"b:3888","clients":"","configured":"","role":"observer","voter":true,"state":"observer","applied":91,"lag":0,"needed":false,"drained":true,"detail":""},
			{"member":3,"server":"","quorum":"","election":"c:3888","clients":"","configured":"","role":"","voter":false,"state":"silent","applied":0,"lag":null,"needed":false,"drained":false,"detail":"down: connection refused"}],
			"silent":[{"member":3,"reason":"down","detail":"connection refused"}]}`},
		{"ends?session=0x9", `{"items":[],"next":"","silent":[]}`},
		{"config", `{"items":[{"key":"tickTime","value":"100","default":"3000","from":"zoo.cfg:1","state":"dangerous","warning":"short"}],"next":"","silent":[]}`},
	} {
		h, _ := newTestHTTP(t, "leader")
		w := visit{method: "GET", path: "/v1/" + tt.path}.to(h)
		got, want := w.Body.String(), strings.Join(strings.Fields(tt.want), "")
		if w.Code != http.StatusOK || !strings.Contains(strings.ReplaceAll(got, " ", ""), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("%s: %d:\n%s\nwant\n%s", tt.path, w.Code, got, want)
		}
		if kind := w.Header().Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s: Content-Type %s", tt.path, kind)
		}
	}
}

// The parameters reach the question.
func TestV1Parameters(t *testing.T) {
	for _, tt := range []struct {
		path string
		want fakeOps
	}{
		{"sessions", fakeOps{asked: "sessions"}},
		{"sessions?limit=7&from=abc&id=0xff&member=2&state=disconnected&address=10.0.0.1", fakeOps{
			asked: "sessions", page: view.Page{Limit: 7, Cursor: "abc"}, filter: view.SessionFilter{ID: 255, Member: 2, State: view.StateDisconnected, Address: "10.0.0.1"},
		}},
		{"sessions?address=%5B::1%5D:5&limit=1000", fakeOps{asked: "sessions", page: view.Page{Limit: 1000}, filter: view.SessionFilter{Address: "[::1]:5"}}},
		{"sessions?sort=left&member=2&limit=7", fakeOps{asked: "sessions by", order: view.ByTimeLeft, page: view.Page{Limit: 7}, filter: view.SessionFilter{Member: 2}}},
		{"sessions?sort=watches", fakeOps{asked: "sessions by", order: view.ByWatches}},
		{"sessions?sort=ephemerals", fakeOps{asked: "sessions by", order: view.ByEphemerals}},
		{"sessions/0xffffffffffffffff/watches?limit=1&from=b", fakeOps{asked: "session watches", id: -1, page: view.Page{Limit: 1, Cursor: "b"}}},
		{"sessions/0x12/ephemerals?limit=1&from=b", fakeOps{asked: "ephemerals", id: 18, page: view.Page{Limit: 1, Cursor: "b"}}},
		{"connections?limit=1&from=b", fakeOps{asked: "connections", page: view.Page{Limit: 1, Cursor: "b"}}},
		{"connections?member=2&address=%5B::1%5D:5", fakeOps{asked: "connections", conn: view.ConnectionFilter{Member: 2, Address: "[::1]:5"}}},
		{"watches?path=/a%26b&limit=1&from=b", fakeOps{asked: "watches", path: "/a&b", page: view.Page{Limit: 1, Cursor: "b"}}},
		{"removals", fakeOps{asked: "removals"}},
		{"removals?path=/a&limit=1&from=b", fakeOps{asked: "removals", path: "/a", page: view.Page{Limit: 1, Cursor: "b"}}},
		{"owner?path=/", fakeOps{asked: "owner", path: "/"}},
		{"slow?member=2&limit=1&from=b", fakeOps{asked: "slow", slowOf: view.SlowFilter{Member: 2}, page: view.Page{Limit: 1, Cursor: "b"}}},
		{"slow?session=0x5&address=10.0.0.1", fakeOps{asked: "slow", slowOf: view.SlowFilter{Session: 5, Address: "10.0.0.1"}}},
		{"ends?session=0x5&address=10.0.0.1:7&from=before-9&limit=1", fakeOps{asked: "ends", id: 5, address: "10.0.0.1:7", before: 9}},
	} {
		f := &fakeOps{}
		h, _ := newTestHTTP(t, "leader", on(f))
		if w := (visit{method: "GET", path: "/v1/" + tt.path}).to(h); w.Code != http.StatusOK || !reflect.DeepEqual(*f, tt.want) {
			t.Errorf("%s: %d %s, asked %+v, want %+v", tt.path, w.Code, w.Body, *f, tt.want)
		}
	}
}

// The reply to a bad request names the fault and the allowed values. No Operation is called.
func TestV1BadRequests(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct{ path, want string }{
		{"status?limit=1", `unknown parameter "limit"; this endpoint has none`},
		{"sessions?what=1", `unknown parameter "what"; it must be one of limit, from, id, member, state, address, sort`},
		{"sessions?" + long + "=1", `unknown parameter "` + long[:100] + `"; it must be one of`},
		{"sessions?limit=1&limit=1", `duplicate parameter limit: it is given 2 times`},
		{"sessions?limit=%zz", `invalid URL escape "%zz"; write NAME=VALUE`},
		{"sessions?a;b", `invalid semicolon separator`},
		{"sessions?limit=0", `limit="0": must be a number from 1 to 1000`},
		{"sessions?limit=1001", `must be a number from 1 to 1000`},
		{"sessions?limit=-5", `must be a number from 1 to 1000`},
		{"sessions?limit=", `limit="": must be a number`},
		{"ends?limit=99999999999999999999", `must be a number from 1 to 1000`},
		{"connections?limit=1e2", `must be a number from 1 to 1000`},
		{"sessions?member=256", `member="256": must be a number from 1 to 255`},
		{"sessions?state=alive", `state="alive": must be connected, disconnected or unknown`},
		{"sessions?sort=age", `sort="age": must be left, watches or ephemerals`},
		{"sessions?sort=left&from=abc", `from: a list with the parameter sort has one page`},
		{"sessions?address=myhost", `address="myhost": must be an IP address`},
		{"ends?address=", `address="": must be an IP address`},
		{"connections?address=10.0.0.0/8", `address="10.0.0.0/8": must be an IP address`},
		{"connections?member=0", `member="0": must be a number from 1 to 255`},
		{"sessions?id=72057675534958593", `if this number is decimal, that is 0x1000012f99a0001`},
		{"sessions/72057675534958593", `the session: "72057675534958593" is not the id of a session: that is 0x and up to 16 hexadecimal digits`},
		{"sessions/-9223372036854775807/watches", `that is 0x8000000000000001`},
		{"sessions/0x", `the session: "0x" is not the id`},
		{"sessions/0x0/ephemerals", `up to 16 hexadecimal digits`},
		{"sessions/0x10000000000000000", `up to 16 hexadecimal digits`},
		{"sessions/0X1", `up to 16 hexadecimal digits`},
		{"sessions/0x+1", `up to 16 hexadecimal digits`},
		{"sessions/0x1_0", `up to 16 hexadecimal digits`},
		{"sessions/%0a", `the session: "\n" is not the id`},
		{"ends?session=" + long, `up to 16 hexadecimal digits`},
		{"ends?from=9", `not the next of an earlier page`},
		{"ends?from=before-0", `not the next of an earlier page`},
		{"ends?from=before--1", `not the next of an earlier page`},
		{"slow?session=5", `session="5": "5" is not the id of a session`},
		{"slow?address=myhost", `address="myhost": must be an IP address`},
		{"slow?path=/a", `unknown parameter "path"; it must be one of member, session, address, limit, from`},
		{"watches", `the parameter path is missing: path of a node`},
		{"watches?path=", `path="": must be the path of a node`},
		{"watches?path=a", `path="a": must be the path of a node`},
		{"removals?path=", `path="": must be the path of a node`},
		{"removals?path=/a//b", `path="/a//b": must be the path of a node`},
		{"owner?path=/a/", `path="/a/": must be the path of a node`},
		{"owner?path=/a/../b", `must be the path of a node`},
		{"owner?path=/%00", `path="/\x00": must be the path`},
		{"owner?path=/%ff", `must be the path of a node`},
	} {
		h, _ := newTestHTTP(t, "leader")
		w := visit{method: "GET", path: "/v1/" + tt.path}.to(h)
		if text := failureOf(t, w.Body.Bytes()); w.Code != http.StatusBadRequest || !strings.Contains(text, tt.want) {
			t.Errorf("%.100s: %d %s, want 400 with %s", tt.path, w.Code, text, tt.want)
		}
		if asked := opsOf(h).asked; asked != "" {
			t.Errorf("%.100s: asked %s", tt.path, asked)
		}
	}
}

// failureOf returns the text of a body that is {"error":…,"reason":""}.
func failureOf(t *testing.T, body []byte) string {
	t.Helper()
	var f map[string]string
	err := json.Unmarshal(body, &f)
	if reason, has := f["reason"]; err != nil || len(f) != 2 || f["error"] == "" || !has || reason != "" {
		t.Errorf("no JSON with an error: %v: %s", err, body)
	}
	return f["error"]
}

// Each error of the member has the status that tells programs the remedy.
func TestV1Failures(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		want   string
	}{
		{view.ErrBadCursor, 400, "not the next of an earlier page"},
		{view.ErrBusy, 503, "too many queries"},
		{errors.New("view: this member, 1: no answer in time"), 503, "this member, 1"},
		{&Failure{Status: 409, Text: "moved"}, 409, "moved"},
	} {
		for _, path := range []string{"status", "sessions", "sessions/0x1", "sessions/0x1/watches", "sessions/0x1/ephemerals", "connections", "watches?path=/a", "owner?path=/a", "removals", "buckets"} {
			h, _ := newTestHTTP(t, "leader")
			opsOf(h).err = tt.err
			w := visit{method: "GET", path: "/v1/" + path}.to(h)
			if text := failureOf(t, w.Body.Bytes()); w.Code != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("%v: %s: %d %s", tt.err, path, w.Code, text)
			}
			if retry := w.Header().Get("Retry-After") != ""; retry != (tt.status == 503) {
				t.Errorf("%v: %s: Retry-After: %t", tt.err, path, retry)
			}
		}
	}
	h, _ := newTestHTTP(t, "leader")
	if w := (visit{method: "GET", path: "/v1/sessions/0x77"}).to(h); w.Code != 404 ||
		failureOf(t, w.Body.Bytes()) != "there is no session 0x77; if it has ended, /v1/ends?session=0x77 says how" {
		t.Errorf("an unknown session: %d %s", w.Code, w.Body)
	}
}

// The ends are read page by page.
func TestV1EndsPages(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	all := []znode.SessionEnd{{Number: 9, Session: 9}, {Number: 8, Session: 8}, {Number: 7, Session: 7}}
	opsOf(h).ends = all
	from, got := "", ""
	for range all {
		var page struct {
			Items []struct{ ID string }
			Next  string
		}
		w := visit{method: "GET", path: "/v1/ends?limit=2" + from}.to(h)
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Items {
			got += row.ID + " "
		}
		if got += "| "; page.Next == "" {
			break
		}
		from = "&from=" + page.Next
	}
	if want := "0x9 0x8 | 0x7 | "; got != want {
		t.Errorf("pages %s, want %s", got, want)
	}
}

// A session is killed in the administrator's name, and the reply describes its end.
func TestV1Kill(t *testing.T) {
	const path = "/v1/sessions/0x1000012f99a0001/kill"
	h, _ := newTestHTTP(t, "leader")
	w := visit{method: "POST", path: path, header: signedIn}.to(h)
	if w.Code != 200 ||
		!strings.HasPrefix(w.Body.String(), `{"id":"0x1000012f99a0001","state":"ended","ended":"2026-11-20T02:43:20Z","reason":"killed"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if f := opsOf(h); f.by != "super from 127.0.0.1:1" {
		t.Errorf("asked by %q", f.by)
	}
	visit{method: "POST", path: path, header: []string{"Authorization", "Bearer " + testToken, "Content-Type", "application/json"}, from: "[::1]:7", host: "[::1]:1"}.to(h)
	if f := opsOf(h); f.by != "token from [::1]:7" {
		t.Errorf("asked by %q", f.by)
	}
	opsOf(h).ends = nil
	if w := (visit{method: "POST", path: path, header: signedIn}).to(h); w.Code != 504 ||
		!strings.Contains(failureOf(t, w.Body.Bytes()), "has ended") {
		t.Errorf("without an end: %d %s", w.Code, w.Body)
	}
	opsOf(h).err = &Failure{Status: 404, Text: "no such session"}
	if w := (visit{method: "POST", path: path, header: signedIn}).to(h); w.Code != 404 || failureOf(t, w.Body.Bytes()) != "no such session" {
		t.Errorf("of no session: %d %s", w.Code, w.Body)
	}
	for _, bad := range []visit{
		{path: "/v1/sessions/7/kill"},
		{path: path + "?force=1"},
		{path: path, body: `{"force":true}`},
		{path: path, body: `{}{}`},
		{path: path, body: `[]`},
		{path: path, body: `x`},
		{path: path, body: `{"x":"` + strings.Repeat("x", maxBodyBytes) + `"}`},
	} {
		h, _ := newTestHTTP(t, "leader")
		bad.method, bad.header = "POST", signedIn
		if w := bad.to(h); w.Code != 400 || failureOf(t, w.Body.Bytes()) == "" || opsOf(h).asked != "" {
			t.Errorf("%s with %.50q: %d %s, asked %q", bad.path, bad.body, w.Code, w.Body, opsOf(h).asked)
		}
	}
	for _, body := range []string{"null", " ", "{ }\n"} {
		h, _ := newTestHTTP(t, "leader")
		if w := (visit{method: "POST", path: path, header: signedIn, body: body}).to(h); w.Code != 200 {
			t.Errorf("with %q: %d %s", body, w.Code, w.Body)
		}
	}
}

// A caller gets its own identity, and whether it may make changes, with the same verdict as a POST would get.
func TestV1WhoAmI(t *testing.T) {
	token := []string{"Authorization", "Bearer " + testToken}
	for _, tt := range []struct {
		visit visit
		want  string
	}{
		{visit{}, `{"member":1,"administrator":"","changes":false,"why":"this needs credentials:`},
		{visit{header: signedIn}, `{"member":1,"administrator":"super","changes":true,"why":"","accepts":["super","token"]}`},
		{visit{header: token}, `{"member":1,"administrator":"token","changes":true,"why":"","accepts":["super","token"]}`},
		{visit{header: []string{"Authorization", "Bearer wrong"}}, `"administrator":"","changes":false,"why":"the credentials of this request are wrong:`},
		{visit{header: token, from: "10.0.0.9:5"}, `"administrator":"token","changes":false,"why":"this is served on the member's own machine alone`},
		{visit{header: token, host: "evil.example:8080"}, `"administrator":"token","changes":false,"why":"the Host header`},
	} {
		h, _ := newTestHTTP(t, "leader")
		tt.visit.method, tt.visit.path = "GET", "/v1/whoami"
		if w := tt.visit.to(h); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%+v: %d %s, want %s", tt.visit, w.Code, w.Body, tt.want)
		}
	}
}

// A caller gets the kinds of credentials that the member knows, so that a login form requests no others.
func TestV1WhoAmIAccepts(t *testing.T) {
	for _, tt := range []struct {
		cred credentials
		want string
	}{
		{credentials{}, `"accepts":[]`},
		{credentials{superDigest: "super:x"}, `"accepts":["super"]`},
		{credentials{adminToken: tokenHash{isSet: true}}, `"accepts":["token"]`},
		{credentials{readToken: tokenHash{isSet: true}, metricsToken: tokenHash{isSet: true}}, `"accepts":[]`},
	} {
		h, _ := newTestHTTP(t, "leader")
		h.authorizer.credentials = tt.cred
		if w := (visit{method: "GET", path: "/v1/whoami"}).to(h); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%+v: %d %s, want %s", tt.cred, w.Code, w.Body, tt.want)
		}
	}
}

// Whatever has no endpoint under /v1/, or may not reach it, is answered in JSON.
func TestV1Refusals(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	for _, tt := range []struct {
		visit  visit
		status int
		want   string
	}{
		{visit{method: "GET", path: "/v1"}, 404, `there is no endpoint "/v1"; /v1/openapi.json describes all`},
		{visit{method: "GET", path: "/v1/"}, 404, "no endpoint"},
		{visit{method: "GET", path: "/v1/nosuch"}, 404, "no endpoint"},
		{visit{method: "GET", path: "/v1/status/"}, 404, "no endpoint"},
		{visit{method: "POST", path: "/v1/sessions/0x1/nosuch", header: signedIn}, 404, "no endpoint"},
		{visit{method: "GET", path: "/v1/" + strings.Repeat("x", 5000)}, 404, "no endpoint"},
		{visit{method: "GET", path: "/v1/sessions/a%2fb/kill"}, 405, "GET is not allowed here; send POST"},
		{visit{method: "GET", path: "/v1/sessions/0x1/kill", header: signedIn}, 405, "GET is not allowed here; send POST"},
		{visit{method: "DELETE", path: "/v1/status", header: signedIn}, 405, "DELETE is not allowed here; send GET, HEAD"},
		{visit{method: "POST", path: "/v1/sessions/0x1/kill"}, 401, "credentials"},
		{visit{method: "GET", path: "/v1/status", from: "10.0.0.9:5"}, 401, "credentials"},
		{visit{method: "POST", path: "/v1/sessions/0x1/kill", header: []string{"Authorization", "digest super:secret"}}, 415, "application/json"},
		{visit{method: "GET", path: "/v1/status", header: []string{"Origin", "https://example.com"}}, 403, "origin"},
	} {
		w := tt.visit.to(h)
		if text := failureOf(t, w.Body.Bytes()); w.Code != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s %.50s: %d %s, want %d with %q", tt.visit.method, tt.visit.path, w.Code, text, tt.status, tt.want)
		}
		if kind := w.Header().Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s %.50s: Content-Type %s", tt.visit.method, tt.visit.path, kind)
		}
		if opsOf(h).asked != "" {
			t.Errorf("%s %.50s: asked %s", tt.visit.method, tt.visit.path, opsOf(h).asked)
		}
	}
}

// A list under /v1/ waits for a place. The wait is as long as a member that does not reply may delay the others. Short
// replies and ZooKeeper's lists do not wait for it.
func TestV1ListsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		for range maxPages {
			h.longReplies.pages <- struct{}{}
		}
		for _, path := range []string{"/v1/status", "/v1/owner?path=/a", "/commands/connections"} {
			if w := (visit{method: "GET", path: path}).to(h); w.Code != http.StatusOK {
				t.Errorf("%s beside %d lists: %d", path, maxPages, w.Code)
			}
		}
		begun := time.Now()
		w := visit{method: "GET", path: "/v1/sessions"}.to(h)
		if took := time.Since(begun); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || took != slotTimeout {
			t.Errorf("beside %d lists: %d after %v", maxPages, w.Code, took)
		}
		if w := (visit{method: "POST", path: "/v1/nodes/delete", header: signedIn, body: `{"path":"/a"}`}).to(h); w.Code != http.StatusOK {
			t.Errorf("an administrator's change beside %d lists: %d %s", maxPages, w.Code, w.Body)
		}
		go func() {
			time.Sleep(time.Second)
			<-h.longReplies.pages
		}()
		for range 2 {
			begun = time.Now()
			if w := (visit{method: "GET", path: "/v1/sessions"}).to(h); w.Code != http.StatusOK || time.Since(begun) > time.Second {
				t.Errorf("when a place came free: %d after %v", w.Code, time.Since(begun))
			}
		}
	})
}

// A page that follows another one waits for a moment, in which clients get the processors.
func TestPagesPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		for path, want := range map[string]time.Duration{"/v1/sessions": 0, "/v1/sessions?limit=9": 0, "/v1/sessions?from=x": pagePause, "/v1/ends?from=x&limit=1": pagePause, "/v1/status": 0} {
			begun := time.Now()
			visit{method: "GET", path: path}.to(h)
			if took := time.Since(begun); took != want {
				t.Errorf("%s took %v, want %v", path, took, want)
			}
		}
	})
}
