package target

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An ensemble is not well until all members of its list vote. A token that does not suffice tells nothing.
func TestVotersOfEnsemble(t *testing.T) {
	for _, tt := range []struct {
		name, members string
		status        int
		want          string // "": well
	}{
		{"all vote", `{"settled": true}`, http.StatusOK, ""},
		{"one does not yet", `{"settled": false}`, http.StatusOK, "not all members of the server list vote yet"},
		{"no such page", ``, http.StatusNotFound, "/v1/members of http://"},
		{"refused", ``, http.StatusForbidden, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case tt.status == http.StatusForbidden || r.URL.Path == "/v1/members":
					w.WriteHeader(tt.status)
					_, _ = io.WriteString(w, tt.members)
				default:
					_, _ = io.WriteString(w, `{"items": []}`)
				}
			}))
			defer srv.Close()
			wrong := strings.Join(askStatus(t.Context(), []Member{{Name: "1", Admin: srv.URL}}), "; ")
			if (wrong == "") != (tt.want == "") || !strings.Contains(wrong, tt.want) {
				t.Errorf("%q, want %q", wrong, tt.want)
			}
		})
	}
}
