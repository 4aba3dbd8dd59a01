package leasemodel

import (
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
)

// searches are the bounds within which there is no fault. With ROLLCALL_MODEL=deep, those of deep are searched, too.
var searches = map[string]Model{
	"three leaders":            {Elections: 2, Log: 4, Requests: 1, Requesters: 1},
	"renewals":                 {Elections: 1, Log: 3, Requests: 2},
	"three leases of a server": {Elections: 1, Log: 3, Requests: 3, Requesters: 2},
	"leases are given back":    {Elections: 1, Log: 3, Requests: 2, Returns: 1, Requesters: 3},
	"a restart":                {Elections: 1, Log: 3, Requests: 1, Restarts: 1, Requesters: 3},
	"a restart and a return":   {Log: 3, Requests: 2, Restarts: 1, Returns: 1, Requesters: 2},
	"reads take time":          {Elections: 1, Log: 3, Requests: 1, Reads: true},
	"an observer":              {Observer: true, Elections: 1, Log: 3, Requests: 1, Returns: 1},
	"an observer is added":     {Elections: 1, Log: 4, Requests: 1, Changes: 1, Requesters: 1 << observer},
	"an observer is removed":   {Observer: true, Elections: 1, Log: 4, Requests: 1, Changes: 1, Requesters: 1 << observer},
	"words":                    {Words: true, Elections: 1, Log: 3, Requests: 1},
	"words, four leaders":      {Words: true, Elections: 3, Log: 3},
	"words and a restart":      {Words: true, Elections: 1, Log: 3, Restarts: 1},
	"words and an observer":    {Words: true, Observer: true, Elections: 1, Log: 3, Requests: 1, Requesters: 1 << observer},
	"direct":                   {Words: true, Direct: true, Elections: 1, Log: 3, Requests: 1, Requesters: 6},
	"direct and a restart":     {Words: true, Direct: true, Elections: 1, Log: 3, Requests: 1, Restarts: 1, Requesters: 2},
	"direct, three leaders":    {Words: true, Direct: true, Elections: 2, Log: 4},
	"leases are switched off":  {Modes: true, Elections: 2, Log: 4, Requests: 1, Requesters: 1},
	"leases are switched on":   {Modes: true, BeginsWithout: true, Elections: 2, Log: 4, Requests: 1, Requesters: 2},
}

var deep = map[string]Model{
	"words, a lease, a restart":   {Words: true, Elections: 1, Log: 3, Requests: 1, Restarts: 1, Requesters: 4},
	"two leases of an observer":   {Observer: true, Elections: 1, Log: 3, Requests: 2, Requesters: 1 << observer},
	"all request":                 {Elections: 2, Log: 4, Requests: 1},
	"words, three leaders":        {Words: true, Elections: 2, Log: 4, Requests: 1, Requesters: 3},
	"words and returns":           {Words: true, Elections: 1, Log: 3, Requests: 2, Returns: 1},
	"words without and with them": {Words: true, Modes: true, Elections: 2, Log: 4, Requests: 1, Requesters: 1},
	"reads and a restart":         {Elections: 0, Log: 3, Requests: 2, Restarts: 1, Reads: true},
	"an observer restarts":        {Observer: true, Elections: 1, Log: 3, Requests: 1, Restarts: 1, Requesters: 1 << observer},
	"an observer, 3 leaders":      {Observer: true, Elections: 2, Log: 4, Requests: 1, Requesters: 1 << observer},
	"three leaders, renewals":     {Elections: 2, Log: 4, Requests: 2, Requesters: 3},
	"three leases, three leaders": {Elections: 2, Log: 4, Requests: 3, Requesters: 2},
	"two restarts":                {Elections: 1, Log: 3, Requests: 2, Restarts: 2, Requesters: 3},
}

// The protocol has no fault.
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

// passed are the searches that have found no fault.
var passed = map[Model]bool{}

func holds(t *testing.T, m Model) {
	if passed[m] {
		return
	}
	begun := time.Now()
	r := m.Run()
	t.Logf("%d states, %d steps deep, %v", r.States, r.Depth, time.Since(begun).Round(time.Millisecond))
	if r.Trace != nil {
		t.Fatalf("%s:\n%s", r.Fault, strings.Join(r.Trace, "\n"))
	}
	passed[m] = true
}

