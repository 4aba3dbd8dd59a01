package model

import (
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
)

// searches are the bounds within which the protocol loses nothing. With ROLLCALL_MODEL=deep, those of deep are searched, too.
var searches = map[string]Model{
	"three voters, two disks lost": {Disks: 5, Voters: 3, Terms: 3, Log: 4, Writes: 1, Changes: 2, Wipes: 2, Late: true, Live: true},
	"three voters, two changes":    {Disks: 5, Voters: 3, Terms: 3, Log: 5, Writes: 1, Changes: 2, Late: true, Live: true},
	"three voters, four elections": {Disks: 3, Voters: 3, Terms: 5, Log: 4, Writes: 2, Late: true, Live: true},
	"three voters, long queues":    {Disks: 3, Voters: 3, Terms: 4, Log: 5, Writes: 3, Wipes: 1, Late: true, Live: true},
	"three voters and one more":    {Disks: 4, Voters: 3, Terms: 4, Log: 5, Writes: 1, Changes: 2, Wipes: 1, Live: true},
	"four voters":                  {Disks: 5, Voters: 4, Terms: 3, Log: 4, Writes: 1, Changes: 1, Wipes: 2, Late: true, Live: true},
	"five voters":                  {Disks: 5, Voters: 5, Terms: 3, Log: 4, Writes: 2, Wipes: 2, Late: true, Live: true},
	"five voters become four":      {Disks: 5, Voters: 5, Terms: 3, Log: 4, Writes: 1, Changes: 1, Wipes: 1, Late: true, Live: true},
	"one voter grows to four":      {Disks: 4, Voters: 1, Terms: 3, Log: 6, Writes: 1, Changes: 3, Wipes: 1, Late: true, Live: true},
	"two voters grow to four":      {Disks: 4, Voters: 2, Terms: 3, Log: 4, Writes: 1, Changes: 2, Wipes: 1, Late: true, Live: true},
	"a list of three begins":       {Disks: 5, List: 3, Terms: 3, Log: 5, Writes: 1, Changes: 2, Wipes: 2},
}

var deep = map[string]Model{
	"three voters, two disks lost, two changes": {
		Disks: 5, Voters: 3, Terms: 3, Log: 5, Writes: 1, Changes: 2, Wipes: 2, Late: true, Live: true,
	},
	"three voters and one more, long queues": {
		Disks: 4, Voters: 3, Terms: 4, Log: 5, Writes: 2, Changes: 2, Wipes: 1, Late: true, Live: true,
	},
	"five voters become three":              {Disks: 5, Voters: 5, Terms: 3, Log: 4, Writes: 1, Changes: 2, Late: true, Live: true},
	"five voters, one is replaced":          {Disks: 6, Voters: 5, Terms: 3, Log: 4, Writes: 1, Changes: 2, Wipes: 1, Live: true},
	"five voters, three elections":          {Disks: 5, Voters: 5, Terms: 4, Log: 4, Writes: 1, Wipes: 2, Live: true},
	"a list of three begins, late messages": {Disks: 5, List: 3, Terms: 3, Log: 5, Writes: 1, Changes: 2, Wipes: 2, Late: true},
}

// The protocol loses nothing that was shown, never has two leaders in a term, and always gets on.
func TestProtocol(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
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
	t.Parallel()
	start := time.Now()
	r := m.Run()
	t.Logf("%d states, %d steps deep, %v", r.States, r.Depth, time.Since(start).Round(time.Millisecond))
	if r.Loss != "" {
		t.Errorf("loss: %s\n%s", r.Loss, strings.Join(r.Trace, "\n"))
	}
}

// mutant is the protocol with one rule turned off.
type mutant struct {
	Model
	without func(*Rules) // turns the rule on again; nil: the zero Rules
	want    loss
}

