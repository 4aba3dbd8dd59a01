package member

import (
	"fmt"
	"strings"
	"testing"

	"rollcall/operator/api"
	"rollcall/server/tenant"
)

// A change of the limits for tenants takes effect as a whole, or not at all.
func TestLimitsAreChanged(t *testing.T) {
	l := limits{new(tenant.Limiter)}
	for _, tt := range []struct {
		change api.LimitsChange
		want   string // the limits after it
		err    string
	}{
		{api.LimitsChange{Set: []api.Limit{{Name: "a", Rule: "address requests=5"}, {Name: "b", Rule: "subtree /b requests=1"}}}, "[{a address requests=5} {b subtree /b requests=1}]", ""},
		{api.LimitsChange{Set: []api.Limit{{Name: "a", Rule: "each address requests=6"}}}, "[{a each address requests=6} {b subtree /b requests=1}]", ""},
		{api.LimitsChange{Set: []api.Limit{{Name: "a", Rule: "address requests=7"}}, Remove: []string{"c"}}, "[{a each address requests=6} {b subtree /b requests=1}]", `there is no limit "c"`},
		{api.LimitsChange{Set: []api.Limit{{Name: "a", Rule: "address"}}, Remove: []string{"b"}}, "[{a each address requests=6} {b subtree /b requests=1}]", "limit a: there is no number"},
		{api.LimitsChange{Remove: []string{"a", "b"}}, "[]", ""},
	} {
		err := l.Change(tt.change)
		if got := fmt.Sprint(l.List()); got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: %v, limits %s, want %s", tt.change, err, got, tt.want)
		}
	}
}
