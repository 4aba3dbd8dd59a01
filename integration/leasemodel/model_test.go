package leasemodel

import (
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
)

// searches are the bounds within which no read is stale. With ROLLCALL_MODEL=deep, those of deep are searched, too.
var searches = map[string]Model{
	"three leaders":             {Elections: 2, Log: 4, Requests: 1},
	"renewals":                  {Elections: 1, Log: 3, Requests: 2},
	"leases are given back":     {Elections: 1, Log: 3, Requests: 2, Returns: 1},
	"a restart":                 {Elections: 1, Log: 3, Requests: 1, Restarts: 1},
	"reads take time":           {Elections: 1, Log: 3, Requests: 1, Reads: true},
	"an observer":               {Observer: true, Elections: 1, Log: 3, Requests: 1, Returns: 1},
	"an observer is added":      {Elections: 1, Log: 4, Requests: 1, Changes: 1, Requesters: 1 << observer},
	"an observer is removed":    {Observer: true, Elections: 1, Log: 4, Requests: 1, Changes: 1, Requesters: 1 << observer},
	"two leases of an observer": {Observer: true, Elections: 1, Log: 3, Requests: 2, Requesters: 1 << observer},
}

var deep = map[string]Model{
	"reads and a restart":     {Elections: 0, Log: 3, Requests: 2, Restarts: 1, Reads: true},
	"an observer restarts":    {Observer: true, Elections: 1, Log: 3, Requests: 1, Restarts: 1, Requesters: 1 << observer},
	"an observer, 3 leaders":  {Observer: true, Elections: 2, Log: 4, Requests: 1, Requesters: 1 << observer},
	"three leaders, renewals": {Elections: 2, Log: 4, Requests: 2, Requesters: 3},
	"two restarts":            {Elections: 1, Log: 3, Requests: 2, Restarts: 2, Requesters: 3},
}

// No read is stale under the protocol.
func TestProtocol(t *testing.T) {
	needs.Check(t, needs.Usual)
	for title, m := range searches {
		t.Run(title, func(t *testing.T) { holds(t, m) })
	}
	if os.Getenv("ROLLCALL_MODEL") == "deep" {
		for title, m := range deep {
			t.Run(title, func(t *testing.T) { holds(t, m) })
		}
	}
}

func holds(t *testing.T, m Model) {
	begun := time.Now()
	r := m.Run()
	t.Logf("%d states, %d steps deep, %v", r.States, r.Depth, time.Since(begun).Round(time.Millisecond))
	if r.Trace != nil {
		t.Errorf("a read is stale:\n%s", strings.Join(r.Trace, "\n"))
	}
}

// mutants are the protocol without one rule. Each has a stale read.
var mutants = map[string]struct {
	without func(*Rules)
	in      Model
}{
	"holders are not awaited":      {func(r *Rules) { r.SkipsHolders = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"clocks without a bound":       {func(r *Rules) { r.DropsEarly = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"leases are not inherited":     {func(r *Rules) { r.LeadsAtOnce = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"nor the leases of observers":  {func(r *Rules) { r.InheritsVotersOnly = true }, Model{Observer: true, Elections: 1, Log: 3, Requests: 1}},
	"a lease is used at once":      {func(r *Rules) { r.UsesAtOnce = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a lease outlives a restart":   {func(r *Rules) { r.KeepsLeases = true }, Model{Log: 3, Requests: 1, Restarts: 1}},
	"a leader without a majority":  {func(r *Rules) { r.GrantsUnconfirmed = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a request for another leader": {func(r *Rules) { r.RequestsInAnyTerm = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a grant after the return":     {func(r *Rules) { r.TakesLateGrants = true }, Model{Log: 3, Requests: 2, Returns: 1}},
	"a member that may not be one": {func(r *Rules) { r.GrantsEarly = true }, Model{Elections: 1, Log: 4, Requests: 1, Changes: 1, Requesters: 1 << observer}},
	"removed while it has a lease": {func(r *Rules) { r.RemovesWithLease = true }, Model{Observer: true, Elections: 1, Log: 4, Requests: 1, Changes: 1, Requesters: 1 << observer}},
	"a read before held entries":   {func(r *Rules) { r.ReadsHalf = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a lease that is younger":      {func(r *Rules) { r.ChecksAfter = true }, Model{Log: 3, Requests: 1, Reads: true}},
}

// Without any one rule a read is stale, and with it none is, within the same bounds.
func TestMutants(t *testing.T) {
	needs.Check(t, needs.Usual)
	for title, mutant := range mutants {
		t.Run(title, func(t *testing.T) {
			holds(t, mutant.in)
			m := mutant.in
			mutant.without(&m.Rules)
			r := m.Run()
			if r.Trace == nil {
				t.Fatalf("no read is stale in %d states", r.States)
			}
			t.Logf("%d states\n%s", r.States, strings.Join(r.Trace, "\n"))
		})
	}
}
