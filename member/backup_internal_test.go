package member

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"rollcall/operator/admin"
)

// A member whose state is not that of the ensemble makes no backup, and its error says why.
func TestNoBackupOfUnfitState(t *testing.T) {
	for want, health := range map[string]admin.Health{
		"damaged: entry 7":               {Damage: "entry 7"},
		"does not serve for now: 2 to 1": {Divergence: "2 to 1"},
		"joining the ensemble":           {Joining: true, HasLeader: true},
		"reads its data":                 {ReadsData: true},
	} {
		b := &backups{memberHealth: func() admin.Health { return health }}
		_, err := b.copyState(t.Context())
		var failure *admin.Failure
		if !errors.As(err, &failure) || failure.Status != http.StatusServiceUnavailable ||
			!strings.Contains(failure.Text, want) || !strings.Contains(failure.Text, "another member") {
			t.Errorf("%+v: %v, want status 503 and %q", health, err, want)
		}
	}
}