// mutants are the protocol without one rule. Each loses something.
var mutants = map[string]mutant{
	"a: an emptied disk elects itself by an old configuration": {
		Model: Model{
			Disks: 3, Voters: 3, Chain: true, Terms: 3, Log: 5, Writes: 1, Wipes: 1,
			Rules: Rules{KeepsIdentity: true, ElectsItself: true},
		},
		without: func(r *Rules) { r.ElectsItself = false },
		want:    lacksShown,
	},
	"b: a vote of the lost disk is on its way": {
		Model: Model{
			Disks: 5, Voters: 5, Terms: 3, Log: 2, Writes: 1, Wipes: 1,
			Rules: Rules{KeepsIdentity: true, Word: WordOfFormer},
		},
		without: func(r *Rules) { r.Word = WordOfAll },
		want:    twoLeaders,
	},
	"b: the disk that comes in only acknowledges": {
		Model: Model{
			Disks: 5, Voters: 5, Terms: 3, Log: 2, Writes: 1, Wipes: 1,
			Rules: Rules{KeepsIdentity: true, NeverVotes: true, Word: WordOfFormer},
		},
		without: func(r *Rules) { r.Word = WordOfAll },
		want:    lacksShown,
	},
	"c: the record of the configuration is one step old": {
		Model: Model{
			Disks: 3, Voters: 3, Chain: true, Terms: 3, Log: 6, Writes: 1, Wipes: 1, Changes: 1,
			Rules: Rules{KeepsIdentity: true, Word: WordOfRecord},
		},
		without: func(r *Rules) { r.Word = WordOfFormer },
		want:    twoLeaders,
	},
	"d: the list of two is not committed": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 3, Log: 4, Writes: 1, Wipes: 1, Changes: 1,
			Rules: Rules{KeepsIdentity: true, Word: WordOfLatest},
		},
		without: func(r *Rules) { r.Word = WordOfFormer },
		want:    twoLeaders,
	},
	"e: a commit is shown that counts a copy in memory": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 3, Log: 4, Writes: 2,
			Rules: Rules{ShowsUndurable: true},
		},
		want: lacksShown,
	},
	"e: the first entry of a term is in memory": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 5, Log: 4, Writes: 1,
			Rules: Rules{QueuesFirst: true},
		},
		want: lacksShown,
	},
	"f: a configuration is in memory": {
		Model: Model{
			Disks: 4, Voters: 3, Terms: 3, Log: 4, Writes: 1, Changes: 2,
			Rules: Rules{QueuesConfiguration: true},
		},
		want: twoLeaders,
	},
	"g: a change before an entry of the term is committed": {
		Model: Model{
			Disks: 5, Voters: 4, Terms: 4, Log: 3, Writes: 1, Changes: 1,
			Rules: Rules{ChangesEarly: true},
		},
		want: lacksShown,
	},
	"h: voters want the candidate in their own configuration": {
		Model: Model{
			Disks: 4, Voters: 3, Terms: 3, Log: 4, Writes: 1, Changes: 1, Live: true,
			Rules: Rules{ChecksCandidate: true},
		},
		want: noProgress,
	},
	"i: entries for one disk are taken by another one": {
		Model: Model{
			Disks: 4, Voters: 3, Terms: 3, Log: 3, Writes: 1,
			Rules: Rules{TakesEntries: true},
		},
		want: lacksShown,
	},
	"i: another disk votes for one": {
		Model: Model{
			Disks: 4, Voters: 3, Terms: 3, Log: 3, Writes: 1,
			Rules: Rules{TakesVotes: true},
		},
		want: twoLeaders,
	},
	"j: a leaver gets the change that ends its vote before it is committed": {
		Model: Model{
			Disks: 4, Voters: 4, Terms: 3, Log: 4, Writes: 1, Changes: 1, Live: true,
			Rules: Rules{SendsAhead: true},
		},
		want: noProgress,
	},
	"j: a newcomer gets entries before they are committed": {
		Model: Model{
			Disks: 4, Voters: 3, Terms: 3, Log: 4, Writes: 1, Changes: 1, Live: true,
			Rules: Rules{SendsAhead: true},
		},
		want: noProgress,
	},
	"j: a voter does not get a configuration in which it had no vote": {
		Model: Model{
			Disks: 4, Voters: 3, Terms: 3, Log: 4, Writes: 1, Changes: 2, Live: true,
			Rules: Rules{WithholdsVoteless: true},
		},
		want: noProgress,
	},
	"k: a leader removes itself": {
		Model: Model{
			Disks: 4, Voters: 4, Terms: 3, Log: 4, Writes: 1, Changes: 1, Live: true,
			Rules: Rules{RemovesItself: true},
		},
		want: noProgress,
	},
	"l: an ensemble begins although a member does not answer": {
		Model: Model{
			Disks: 4, List: 3, Terms: 3, Log: 4, Writes: 1, Changes: 1, Wipes: 1,
			Rules: Rules{BeginsByMajority: true},
		},
		want: twoHistories,
	},
	"m: the leader's word counts a copy in its memory": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 3, Log: 4, Writes: 2, Late: true,
			Rules: Rules{SaysUndurable: true},
		},
		want: lacksShown,
	},
	"m: the leader's word is about an entry of an earlier term": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 5, Log: 4, Writes: 1,
			Rules: Rules{SaysOlder: true},
		},
		want: lacksShown,
	},
	"m: the leader's word among five voters": {
		Model: Model{
			Disks: 5, Voters: 5, Terms: 3, Log: 3, Writes: 1,
			Rules: Rules{SaysAmongMany: true},
		},
		want: lacksShown,
	},
	"m: the leader's word to a server without a vote": {
		Model: Model{
			Disks: 4, Voters: 3, Terms: 3, Log: 3, Writes: 1,
			Rules: Rules{SendsAhead: true, SaysToOthers: true},
		},
		without: func(r *Rules) { r.SaysToOthers = false },
		want:    lacksShown,
	},
	"m: the word of a leader that has no vote": {
		Model: Model{
			Disks: 4, Voters: 4, Terms: 3, Log: 4, Writes: 2, Changes: 1,
			Rules: Rules{RemovesItself: true, SaysLeaving: true},
		},
		without: func(r *Rules) { r.SaysLeaving = false },
		want:    lacksShown,
	},
	"m: a direct message about what is not on the disk": {
		Model: Model{
			Disks: 5, Voters: 5, Terms: 3, Log: 3, Writes: 2,
			Rules: Rules{DirectUndurable: true},
		},
		want: lacksShown,
	},
	"m: a direct message of an earlier term": {
		Model: Model{
			Disks: 5, Voters: 5, Terms: 4, Log: 3, Writes: 1,
			Rules: Rules{DirectOfFormerTerms: true},
		},
		want: lacksShown,
	},
	"m: a direct message of a server without a vote": {
		Model: Model{
			Disks: 6, Voters: 5, Terms: 3, Log: 3, Writes: 1,
			Rules: Rules{SendsAhead: true, DirectOfOthers: true},
		},
		without: func(r *Rules) { r.DirectOfOthers = false },
		want:    lacksShown,
	},
	"m: the word about an entry of an earlier term, among five": {
		Model: Model{
			Disks: 5, Voters: 5, Terms: 5, Log: 4, Writes: 1,
			Rules: Rules{SaysOlder: true},
		},
		want: lacksShown,
	},
	"n: a follower acknowledges what it holds in memory": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 3, Log: 4, Writes: 2,
			Rules: Rules{AcksUndurable: true},
		},
		want: lacksShown,
	},
	"n: a follower commits by the leader's word what it holds in memory": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 3, Log: 4, Writes: 2,
			Rules: Rules{CommitsHeld: true},
		},
		want: lacksShown,
	},
	"n: a leader counts the disk of a voter that was removed": {
		Model: Model{
			Disks: 4, Voters: 4, Terms: 3, Log: 4, Writes: 2, Changes: 1,
			Rules: Rules{SendsAhead: true, CountsRemoved: true},
		},
		without: func(r *Rules) { r.CountsRemoved = false },
		want:    lacksShown,
	},
	"a restart forgets the vote": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 2, Log: 2, Writes: 1,
			Rules: Rules{ForgetsVotes: true},
		},
		want: twoLeaders,
	},
	"an old snapshot replaces a longer log": {
		Model: Model{
			Disks: 3, Voters: 3, Terms: 3, Log: 3, Writes: 2,
			Rules: Rules{ReplacesByOlder: true},
		},
		want: lacksShown,
	},
}

