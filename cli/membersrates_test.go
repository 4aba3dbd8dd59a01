package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A server has a rate only if it catches up in both looks: one that has caught up between them copies nothing any more.
func TestMembersListRatesOfThoseThatCatchUp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		applied uint64
		rated   bool
	}{
		{"still catches up", 0, true},
		{"has caught up", allEntries / 2, false},
		{"follows in both looks", allEntries, false},
	} {
		f := newFakeEnsemble(t, oneToThree)
		third := f.raft[3]
		third.AppliedIndex = tt.applied
		f.raft[3] = third
		out, errs, err := f.run(t, "list -o json")
		var list struct {
			Items []struct {
				Member uint32 `json:"member"`
				Rate   *int64 `json:"rate_per_s"`
			} `json:"items"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &list.Items)
		}
		if err != nil || len(list.Items) != 3 {
			t.Fatalf("%s: printed %s%s, %v", tt.name, out, errs, err)
		}
		for _, s := range list.Items {
			if rated := s.Rate != nil; rated != (tt.rated && s.Member == 3) {
				t.Errorf("%s: server %d has a rate: %t", tt.name, s.Member, rated)
			}
		}
	}
}

// The only server of an ensemble leads also after its drain. Nobody waits for another leader.
func TestMembersDrainOfTheOnlyOne(t *testing.T) {
	f := newFakeEnsemble(t, "server.1=a:2888:3888;2181")
	w, out, _ := testWorld("ROLLCALL_ADMIN="+f.URL, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
	w.membersPollInterval = time.Millisecond
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if _, err := Execute(ctx, NewRoot(w, "1"), strings.Fields("members drain 1 --force")); err != nil || out.String() != "member 1: drained, 7 connections closed; it is safe to stop it\n" {
		t.Errorf("printed %q, %v", out, err)
	}
}
