package view

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

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
