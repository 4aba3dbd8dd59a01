package admin

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ZooKeeper's command snapshot sends a backup with the last zxid in a header, and says in ZooKeeper's way why there is none.
func TestSnapshotCommand(t *testing.T) {
	for _, tt := range []struct {
		name   string
		visit  visit
		off    bool
		status int
		want   string // in the state, or in the answer
	}{
		{"plain", visit{header: signedIn, path: "snapshot"}, false, 200, "the state"},
		{"streaming", visit{header: signedIn, path: "snap?streaming=true"}, false, 200, "the state"},
		{"another value", visit{header: signedIn, path: "snapshot?streaming=yes"}, false, 400, "must have streaming=true"},
		{"twice", visit{header: signedIn, path: "snapshot?streaming=true&streaming=true"}, false, 400, "must have streaming=true"},
		{"switched off", visit{header: signedIn, path: "snapshot"}, true, 503, "admin.snapshot.enabled=false"},
		{"without credentials", visit{path: "snapshot"}, false, 401, "credentials"},
		{"from elsewhere", visit{path: "snapshot", header: signedIn, from: "10.0.0.9:5"}, false, 403, "own machine"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			h.backups.snapshotSettings.noSnapshots = tt.off
			tt.visit.method, tt.visit.path = "GET", "/commands/"+tt.visit.path
			w := tt.visit.to(h)
			got := w.Body.String()
			if w.Code == 200 {
				_, state, err := stateOf(w.Body)
				if got = state; err != nil || w.Header().Get("last_zxid") != "0x500000009" {
					t.Errorf("%s: last_zxid %q, %v", tt.name, w.Header().Get("last_zxid"), err)
				}
			}
			if w.Code != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("%s: %d %s, want %d %s", tt.name, w.Code, got, tt.status, tt.want)
			}
		})
	}
}

// With streaming=false the command writes a snapshot to the disk, says its zxid and size in ZooKeeper's headers, and
// counts as one in the interval.
func TestSnapshotCommandToTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		request := visit{method: "GET", path: "/commands/snapshot?streaming=false", header: signedIn}
		opsOf(h).err = &Failure{Status: http.StatusConflict, Text: "a snapshot is being written"}
		if w := request.to(h); w.Code != 409 || !strings.Contains(w.Body.String(), `"error" : "a snapshot is being written"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		opsOf(h).err = nil
		w := request.to(h)
		if w.Code != 200 || opsOf(h).asked != "snapshot" || w.Header().Get("last_zxid") != "0x500000009" ||
			w.Header().Get("snapshot_size") != "4096" || !strings.Contains(w.Body.String(), `"error" : null`) {
			t.Errorf("%d %v %s, asked %s", w.Code, w.Header(), w.Body, opsOf(h).asked)
		}
		if w := request.to(h); w.Code != 429 {
			t.Errorf("a second one: %d %s", w.Code, w.Body)
		}
		time.Sleep(DefaultSnapshotInterval + time.Millisecond) // its timer ends
	})
}

// A snapshot on demand is for administrators. The reply describes the snapshot.
func TestV1Snapshot(t *testing.T) {
	for _, tt := range []struct {
		visit  visit
		err    error
		status int
		want   string // in the answer
		asked  string
	}{
		{visit{header: signedIn, body: "{}"}, nil, 200, `{"member":1,"index":9,"term":4,"zxid":"0x500000009","bytes":4096,"took_ms":1500}`, "snapshot"},
		{visit{header: signedIn, body: "{}"}, &Failure{Status: 409, Text: "a snapshot is being written"}, 409, "a snapshot is being written", "snapshot"},
		{visit{header: signedIn, body: `{"rate":1}`}, nil, 400, "rate", ""},
		{visit{body: "{}"}, nil, 401, "credentials", ""},
		{visit{header: signedIn, body: "{}", from: "10.0.0.9:5"}, nil, 403, "own machine", ""},
	} {
		h, log := newAudited(t)
		opsOf(h).err = tt.err
		tt.visit.method, tt.visit.path = "POST", "/v1/snapshot"
		if w := tt.visit.to(h); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || opsOf(h).asked != tt.asked {
			t.Errorf("%d %s, asked %q; want %d %s, %q", w.Code, w.Body, opsOf(h).asked, tt.status, tt.want, tt.asked)
		}
		if tt.status == 200 && !strings.Contains(log.String(), "action=snapshot") {
			t.Errorf("logged %s", log)
		}
	}
}

// A member sends one snapshot in the interval. One that it could not send does not count.
func TestSnapshotsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		request := visit{method: "GET", path: "/commands/snapshot", header: signedIn}
		opsOf(h).err = &Failure{Status: http.StatusServiceUnavailable, Text: "this member is joining"}
		if w := request.to(h); w.Code != 503 || !strings.Contains(w.Body.String(), `"error" : "this member is joining"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		opsOf(h).err = nil
		head := request
		head.method = "HEAD"
		if w := head.to(h); w.Code != 200 || w.Body.Len() > 0 {
			t.Errorf("HEAD: %d with %d bytes", w.Code, w.Body.Len())
		}
		if w := request.to(h); w.Code != 200 {
			t.Errorf("after one that failed: %d %s", w.Code, w.Body)
		}
		if w := request.to(h); w.Code != 429 || w.Header().Get("Retry-After") != "301" ||
			!strings.Contains(w.Body.String(), "takes one snapshot in 5m0s") {
			t.Errorf("a second one: %d %v %s", w.Code, w.Header(), w.Body)
		}
		time.Sleep(DefaultSnapshotInterval + time.Millisecond)
		if w := request.to(h); w.Code != 200 {
			t.Errorf("after the interval: %d %s", w.Code, w.Body)
		}
		time.Sleep(DefaultSnapshotInterval + time.Millisecond) // its timer ends
	})
}
