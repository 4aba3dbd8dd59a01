package cli

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/internal/keystore/authority"
	"rollcall/operator/api"
)

// serviceAccount writes the files of a pod's service account, with which it trusts an API server.
func serviceAccount(t *testing.T, trusted *httptest.Server) string {
	t.Helper()
	dir := t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.Certificate().Raw})
	for name, text := range map[string]string{"token": "a-token\n", "namespace": "apps", "ca.crt": string(certificate)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// podEnv returns the variables of a pod.
func podEnv(t *testing.T, pod string, server *httptest.Server) []string {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"HOSTNAME=" + pod, "KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}
}

// conflicting is the number of a member whose first three changes are rejected, because the list has another version.
const conflicting = 6

// unconfirmed is the number of a member that does not see its own removal.
const unconfirmed = 7

// leavingServer is the port for operators of a member that drains and leaves.
func leavingServer(t *testing.T, own uint32, roles map[uint32]string, sent *[]string) *httptest.Server {
	removed := false
	return newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := any(nil)
		switch r.Method + " " + r.URL.Path {
		case "POST /v1/drain":
			reply = api.Drained{}
		case "GET /v1/whoami":
			reply = api.Caller{MemberID: own}
		case "POST /v1/members":
			var change api.MembersChange
			if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
				t.Error(err)
			}
			if own == conflicting && len(*sent) < 3 { // an observer has got the member's vote, and others have left, meanwhile
				w.WriteHeader(http.StatusConflict)
				reply = map[string]any{"error": "the list was changed meanwhile"}
			} else {
				removed, reply = true, api.MembersChanged{}
			}
			if own == unconfirmed {
				w.WriteHeader(http.StatusGatewayTimeout)
				reply = map[string]any{"error": "not confirmed in time"}
			}
			*sent = append(*sent, fmt.Sprintf("%s at %s, by itself %t, force %t", change.Leaving, change.Version, change.BySelf, change.Force))
		case "GET /v1/members":
			m := api.Members{Version: "0x7", LeaderID: 1, WasRemoved: removed}
			for id := uint32(1); id <= 9; id++ {
				role, state := "participant", "follower"
				switch roles[id] {
				case "":
					continue
				case "observer":
					role, state = "observer", "observer"
				case "silent", "not serving":
					state = roles[id]
				}
				if id == own && removed {
					role, state = "", api.StateRemoved
				}
				if roles[id] == "busy" {
					state = "silent"
					m.Silent = append(m.Silent, api.Silence{MemberID: id, Reason: api.SilentBusy})
				}
				m.Items = append(m.Items, api.Server{MemberID: id, Role: role, State: state, IsVoter: role == "participant"})
			}
			reply = m
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_ = json.NewEncoder(w).Encode(reply)
	}))
}

