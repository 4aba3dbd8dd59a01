package admin

import (
	"net/http"
	"strings"
	"testing"
)

// Every list that is filtered by a member rejects one that the ensemble does not have, and names those that it has.
func TestUnknownMember(t *testing.T) {
	for role, want := range map[string]string{"leader": "it has 1, 2, 3", "standalone": "it has 1"} {
		h, _ := newTestHTTP(t, role)
		lists := 0
		for _, e := range testRoutes(t) {
			if !strings.Contains(strings.Join(e.parameters, " "), "member") {
				continue
			}
			lists++
			if w := (visit{method: "GET", path: e.path + "?member=9"}).to(h); w.Code != http.StatusBadRequest ||
				!strings.Contains(w.Body.String(), "the ensemble has no member 9; "+want) {
				t.Errorf("%s, %s: %d %s, want %q", role, e.path, w.Code, w.Body, want)
			}
			if w := (visit{method: "GET", path: e.path + "?member=1"}).to(h); w.Code != http.StatusOK {
				t.Errorf("%s, %s: member 1: %d %s", role, e.path, w.Code, w.Body)
			}
		}
		if lists < 3 {
			t.Errorf("%d lists have the parameter member", lists)
		}
	}
}
