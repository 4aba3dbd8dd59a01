package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// drain asks the member to close its connections over a time, and fails if the member still leads.
func TestDrain(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		answer string
		status int
		sent   string
		out    string // or, with err, a part of it
		err    string
		exit   Status
	}{
		{nil, `{"connections":7,"leads":false,"took_ms":5012}`, 200, `{"over_ms":5000}`, ": drained, 7 connections closed in 5.012s\n", "", OK},
		{[]string{"--over", "100ms"}, `{"connections":0,"leads":true,"took_ms":99}`, 200, `{"over_ms":100}`, ": drained, 0 connections closed in 99ms\n", "still leads", Failed},
		{nil, `{"error":"this needs credentials"}`, 401, `{"over_ms":5000}`, "", "this needs credentials; --token-file or --auth", Denied},
		{nil, "", 0, `{"over_ms":5000}`, "", "not known how far it came", OutcomeUnknown},
		{[]string{"--admin", "http://127.0.0.1:1"}, "", 200, "", "", "connection refused", Unavailable},
		{[]string{"--over", "soon"}, "", 200, "", "", "soon", UsageError},
	} {
		sent := ""
		server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
			if r.Method != "POST" || r.URL.Path != "/v1/drain" || r.Header.Get("Authorization") != "Bearer abcdefghijklmnop" {
				t.Errorf("%s %s with %q", r.Method, r.URL, r.Header)
			}
			if tt.status == 0 {
				panic(http.ErrAbortHandler) // the connection breaks
			}
			w.WriteHeader(tt.status)
			_, _ = fmt.Fprint(w, tt.answer)
		}))
		w, out, _ := testWorld("ROLLCALL_TOKEN_FILE="+tokenFile(t), "ROLLCALL_ADMIN="+server.URL)
		_, err := Execute(t.Context(), NewRoot(w, "1"), append([]string{"drain"}, tt.args...))
		server.Close()
		if !strings.HasSuffix(out.String(), tt.out) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || StatusOf(err) != tt.exit || sent != tt.sent {
			t.Errorf("%v: printed %q, sent %s, %v, status %d", tt.args, out, sent, err, StatusOf(err))
		}
	}
}
