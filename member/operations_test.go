package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"rollcall/operator/admin"
	"rollcall/operator/api"
)

// Each reason for which a kill fails has a status of its own, which operator/api/openapi.json describes, and says
// what to do.
func TestKillFailures(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal(api.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	described := doc.Paths["/v1/sessions/{id}/kill"]["post"].Responses
	for _, reason := range []error{ErrUnknownSession, ErrSessionMoved, ErrNotConfirmed, ErrNoLeader} {
		f, ok := errors.AsType[*admin.Failure](killFailure(fmt.Errorf("member: kill session 0x1: %w: more", reason)))
		if !ok || described[fmt.Sprint(f.Status)] == nil {
			t.Errorf("%v: %+v is not described", reason, f)
			continue
		}
		delete(described, fmt.Sprint(f.Status)) // no other reason may have it
	}
	if err := errors.New("another"); !errors.Is(killFailure(err), err) {
		t.Error("another error is not passed on")
	}
}
