package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// members rebalance sends the rate, says what each member has done, and fails if the members do not have about as many clients then, or were not compared.
func TestMembersRebalance(t *testing.T) {
	const answer = `{"balanced":%t,"connections":8,"took_ms":6012,"items":[{"member":1,"before":12,"after":4,"closed":8,"failed":""},{"member":2,"before":0,"after":4,"closed":0,"failed":"busy"}],"silent":[%s]}`
	const unknown = `{"balanced":false,"connections":0,"took_ms":4000,"items":[{"member":1,"before":4,"after":4,"closed":0,"failed":""}],"silent":[%s]}`
	const one = "member 1: 4 clients, 4 before, 0 connections closed\n0 connections closed in 4s\n"
	silentThree := `{"member":3,"reason":"down","detail":""}`
	const text = "member 1: 4 clients, 12 before, 8 connections closed\nmember 2: 4 clients, 0 before, 0 connections closed (busy)\n8 connections closed in 6.012s\n"
	for _, tt := range []struct {
		args   []string
		answer string
		status int
		sent   string
		out    string
		err    string
		exit   Status
	}{
		{nil, fmt.Sprintf(answer, true, ""), 200, `{"per_second":100}`, text, "", OK},
		{[]string{"--rate", "7"}, fmt.Sprintf(answer, false, ""), 200, `{"per_second":7}`, text, "still have more clients than their share", Failed},
		{nil, fmt.Sprintf(answer, false, silentThree), 200, `{"per_second":100}`, text, "some did not answer; repeat the command when all members run", Failed},
		{nil, fmt.Sprintf(unknown, silentThree), 200, `{"per_second":100}`, one, "some did not answer", Failed},
		{nil, fmt.Sprintf(unknown, ""), 200, `{"per_second":100}`, one, "fewer than two members take clients", Failed},
		{[]string{"--rate", "0"}, "", 200, "", "", `--rate "0": must be a number from 1 to 1000`, UsageError},
		{[]string{"--rate", "1001"}, "", 200, "", "", `--rate "1001": must be a number from 1 to 1000`, UsageError},
		{nil, `{"error":"it rebalances already"}`, 409, `{"per_second":100}`, "", "already", Conflict},
		{nil, "", 0, `{"per_second":100}`, "", "not known how far it came", OutcomeUnknown},
	} {
		sent := ""
		server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
			if r.Method != "POST" || r.URL.Path != "/v1/members/rebalance" || r.Header.Get("Authorization") != "Bearer abcdefghijklmnop" {
				t.Errorf("%s %s with %q", r.Method, r.URL, r.Header)
			}
			if tt.status == 0 {
				panic(http.ErrAbortHandler) // the connection breaks
			}
			w.WriteHeader(tt.status)
			_, _ = fmt.Fprint(w, tt.answer)
		}))
		w, out, errs := testWorld("ROLLCALL_TOKEN_FILE="+tokenFile(t), "ROLLCALL_ADMIN="+server.URL)
		_, err := Execute(t.Context(), NewRoot(w, "1"), append([]string{"members", "rebalance"}, tt.args...))
		server.Close()
		if out.String() != tt.out || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || StatusOf(err) != tt.exit || sent != tt.sent {
			t.Errorf("%v: printed %q, sent %s, %v, status %d", tt.args, out, sent, err, StatusOf(err))
		}
		if strings.Contains(errs.String(), "member 3 has no share: down") != strings.Contains(tt.answer, silentThree) {
			t.Errorf("stderr %q", errs)
		}
	}
}
