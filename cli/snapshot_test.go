package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// snapshot has the member write one, and says what it has become.
func TestSnapshot(t *testing.T) {
	for _, tt := range []struct {
		status int
		answer string
		out    string
		err    string
		exit   Status
	}{
		{200, `{"member":2,"index":91,"term":4,"zxid":"0x500000009","bytes":4096,"took_ms":1500}`, "member 2: snapshot of index 91, zxid 0x500000009, 4.0 KiB, written in 1.5s\n", "", OK},
		{409, `{"error":"this member is writing a snapshot already"}`, "", "writing a snapshot already", Conflict},
		{401, `{"error":"this needs credentials"}`, "", "--token-file or --auth", Denied},
		{0, "", "", "rollcall status shows the newest one", OutcomeUnknown},
	} {
		server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != "POST" || r.URL.Path != "/v1/snapshot" || r.Header.Get("Authorization") != "Bearer abcdefghijklmnop" {
				t.Errorf("%s %s with %q", r.Method, r.URL, r.Header)
			}
			if tt.status == 0 {
				panic(http.ErrAbortHandler) // the connection breaks
			}
			w.WriteHeader(tt.status)
			_, _ = fmt.Fprint(w, tt.answer)
		}))
		w, out, _ := testWorld("ROLLCALL_TOKEN_FILE="+tokenFile(t), "ROLLCALL_ADMIN="+server.URL)
		_, err := Execute(t.Context(), NewRoot(w, "1"), []string{"snapshot"})
		server.Close()
		if out.String() != tt.out || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || StatusOf(err) != tt.exit {
			t.Errorf("%d: printed %q, %v, status %d", tt.status, out, err, StatusOf(err))
		}
	}
}
