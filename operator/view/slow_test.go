package view

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"rollcall/internal/stages"
)

// The words of docs/runbooks.md. A leader that takes a request of its own client is not a way between two members.
func TestStageText(t *testing.T) {
	for stage, want := range map[stages.Stage]string{
		{Kind: stages.StageLink, Member: 2, To: 2}:   "handed to the leader, member 2 itself",
		{Kind: stages.StageLink, Member: 2, To: 3}:   "on the way from member 2 to the leader, member 3",
		{Kind: stages.StageDisk, Member: 1}:          "the disk of member 1",
		{Kind: stages.StageNotice, Member: 1, To: 2}: "the commit was on the way from member 1 to member 2",
		{Kind: stages.StagePaused, Member: 1}:        "the process of member 1 did not run",
		{Kind: stages.StageNoReply, Member: 3}:       "the connection to member 3 ended before there was a reply",
		{Kind: stages.StageNoLeader, Member: 2}:      "member 2 had no leader that serves",
	} {
		if got := StageText(stage); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// The description of the API names each cause that a slow request may have.
func TestSlowCausesAreDescribed(t *testing.T) {
	text, err := os.ReadFile("../api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var described struct {
		Components struct {
			Schemas struct {
				SlowCause struct {
					Properties struct {
						Cause struct{ Description string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &described); err != nil {
		t.Fatal(err)
	}
	got := described.Components.Schemas.SlowCause.Properties.Cause.Description
	for _, name := range slowCauseNames {
		if !strings.Contains(got, `"`+name+`"`) {
			t.Errorf("%q does not name %q", got, name)
		}
	}
}
