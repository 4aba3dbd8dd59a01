package admin

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// A node is shown with its data, its ACL and a page of its children.
func TestV1Node(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	w := visit{method: "GET", path: "/v1/nodes?path=/a"}.to(h)
	want := `{"path":"/a","data":"w6kA","hidden":false,"children":["a","é"],"next":"after-é","stat":{"czxid":"0x400000001","mzxid":"0x400000002","pzxid":"0x400000003",` +
		`"ctime":"2026-11-20T02:43:20Z","mtime":"2026-11-20T02:43:20.005Z","version":1,"cversion":2,"aversion":3,"owner":"0x5","data_length":3,"children":9},` +
		`"acl":[{"scheme":"world","id":"anyone","perms":"cdrwa"},{"scheme":"ip","id":"10.0.0.0/8","perms":"r"}]}` + "\n"
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s\nwant %s", w.Code, w.Body, want)
	}
	opsOf(h).shown = Node{Data: make([]byte, maxNodeDataBytes+1), Children: []string{"a"}}
	var n api.Node
	if err := json.Unmarshal((visit{method: "GET", path: "/v1/nodes?path=/a"}).to(h).Body.Bytes(), &n); err != nil ||
		len(n.Data) != maxNodeDataBytes || n.NextChildren != "" {
		t.Errorf("%v: %d bytes of data, next %q", err, len(n.Data), n.NextChildren)
	}
}

// Who may see a node is decided by the address and the credentials of a request, and by nothing else in it.
func TestV1NodeCaller(t *testing.T) {
	token := []string{"Authorization", "Bearer " + testToken}
	for _, tt := range []struct {
		visit visit
		want  NodeQuery
	}{
		{visit{path: "?path=/a"}, NodeQuery{Path: "/a", Limit: 1000, Caller: Caller{Host: "127.0.0.1"}}},
		{visit{path: "?path=/%C3%A9%20b&limit=7&from=after-x"}, NodeQuery{Path: "/é b", AfterChild: "x", Limit: 7, Caller: Caller{Host: "127.0.0.1"}}},
		{visit{path: "?path=/", header: []string{"Authorization", "digest super:wrong"}}, NodeQuery{Path: "/", Limit: 1000, Caller: Caller{Host: "127.0.0.1"}}},
		{visit{path: "?path=/", header: []string{"X-Forwarded-For", "10.0.0.7"}}, NodeQuery{Path: "/", Limit: 1000, Caller: Caller{Host: "127.0.0.1"}}},
		{visit{path: "?path=/", header: signedIn}, NodeQuery{Path: "/", Limit: 1000, Caller: Caller{Host: "127.0.0.1", IsAdministrator: true}}},
		{visit{path: "?path=/", header: token, from: "[::ffff:10.0.0.7]:9"}, NodeQuery{Path: "/", Limit: 1000, Caller: Caller{Host: "10.0.0.7", IsAdministrator: true}}},
		{visit{path: "?path=/", header: token, from: "[fe80::1%eth0]:9"}, NodeQuery{Path: "/", Limit: 1000, Caller: Caller{Host: "fe80::1", IsAdministrator: true}}},
		{visit{path: "?path=/", header: token, from: "pipe"}, NodeQuery{Path: "/", Limit: 1000, Caller: Caller{IsAdministrator: true}}},
	} {
		h, _ := newTestHTTP(t, "leader")
		tt.visit.method, tt.visit.path = "GET", "/v1/nodes"+tt.visit.path
		if w := tt.visit.to(h); w.Code != 200 || opsOf(h).node != tt.want {
			t.Errorf("%s from %s: %d %s, asked %+v, want %+v", tt.visit.path, tt.visit.from, w.Code, w.Body, opsOf(h).node, tt.want)
		}
	}
}

