package view

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"rollcall/internal/stages"
)

// A leader that takes a request of its own client is not a way between two members.
func TestStageText(t *testing.T) {
	for to, want := range map[uint32]string{2: "handed to the leader, member 2 itself", 3: "on the way from member 2 to the leader, member 3"} {
		if got := StageText(stages.Stage{Kind: stages.StageLink, Member: 2, To: to}); got != want {
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
