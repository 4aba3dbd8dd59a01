package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
)

// The member gets an administrator's change unaltered, with the administrator's name.
func TestV1ChangeMembers(t *testing.T) {
	const four = "server.4=d:2888:3888:participant;2181"
	for _, tt := range []struct {
		body   string
		status int
		want   string // in the answer
		asked  MembersChange
	}{
		{
			`{"joining":"` + four + `","leaving":"1,2","version":"0x400000005","force":true}`, 200,
			`{"version":"0x400000006","servers":["server.1=a:2888:3888:participant;0.0.0.0:2181","server.2=b:2888:3888:observer"]}`,
			MembersChange{Change: serverlist.Change{Joining: four, Leaving: "1,2"}, Version: 0x400000005, Force: true},
		},
		{`{"members":"` + four + `"}`, 200, `"servers":[`, MembersChange{Change: serverlist.Change{Members: four}, Version: -1}},
		{`{"leaving":"3","by_self":true}`, 200, `"servers":[`, MembersChange{Change: serverlist.Change{Leaving: "3"}, Version: -1, BySelf: true}},
		{`{}`, 400, "nothing is to be changed: give joining, leaving or members", MembersChange{}},
		{`{"members":"x","leaving":"1"}`, 400, "give either that, or joining and leaving", MembersChange{}},
		{`{"leaving":"1","version":"7"}`, 400, `version: \"7\"; write it as /v1/members does, such as 0x100000000`, MembersChange{}},
		{`{"leaving":"1","version":"0x8000000000000000"}`, 400, "version: ", MembersChange{}},
		{`{"leaving":1}`, 400, "the body is not the JSON object", MembersChange{}},
	} {
		h, _ := newTestHTTP(t, "leader")
		w := visit{method: "POST", path: "/v1/members", header: signedIn, body: tt.body}.to(h)
		if tt.status == http.StatusOK {
			tt.asked.RequestedBy = "super from 127.0.0.1:1"
		}
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || opsOf(h).changed != tt.asked {
			t.Errorf("%s: %d %s, asked %+v; want %d %s, %+v", tt.body, w.Code, w.Body, opsOf(h).changed, tt.status, tt.want, tt.asked)
		}
	}
}

// A member is requested to lead, and the reply confirms that it does.
func TestV1Lead(t *testing.T) {
	for _, tt := range []struct {
		body   string
		err    error
		status int
		want   string
		asked  string
	}{
		{`{"member":2}`, nil, 200, `{"leader":2}`, "lead 2"},
		{`{"member":2}`, &Failure{Status: http.StatusConflict, Text: "member 2 is an observer"}, 409, "member 2 is an observer", "lead 2"},
		{`{"member":0}`, nil, 400, "member: 0; must be a number from 1 to 255", ""},
		{`{"member":256}`, nil, 400, "member: 256; must be", ""},
		{`{}`, nil, 400, "member: 0; must be", ""},
	} {
		h, _ := newTestHTTP(t, "leader")
		opsOf(h).err = tt.err
		w := visit{method: "POST", path: "/v1/members/lead", header: signedIn, body: tt.body}.to(h)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || opsOf(h).asked != tt.asked {
			t.Errorf("%s: %d %s, asked %q; want %d %s, %q", tt.body, w.Code, w.Body, opsOf(h).asked, tt.status, tt.want, tt.asked)
		}
	}
}

// The audit log describes the change.
func TestMembersAreAudited(t *testing.T) {
	h, log := newAudited(t)
	visit{method: "POST", path: "/v1/members", header: signedIn, body: `{"joining":"server.4=d:1:2;3","leaving":"1","version":"0x1","force":true}`}.to(h)
	visit{method: "POST", path: "/v1/members/lead", header: signedIn, body: `{"member":3}`}.to(h)
	for _, want := range []string{`action="change members" target="joining=server.4=d:1:2;3 leaving=1 version=0x1 forced" by=super`, `action="hand over leadership" target="member 3" by=super`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
}

// A removed member rejects requests that change or show the ensemble, with a reason for programs. Its Operations are not
// called. Requests about the member itself succeed.
func TestRemovedMemberRefuses(t *testing.T) {
	refused := 0
	all := testRoutes(t)
	for i := range all {
		e := &all[i]
		if e.access != changeAccess || e.method != http.MethodPost || e.contentType != "" {
			continue
		}
		h, source := newTestHTTP(t, "")
		source.health.RemovedVersion = 0x400000007
		w := visit{method: e.method, path: concrete(e.path), header: signedIn, body: `{}`}.to(h)
		var failure api.Failure
		_ = json.Unmarshal(w.Body.Bytes(), &failure) // an answer that is none is no refusal
		isRefused := w.Code == http.StatusServiceUnavailable && failure.Reason == api.ReasonRemoved && opsOf(h).asked == ""
		if isRefused && !strings.HasPrefix(failure.Error, "this member was removed from the ensemble (the list of version 0x400000007)") {
			t.Errorf("%s: %s", e.path, failure.Error)
		}
		if shared := strings.HasPrefix(e.path, "/v1/members") || strings.HasPrefix(e.path, "/v1/nodes") || strings.HasSuffix(e.path, "/kill"); isRefused != shared {
			t.Errorf("%s: %d %s, asked %q; refused: %t, want %t", e.path, w.Code, w.Body, opsOf(h).asked, isRefused, shared)
		}
		if isRefused {
			refused++
		}
	}
	if refused != 8 {
		t.Errorf("%d endpoints refuse, want 8", refused)
	}
	read := 0
	for i := range all {
		e := &all[i]
		if e.method != http.MethodGet || !strings.HasPrefix(e.path, "/v1/") || e.access != readAccess {
			continue
		}
		h, source := newTestHTTP(t, "")
		source.health.RemovedVersion = 0x400000007
		w := visit{method: e.method, path: concrete(e.path), header: signedIn}.to(h)
		ofMember := e.path == "/v1/members" || e.path == "/v1/whoami" || e.path == "/v1/config" || e.path == "/v1/log-level" || e.path == "/v1/limits"
		if isRefused := w.Code == http.StatusServiceUnavailable && strings.Contains(w.Body.String(), `"reason":"removed"`); isRefused == ofMember {
			t.Errorf("%s: %d %s", e.path, w.Code, w.Body)
		}
		read++
	}
	if read < 15 {
		t.Errorf("%d endpoints with data of the ensemble: this shows nothing", read)
	}
	for removed, want := range map[int64]string{0: `"removed":false`, 7: `"removed":true`} {
		h, source := newTestHTTP(t, "follower")
		source.health.RemovedVersion = removed
		if w := (visit{method: "GET", path: "/v1/members", header: signedIn}).to(h); w.Code != http.StatusOK ||
			!strings.Contains(w.Body.String(), want) {
			t.Errorf("the list: %d %s, want %s", w.Code, w.Body, want)
		}
	}
}
