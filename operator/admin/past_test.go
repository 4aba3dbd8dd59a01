package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/past/pasttest"
	"rollcall/zk/jute"
)

// A state of the past has the replies of members: its sessions with their nodes, owners, ends and removals. It has no
// endpoint for facts that only members know.
func TestPastHandler(t *testing.T) {
	e := pasttest.New(t, 1772334720000)
	c := e.Connect("10.0.0.7:1")
	c.Create("/lock", "", 0)
	c.Create("/lock/lock-", "", jute.EphemeralSequential)
	gone := e.Connect("10.0.0.8:2")
	gone.Create("/e", "", jute.Ephemeral)
	gone.Expire()
	h, err := NewPastHandler(e.State, func() time.Time { return time.UnixMilli(e.NowMs) })
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, want int, into any) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
		}
		if into != nil {
			if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
				t.Fatalf("%s: %v in %s", path, err, w.Body)
			}
		}
	}
	var sessions api.List[api.Session]
	get("/v1/sessions", 200, &sessions)
	if len(sessions.Items) != 1 || len(sessions.Silent) != 0 {
		t.Fatalf("sessions %+v", sessions)
	}
	s := sessions.Items[0]
	if s.Address != "10.0.0.7:1" || s.State != "unknown" || s.EphemeralCount != 1 || s.MemberID != 1 ||
		s.TimeoutMs != 10_000 || s.LeftMs != nil {
		t.Errorf("session %+v", s)
	}
	var one api.OneSession
	get("/v1/sessions/"+s.ID, 200, &one)
	if one.Session.State != "unknown" || len(one.Silent) != 0 {
		t.Errorf("one session %+v", one)
	}
	get("/v1/sessions/0x99", 404, nil)
	var nodes api.List[api.Ephemeral]
	get("/v1/sessions/"+s.ID+"/ephemerals", 200, &nodes)
	if len(nodes.Items) != 1 || nodes.Items[0].Path != "/lock/lock-0000000000" {
		t.Errorf("ephemerals %+v", nodes)
	}
	var owner api.Owner
	get("/v1/owner?path=/lock", 200, &owner)
	if len(owner.Children) != 1 || owner.Children[0].Turn != "holds" || owner.Children[0].Address != "10.0.0.7:1" {
		t.Errorf("owner %+v", owner)
	}
	var ends api.List[api.End]
	get("/v1/ends", 200, &ends)
	if len(ends.Items) != 1 || ends.Items[0].Reason != "expired" || ends.Items[0].Address != "10.0.0.8:2" {
		t.Errorf("ends %+v", ends)
	}
	var removals api.List[api.Removal]
	get("/v1/removals?path=/e", 200, &removals)
	if len(removals.Items) != 1 || removals.Items[0].Cause != "session ended" || removals.Items[0].End == nil || len(removals.Silent) != 0 {
		t.Errorf("removals %+v", removals)
	}
	var members api.Members
	get("/v1/members", 200, &members)
	if len(members.Items) != 0 || members.LeaderID != 1 {
		t.Errorf("members %+v", members)
	}
	get("/v1/owner", 400, nil)
	get("/v1/status", 404, nil)
	get("/v1/connections", 404, nil)
}
