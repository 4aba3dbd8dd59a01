package silencemodel

import "testing"

// schedules is a number with which each mutant is found many times over.
const schedules = 20_000

// No schedule ends a session early.
func TestNothingThatWasHeardExpires(t *testing.T) {
	for seed := range uint64(schedules) {
		if early := Play(All, seed); early > 0 {
			t.Fatalf("schedule %d: a session ended %d steps early", seed, early)
		}
	}
}

// Without each of the rules, some schedule ends a session early.
func TestRulesAreNeeded(t *testing.T) {
	mutants := map[string]func(r *Rules){
		"any member's silence counts":        func(r *Rules) { r.OwnerAtIndex = false },
		"acknowledged touches alone count":   func(r *Rules) { r.AllHeard = false },
		"time without a leader counts":       func(r *Rules) { r.GapsExcluded = false },
		"raft's last contact counts":         func(r *Rules) { r.LeadProved = false },
		"reports last until the next leader": func(r *Rules) { r.ReportsStop = false },
		"nothing need be left":               func(r *Rules) { r.LeastRest = false },
		"one member's report is enough":      func(r *Rules) { r.Majority = false },
		"sessions that came later count":     func(r *Rules) { r.ThroughIndex = false },
		"old reports count":                  func(r *Rules) { r.NewestLeast = false },
	}
	for name, change := range mutants {
		t.Run(name, func(t *testing.T) {
			rules := All
			change(&rules)
			for seed := range uint64(schedules) {
				if Play(rules, seed) > 0 {
					t.Logf("found in schedule %d", seed)
					return
				}
			}
			t.Error("no schedule shows that the rule is needed")
		})
	}
}