// The member gets the requested change unaltered, and the audit log has it under the node's path.
func TestV1ChangeNode(t *testing.T) {
	doc := described(t)
	acl := []jute.ACL{{Perms: jute.PermRead | jute.PermAdmin, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("me:x=")}}}
	for _, tt := range []struct {
		path, body string
		want       NodeChange
		answer     string
		log        string
	}{
		{
			"create", `{"path":"/a","data":"w6kA"}`,
			NodeChange{Op: jute.OpCreate, Path: "/a", Data: []byte("é\x00"), ACL: jute.OpenACL, CallerHost: "127.0.0.1"},
			`{"path":"/a","stat":{"czxid":"0x400000001",`, `action="create node" target=/a by=super from=127.0.0.1:1 outcome=done`,
		},
		{
			"create", `{"path":"/a/","sequential":true,"acl":[{"scheme":"digest","id":"me:x=","perms":"ar"}]}`,
			NodeChange{Op: jute.OpCreate, Path: "/a/", ACL: acl, Mode: jute.PersistentSequential, CallerHost: "127.0.0.1"},
			`{"path":"/a/0000000007","stat":{`, `target=/a/0000000007 by=super`,
		},
		{"create", `{"path":"/a","acl":[]}`, NodeChange{Op: jute.OpCreate, Path: "/a", ACL: []jute.ACL{}, CallerHost: "127.0.0.1"}, `{"path":"/a",`, ``},
		{"set", `{"path":"/a","data":"eA==","version":7}`, NodeChange{Op: jute.OpSetData, Path: "/a", Data: []byte("x"), Version: 7, CallerHost: "127.0.0.1"}, `{"path":"/a","stat":{`, `action="set node" target=/a`},
		{"set", `{"path":"/a","data":""}`, NodeChange{Op: jute.OpSetData, Path: "/a", Data: []byte{}, Version: -1, CallerHost: "127.0.0.1"}, `{"path":"/a","stat":{`, ``},
		{"delete", `{"path":"/a","version":0}`, NodeChange{Op: jute.OpDelete, Path: "/a", CallerHost: "127.0.0.1"}, `{"path":"/a","stat":null}`, `action="delete node" target=/a`},
		{"delete", `{"path":"/a","version":null}`, NodeChange{Op: jute.OpDelete, Path: "/a", Version: -1, CallerHost: "127.0.0.1"}, `{"path":"/a","stat":null}`, ``},
	} {
		var body any
		if err := json.Unmarshal([]byte(tt.body), &body); err != nil {
			t.Fatal(err)
		}
		if err := doc.Paths.Find("/v1/nodes/" + tt.path).Post.RequestBody.Value.Content.Get("application/json").Schema.Value.VisitJSON(body); err != nil {
			t.Errorf("%s %s is not what the description allows: %v", tt.path, tt.body, err)
		}
		h, log := newAudited(t)
		w := visit{method: "POST", path: "/v1/nodes/" + tt.path, body: tt.body, header: signedIn}.to(h)
		if got := opsOf(h).change; w.Code != 200 || !reflect.DeepEqual(got, tt.want) || !strings.HasPrefix(w.Body.String(), tt.answer) {
			t.Errorf("%s %s: %d %s, asked for %+v, want %+v", tt.path, tt.body, w.Code, w.Body, got, tt.want)
		}
		if !strings.Contains(log.String(), tt.log) {
			t.Errorf("%s %s: the log has %s", tt.path, tt.body, log)
		}
	}
}

// What is wrong with a request about nodes is said, and nothing is changed. A change that fails is in the
// log with the reason.
func TestV1NodeBadRequests(t *testing.T) {
	long := base64.StdEncoding.EncodeToString(make([]byte, maxNodeBodyBytes))
	for _, tt := range []struct{ path, body, want string }{
		{"", "", "the parameter path is missing"},
		{"?path=a", "", `path="a": must be the path of a node`},
		{"?path=/a&version=1", "", `unknown parameter "version"`},
		{"?path=/a&limit=2000", "", "from 1 to 1000"},
		{"?path=/a&from=b", "", "not the next of an earlier page"},
		{"?path=/a&from=after-", "", "not the next of an earlier page"},
		{"?path=/a&from=after-b/c", "", "not the next of an earlier page"},
		{"?path=/a&from=after-%00", "", "not the next of an earlier page"},
		{"/create", `{}`, `path: "" is not the path of a node`},
		{"/create", `{"path":"/a/"}`, `path: "/a/" is not the path of a node`},
		{"/create", `{"path":"/a//","sequential":true}`, "not the path of a node"},
		{"/create", `{"path":"/a","data":"é"}`, "illegal base64"},
		{"/create", `{"path":"/a","data":"` + long + `"}`, "request body too large"},
		{"/create", `{"path":"/a","owner":"0x5"}`, `unknown field "owner"`},
		{"/create", `{"path":"/a","acl":[{"scheme":"world","id":"anyone","perms":"x"}]}`, `acl: entry 1: permissions "x"; must be letters of cdrwa, each once`},
		{"/create", `{"path":"/a","acl":[{"scheme":"world","id":"anyone","perms":"rr"}]}`, `each once`},
		{"/set", `{"path":"/a"}`, `data is missing: give it in base64, or "" for none`},
		{"/set", `{"path":"/a","data":null}`, `data is missing`},
		{"/set", `{"path":"/a","version":"1"}`, "cannot unmarshal string"},
		{"/set", `{"path":"/a","version":5000000000}`, "cannot unmarshal number"},
		{"/delete", `{"path":"/a/.."}`, "not the path of a node"},
		{"/delete", `[]`, "cannot unmarshal array"},
		{"/delete?path=/a", `{}`, `unknown parameter "path"`},
	} {
		h, log := newAudited(t)
		v := visit{method: "POST", path: "/v1/nodes" + tt.path, body: tt.body, header: signedIn}
		if tt.body == "" {
			v.method = "GET"
		}
		w := v.to(h)
		if text := failureOf(t, w.Body.Bytes()); w.Code != 400 || !strings.Contains(text, tt.want) || opsOf(h).asked != "" {
			t.Errorf("%s %.80s: %d %s, asked %q; want 400 with %s", tt.path, tt.body, w.Code, text, opsOf(h).asked, tt.want)
		}
		if tt.body != "" && strings.Count(log.String(), "outcome=\"failed: ") != 1 {
			t.Errorf("%s %.80s: the log has %s", tt.path, tt.body, log)
		}
	}
	for path, body := range map[string]string{"/create": `{"path":"/a"}`, "/set": `{"path":"/a","data":""}`, "/delete": `{"path":"/a"}`} {
		h, log := newAudited(t)
		opsOf(h).err = &Failure{Status: 409, Text: "its version is another one"}
		w := visit{method: "POST", path: "/v1/nodes" + path, body: body, header: signedIn}.to(h)
		if w.Code != 409 || !strings.Contains(log.String(), `target=/a by=super from=127.0.0.1:1 outcome="failed: its version is another one"`) {
			t.Errorf("%s: %d, the log has %s", path, w.Code, log)
		}
	}
}