// mutants are the protocol without one rule. Each has a fault.
var mutants = map[string]struct {
	without func(*Rules)
	in      Model
}{
	"holders are not awaited":                     {func(r *Rules) { r.SkipsHolders = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"clocks without a bound":                      {func(r *Rules) { r.DropsEarly = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"leases are not inherited":                    {func(r *Rules) { r.LeadsAtOnce = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"nor the leases of observers":                 {func(r *Rules) { r.InheritsVotersOnly = true }, Model{Observer: true, Elections: 1, Log: 3, Requests: 1}},
	"a lease is used at once":                     {func(r *Rules) { r.UsesAtOnce = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a lease outlives its end beside a later one": {func(r *Rules) { r.EarlierOutlive = true }, Model{Elections: 1, Log: 3, Requests: 2, Requesters: 2}},
	"a lease outlives a restart":                  {func(r *Rules) { r.KeepsLeases = true }, Model{Log: 3, Requests: 1, Restarts: 1}},
	"a leader without a majority":                 {func(r *Rules) { r.GrantsUnconfirmed = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a grant after the return":                    {func(r *Rules) { r.TakesLateGrants = true }, Model{Log: 3, Requests: 2, Returns: 1}},
	"a member that may not be one":                {func(r *Rules) { r.GrantsEarly = true }, Model{Elections: 1, Log: 4, Requests: 1, Changes: 1, Requesters: 1 << observer}},
	"removed while it has a lease":                {func(r *Rules) { r.RemovesWithLease = true }, Model{Observer: true, Elections: 1, Log: 4, Requests: 1, Changes: 1, Requesters: 1 << observer}},
	"a read before held entries":                  {func(r *Rules) { r.ReadsHalf = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a lease that is younger":                     {func(r *Rules) { r.ChecksAfter = true }, Model{Log: 3, Requests: 1, Reads: true}},
	"an end that is too old":                      {func(r *Rules) { r.EndsAtArrival = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a return that comes late":                    {func(r *Rules) { r.TakesLateReturns = true }, Model{Log: 3, Requests: 2, Returns: 1}},
	"a return that comes after a restart":         {func(r *Rules) { r.TakesLateReturns = true }, Model{Log: 3, Requests: 2, Returns: 1, Restarts: 1, Requesters: 2, Stops: true}},

	"followers hear of all that is committed":       {func(r *Rules) { r.TellsCommitted = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a deposed leader applies all":                  {func(r *Rules) { r.AppliesWhenDeposed = true }, Model{Elections: 1, Log: 3, Requests: 1}},
	"a word without holders":                        {func(r *Rules) { r.WordSkipsHolders = true }, Model{Words: true, Elections: 1, Log: 3, Requests: 1}},
	"a word without the leader's disk":              {func(r *Rules) { r.WordSkipsLeadersDisk = true }, Model{Words: true, Elections: 1, Log: 3, Restarts: 1}},
	"a word without the follower's disk":            {func(r *Rules) { r.WordSkipsDisk = true }, Model{Words: true, Elections: 1, Log: 3, Restarts: 1}},
	"a word without an entry of the term":           {func(r *Rules) { r.WordOnOldEntries = true }, Model{Words: true, Elections: 3, Log: 3}},
	"a direct message without the word":             {func(r *Rules) { r.DirectSkipsWord = true }, Model{Words: true, Direct: true, Elections: 1, Log: 3, Restarts: 2}},
	"the word without those that it names":          {func(r *Rules) { r.DirectSkipsNamed = true }, Model{Words: true, Direct: true, Elections: 1, Log: 3, Requests: 1, Requesters: 6}},
	"a direct message of an earlier term":           {func(r *Rules) { r.DirectOfOldTerms = true }, Model{Words: true, Direct: true, Elections: 1, Log: 3, Requests: 1, Restarts: 1, Requesters: 2}},
	"a sync by a deposed leader":                    {func(r *Rules) { r.SyncsUnproven = true }, Model{Elections: 1, Log: 3}},
	"a sync without words":                          {func(r *Rules) { r.SyncsWithoutWord = true }, Model{Words: true, Log: 3}},
	"a sync without the entries of earlier leaders": {func(r *Rules) { r.SyncsWithoutStart = true }, Model{Elections: 1, Log: 3}},
	"a grant before the TermStart":                  {func(r *Rules) { r.GrantsBeforeStart = true }, Model{Modes: true, BeginsWithout: true, Elections: 2, Log: 4, Requests: 1, Requesters: 2}},
	"only the last TermStart of the log":            {func(r *Rules) { r.WaitsByLatest = true }, Model{Modes: true, Elections: 2, Log: 4, Requests: 1, Requesters: 1}},
	"only the last TermStart that is applied":       {func(r *Rules) { r.WaitsByApplied = true }, Model{Modes: true, BeginsWithout: true, Elections: 2, Log: 4, Requests: 1, Requesters: 2}},
	"leases end early":                              {func(r *Rules) { r.EndsLeasesEarly = true }, Model{Modes: true, Elections: 2, Log: 4, Requests: 1, Requesters: 1}},
}

// Without any one rule there is a fault, and with it there is none, within the same bounds.
func TestMutants(t *testing.T) {
	needs.Check(t, needs.Usual)
	for title, mutant := range mutants {
		t.Run(title, func(t *testing.T) {
			holds(t, mutant.in)
			m := mutant.in
			mutant.without(&m.Rules)
			r := m.Run()
			if r.Trace == nil {
				t.Fatalf("no fault in %d states", r.States)
			}
			t.Logf("%d states, %s\n%s", r.States, r.Fault, strings.Join(r.Trace, "\n"))
		})
	}
}

// A request may be for any leader: a lease is counted from when its request was sent, and a leader grants only after it has applied
// its TermStart, which every member holds by then, if it waits.
func TestRequestsForAnyLeader(t *testing.T) {
	needs.Check(t, needs.Usual)
	without := Rules{RequestsInAnyTerm: true}
	for title, m := range map[string]Model{
		"voters":      {Rules: without, Elections: 2, Log: 4, Requests: 1, Requesters: 2},
		"an observer": {Rules: without, Observer: true, Elections: 1, Log: 3, Requests: 1, Requesters: 1 << observer},
		"returns":     {Rules: without, Elections: 1, Log: 3, Requests: 2, Returns: 1, Requesters: 2},
	} {
		t.Run(title, func(t *testing.T) { holds(t, m) })
	}
}
