package member

import (
	"fmt"
	"slices"

	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/server/tenant"
)

// limits are a member's limits for tenants, as operators see and change them.
type limits struct{ limiter *tenant.Limiter }

var _ admin.Limits = limits{}

// List implements admin.Limits.
func (l limits) List() []api.Limit {
	list := []api.Limit{}
	for _, r := range l.limiter.Rules() {
		list = append(list, api.Limit{Name: r.Name, Rule: r.String()})
	}
	return list
}

// Change implements admin.Limits.
func (l limits) Change(change api.LimitsChange) error {
	return l.limiter.Change(func(rules []tenant.Rule) ([]tenant.Rule, error) {
		for _, name := range change.Remove {
			i := indexOfRule(rules, name)
			if i < 0 {
				return nil, fmt.Errorf("there is no limit %.64q; GET /v1/limits and rollcall limits list them", name)
			}
			rules = slices.Delete(rules, i, i+1)
		}
		for _, limit := range change.Set {
			r, err := tenant.ParseRule(limit.Name, limit.Rule)
			if err != nil {
				return nil, fmt.Errorf("limit %.64s: %w", limit.Name, err)
			}
			if i := indexOfRule(rules, r.Name); i >= 0 {
				rules[i] = r
			} else {
				rules = append(rules, r)
			}
		}
		return rules, nil
	})
}

func indexOfRule(rules []tenant.Rule, name string) int {
	return slices.IndexFunc(rules, func(r tenant.Rule) bool { return r.Name == name })
}