// A drain in a pod removes its member if the StatefulSet is to have fewer pods, together with silent members of higher pods. It removes
// nobody if the pod stays, and if the API server does not say clearly that it goes.
func TestDrainLeavesWithTheStatefulSet(t *testing.T) {
	const set = `{"spec":{"replicas":%d}}`
	five := map[uint32]string{1: "follower", 2: "follower", 3: "follower", 4: "follower", 5: "follower"}
	for _, tt := range []struct {
		name, pod, reply string
		status           int
		own              uint32
		roles            map[uint32]string
		sent             string // the changes that the member gets
		err              string
	}{
		{"it goes", "roll-call-4", fmt.Sprintf(set, 4), 200, 5, five, "5 at 0x7, by itself true, force false", ""},
		{"it stays", "roll-call-4", fmt.Sprintf(set, 5), 200, 5, five, "", ""},
		{"no pod is to be left", "roll-call-4", fmt.Sprintf(set, 0), 200, 5, five, "", ""},
		{"the numbers begin later", "roll-call-4", `{"spec":{"replicas":3,"ordinals":{"start":2}}}`, 200, 5, five, "", ""},
		{"one is to be left", "roll-call-1", fmt.Sprintf(set, 1), 200, 2, map[uint32]string{1: "follower", 2: "follower"}, "2 at 0x7, by itself true, force true", ""},
		{"the one that would be left is silent", "roll-call-1", fmt.Sprintf(set, 1), 200, 2, map[uint32]string{1: "silent", 2: "follower"}, "2 at 0x7, by itself true, force false", ""},
		{"dead members of higher pods", "roll-call-3", fmt.Sprintf(set, 3), 200, 4, map[uint32]string{1: "follower", 2: "silent", 3: "follower", 4: "follower", 5: "silent"}, "4,5 at 0x7, by itself true, force false", ""},
		{"a silent member that has replied", "roll-call-3", fmt.Sprintf(set, 3), 200, 4, map[uint32]string{1: "follower", 2: "follower", 3: "follower", 4: "follower", 5: "busy"}, "4 at 0x7, by itself true, force false", ""},
		{"the one that would be left does not serve", "roll-call-1", fmt.Sprintf(set, 1), 200, 2, map[uint32]string{1: "not serving", 2: "follower"}, "2 at 0x7, by itself true, force false", ""},
		{"the list changes meanwhile", "roll-call-5", fmt.Sprintf(set, 5), 200, conflicting, map[uint32]string{1: "follower", 2: "follower", 3: "follower", 6: "follower"}, strings.Repeat("6 at 0x7, by itself true, force false; ", 3) + "6 at 0x7, by itself true, force false", ""},
		{"the removal is made, and not confirmed", "roll-call-6", fmt.Sprintf(set, 6), 200, unconfirmed, map[uint32]string{1: "follower", 2: "follower", 3: "follower", 7: "follower"}, "7 at 0x7, by itself true, force false", ""},
		{"an observer", "roll-call-3", fmt.Sprintf(set, 3), 200, 4, map[uint32]string{1: "follower", 2: "follower", 3: "follower", 4: "observer"}, "4 at 0x7, by itself true, force false", ""},
		{"the reply is an error", "roll-call-4", `{"spec":{"replicas":4}}`, 403, 5, five, "", "403"},
		{"the reply has no number", "roll-call-4", `{"spec":{}}`, 200, 5, five, "", "no spec.replicas"},
		{"the number is negative", "roll-call-4", fmt.Sprintf(set, -1), 200, 5, five, "", "spec.replicas -1"},
		{"the numbers overflow", "roll-call-4", `{"spec":{"replicas":9223372036854775807,"ordinals":{"start":1}}}`, 200, 5, five, "", "not from 0 to 255"},
		{"the reply is none", "roll-call-4", `<html>`, 200, 5, five, "", "cannot be read"},
		{"the reply is endless", "roll-call-4", `{"x":"` + strings.Repeat("x", maxStatefulSetBytes) + `","spec":{"replicas":4}}`, 200, 5, five, "", "cannot be read"},
		{"a redirect", "roll-call-4", "", 302, 5, five, "", "302"},
		{"no pod of a set", "roll", fmt.Sprintf(set, 4), 200, 5, five, "", "HOSTNAME"},
		{"another number", "roll-call-4", fmt.Sprintf(set, 4), 200, 2, five, "", "has the number 2, and not 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kubernetes := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != "GET" || r.URL.Path != "/apis/apps/v1/namespaces/apps/statefulsets/roll-call" || r.Header.Get("Authorization") != "Bearer a-token" {
					t.Errorf("%s %s with %q", r.Method, r.URL, r.Header)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = fmt.Fprint(w, tt.reply)
			}))
			defer kubernetes.Close()
			var sent []string
			member := leavingServer(t, tt.own, tt.roles, &sent)
			w, out, _ := testWorld(append(podEnv(t, tt.pod, kubernetes), "ROLLCALL_TOKEN_FILE="+tokenFile(t), "ROLLCALL_ADMIN="+member.URL)...)
			w.membersPollInterval = time.Millisecond
			_, err := Execute(t.Context(), NewRoot(w, "1"), []string{"drain", "--leave-with-statefulset", "--service-account", serviceAccount(t, kubernetes)})
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || strings.Join(sent, "; ") != tt.sent {
				t.Errorf("sent %q, %v", sent, err)
			}
			if !strings.Contains(out.String(), "drained") {
				t.Errorf("printed %q", out)
			}
		})
	}
}

// A pod gives its token to no server that its authority has not certified, and removes nobody then.
func TestDrainTrustsTheApiServerAlone(t *testing.T) {
	five := map[uint32]string{1: "follower", 2: "follower", 3: "follower", 4: "follower", 5: "follower"}
	kubernetes := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a server without proof is asked") }))
	defer kubernetes.Close()
	dir := serviceAccount(t, kubernetes)
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty, other := t.TempDir(), serviceAccount(t, kubernetes)
	stranger, err := authority.New("another", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, _, err := stranger.PEMFiles()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "ca.crt"), certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dir, err string }{{dir, "has no certificate"}, {empty, "no such file"}, {other, "unknown authority"}} {
		var sent []string
		member := leavingServer(t, 5, five, &sent)
		w, _, _ := testWorld(append(podEnv(t, "roll-call-4", kubernetes), "ROLLCALL_TOKEN_FILE="+tokenFile(t), "ROLLCALL_ADMIN="+member.URL)...)
		_, err := Execute(t.Context(), NewRoot(w, "1"), []string{"drain", "--leave-with-statefulset", "--service-account", tt.dir})
		if err == nil || !strings.Contains(err.Error(), tt.err) || len(sent) > 0 {
			t.Errorf("sent %q, %v", sent, err)
		}
	}
}