// deepMutants are those whose search takes minutes.
var deepMutants = map[string]mutant{
	"n: a leader counts what was acknowledged in an earlier term": {
		Model: Model{
			Disks: 5, Voters: 5, Terms: 5, Log: 3, Writes: 2,
			Rules: Rules{CountsFormerTerms: true},
		},
		want: lacksShown,
	},
}

// Without one of its rules, the protocol loses something. With the rule, it loses nothing within the same bounds. The trace is as
// short without symmetry, so states that count as the same are.
func TestMutants(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	for title, x := range mutants {
		t.Run(title, func(t *testing.T) { loses(t, x) })
	}
	if os.Getenv("ROLLCALL_MODEL") == "deep" {
		for title, x := range deepMutants {
			t.Run(title, func(t *testing.T) { loses(t, x) })
		}
	}
}

func loses(t *testing.T, x mutant) {
	t.Parallel()
	m := x.Model
	r := m.Run()
	if r.Loss != x.want.String() {
		t.Fatalf("%d states, loss: %q, want %q\n%s", r.States, r.Loss, x.want, strings.Join(r.Trace, "\n"))
	}
	t.Logf("%d states: %s\n%s", r.States, r.Loss, strings.Join(r.Trace, "\n"))
	plain := x.Model
	plain.Plain = true
	if p := plain.Run(); len(p.Trace) != len(r.Trace) {
		t.Errorf("without symmetry, %q after %d steps instead of %d", p.Loss, len(p.Trace), len(r.Trace))
	}
	if x.without == nil {
		x.without = func(r *Rules) { *r = Rules{} }
	}
	x.without(&x.Rules)
	if r := x.Run(); r.Loss != "" {
		t.Errorf("with the rule, it also loses: %s\n%s", r.Loss, strings.Join(r.Trace, "\n"))
	}
}

// A majority of the committed configuration may not be enough, as in every raft: one of its members may have the next
// configuration, which needs more of those that are left.
func TestMajorityOfCommittedIsNotEnough(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	m := Model{Disks: 4, Voters: 3, Terms: 3, Log: 4, Writes: 1, Changes: 1, Live: true, Fewer: true}
	r := m.Run()
	if r.Loss != noProgress.String() {
		t.Fatalf("%+v", r)
	}
	t.Logf("%s\n%s", r.Loss, strings.Join(r.Trace, "\n"))
}
