package admin

import (
	"encoding/json"
	"testing"
)

// zabstate reports whether the replying member leads.
func TestZabStateOfLeader(t *testing.T) {
	for role, want := range map[string]bool{"leader": true, "follower": false, "observer": false} {
		h, _ := newTestHTTP(t, role)
		v := visit{method: "GET", path: "/commands/zabstate", header: []string{"Authorization", "digest super:secret"}}
		var got map[string]any
		if err := json.Unmarshal(v.to(h).Body.Bytes(), &got); err != nil || got["is_leader"] != want {
			t.Errorf("%s: is_leader is %v, %v; want %t", role, got["is_leader"], err, want)
		}
	}
}
