package target

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
)

// answering returns a member that replies to each four-letter command with text. If text is "", it does not reply.
func answering(t *testing.T, name, text string) Member {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := io.ReadFull(conn, make([]byte, 4)); err == nil && text != "" {
					_, _ = io.WriteString(conn, text)
					return
				}
				_, _ = io.Copy(io.Discard, conn) // until the client leaves
			}()
		}
	}()
	return Member{Name: name, Clients: l.Addr().String()}
}

const (
	zkVersion   = "Zookeeper version: 3.8.0--1, built on 2023-11-10 07:54 UTC\n"
	ownVersion  = "Zookeeper version: 3.9.5-rollcall-0.1.0-dev-unknown, built on 01/01/1970 00:00 UTC\n"
	chVersion   = "ClickHouse Keeper version: v24.3.1.2672-stable-abc\n"
	notServing  = "This ZooKeeper instance is not currently serving requests\n"
	notListed   = "srvr is not executed because it is not in the whitelist.\n"
	modeOf      = "Zxid: 0x1\nMode: "
	endOfAnswer = "\nNode count: 5\n"
)

func TestHealthy(t *testing.T) {
	say := func(mode string) string { return zkVersion + modeOf + mode + endOfAnswer }
	for _, tt := range []struct {
		name    string
		answers []string
		leader  string
		wants   []string // in the error; none: it is well
	}{
		{"well", []string{say("follower"), say("leader"), say("observer")}, "2", nil},
		{"alone", []string{say("standalone")}, "1", nil},
		{"two leaders", []string{say("leader"), say("leader"), say("follower")}, "", []string{"members 1 and 2 both"}},
		{"no leader", []string{say("follower"), say("follower")}, "", []string{"none of the members"}},
		{"one joins", []string{say("leader"), notServing, say("follower")}, "1", []string{"member 2 (", "does not serve", "not currently"}},
		{"two words", []string{notListed, notServing, say("leader")}, "3", []string{"member 1 (", "whitelist", "member 2 ("}},
		{"read only", []string{say("leader"), say("read-only")}, "1", []string{"its mode is read-only"}},
		{"none", nil, "", []string{"no members"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var members []Member
			for i, text := range tt.answers {
				members = append(members, answering(t, string(rune('1'+i)), text))
			}
			err := Healthy(t.Context(), members)
			if (err == nil) != (len(tt.wants) == 0) {
				t.Errorf("Healthy: %v", err)
			}
			for _, want := range tt.wants {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Healthy: %v, want %q", err, want)
				}
			}
			if got := Leader(t.Context(), members); got != tt.leader {
				t.Errorf("Leader: %q, want %q", got, tt.leader)
			}
		})
	}
}

// A member that accepts connections and is silent, as a stopped one is, is named.
func TestSilentMember(t *testing.T) {
	members := []Member{answering(t, "1", zkVersion+modeOf+"leader"+endOfAnswer), answering(t, "2", "")}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // both must be asked in this time
	defer cancel()
	err := AwaitHealthy(ctx, members)
	if err == nil || !strings.Contains(err.Error(), "member 2 (") || !strings.Contains(err.Error(), "no answer to srvr in time") {
		t.Errorf("AwaitHealthy: %v, want that member 2 does not answer", err)
	}
}

func TestSoftware(t *testing.T) {
	for _, tt := range []struct {
		answers []string
		want    string
	}{
		{[]string{zkVersion, zkVersion}, "ZooKeeper 3.8.0"},
		{[]string{ownVersion}, "Rollcall 0.1.0-dev"},
		{[]string{chVersion}, "ClickHouse Keeper 24.3.1.2672"},
		{[]string{ownVersion, zkVersion, ownVersion}, "Rollcall 0.1.0-dev, ZooKeeper 3.8.0"},
		{[]string{notServing}, "unknown"},
	} {
		var members []Member
		for _, text := range tt.answers {
			members = append(members, answering(t, "1", text))
		}
		if got := Software(t.Context(), members); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.answers, got, tt.want)
		}
	}
}

func TestWrongOf(t *testing.T) {
	well := api.Member{DigestVerdict: "agrees"}
	if got := wrongOf(well); got != "" {
		t.Errorf("a member that is well: %q", got)
	}
	var all []string
	for _, s := range []api.Member{
		{DamageReason: "x"},
		{StallReason: "x"},
		{WasRemoved: true},
		{IsDrained: true},
		{NoMemory: true},
		{IsJoining: true},
		{DigestVerdict: "differs"},
	} {
		got := wrongOf(s)
		if got == "" || slices.Contains(all, got) {
			t.Errorf("%+v: %q, want a reason of its own", s, got)
		}
		all = append(all, got)
	}
}

// A member is well only if its probes are, and an ensemble if its status says so. Without the right token nothing more is known.
func TestProbes(t *testing.T) {
	m := answering(t, "1", ownVersion+modeOf+"leader"+endOfAnswer)
	for _, tt := range []struct{ path, reply, want string }{
		{"", "", ""},
		{"/livez", "500", "is not well: /livez of"},
		{"/readyz", "500", "is not well: /readyz of"},
		{"/v1/status", "401", ""},
		{"/v1/status", "403", ""},
		{"/v1/status", "500", "/v1/status of"},
		{"/v1/members", "404", "/v1/members of"},
		{"/v1/members", `{"settled":false}`, "not all members of the server list vote yet"},
		{"/v1/status", `{"silent":[{"member":2,"reason":"down","detail":"refused"}]}`, "member 2 does not reply to the others: down (refused)"},
		{"/v1/status", `{"items":[{"member":3,"drained":true}]}`, "member 3 is drained"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, err := strconv.Atoi(tt.reply)
			switch {
			case r.URL.Path != tt.path:
				_, _ = io.WriteString(w, `{"settled":true}`)
			case err == nil:
				w.WriteHeader(status)
			default:
				_, _ = io.WriteString(w, tt.reply)
			}
		}))
		m.Admin = srv.URL
		err := Healthy(t.Context(), []Member{m})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s replies %s: %v, want %q", tt.path, tt.reply, err, tt.want)
		}
		srv.Close()
	}
}
