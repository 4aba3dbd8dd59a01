package judge

import (
	"cmp"
	"fmt"
	"slices"

	"rollcall/lab/result"
)

// Testimony is the knowledge of one member of Rollcall when the drill had ended. Clients cannot see it. Package witness
// collects it.
type Testimony struct {
	Member string `json:"member"`
	Silent string `json:"silent,omitempty"` // why it did not say anything; "": it did

	Digest   string `json:"digest,omitempty"` // its state beside that of most members: "agrees", "differs" or "unknown"
	DigestAt uint64 `json:"digestAt,omitempty"`
	Leads    []Lead `json:"leads,omitempty"` // the last terms that it has applied
	Ends     []End  `json:"ends,omitempty"`  // those of the drill's time that it remembers, in the order of the log
	// Forgotten is the number of ends of the drill's time that it does not remember any more.
	Forgotten uint64   `json:"forgotten,omitempty"`
	Live      []string `json:"live,omitempty"`     // the ids of the sessions that it has
	LiveMore  bool     `json:"liveMore,omitempty"` // Live is not complete
}

// Lead is a word on which member led in a term.
type Lead struct {
	Term   uint64 `json:"term"`
	Leader uint32 `json:"leader"`
}

// End is the end of a session in the log, as a member applied it. Two members that have the same end have the same
// values in all fields.
type End struct {
	Number     uint64        `json:"number"` // counts the ends in the log
	Session    string        `json:"session"`
	Reason     string        `json:"reason"` // "closed", "expired" or "killed"
	By         string        `json:"by,omitempty"`
	At         string        `json:"at"` // the log's time
	Zxid       int64         `json:"zxid"`
	Lead                     // when it ended
	Silent     result.Millis `json:"silentMs"` // since the leader last heard from the session; 0 if its client closed it
	Timeout    result.Millis `json:"timeoutMs"`
	Ephemerals int           `json:"ephemerals"`
}

func (d End) String() string {
	text := fmt.Sprintf("session %s %s at %s, zxid %#x, in term %d of member %d; silent for %.0f ms of %.0f ms", d.Session,
		d.Reason, d.At, d.Zxid, d.Term, d.Leader, float64(d.Silent), float64(d.Timeout))
	if d.By != "" {
		text += ", by " + d.By
	}
	return text
}

// lineOfEnd returns the member's record of an end as a line of history.
func (t *Testimony) lineOfEnd(e *Evidence, d End) historyLine {
	return lineAt(e.End, "member %s: %s", t.Member, d)
}

// answeringMembers returns the members that said something, and notes in f why the others did not.
func (e *Evidence) answeringMembers(f *findings) (all []*Testimony) {
	for i := range e.Testimonies {
		t := &e.Testimonies[i]
		if t.Silent != "" {
			f.reason = joinSentences(f.reason, fmt.Sprintf("member %s was not asked: %s", t.Member, t.Silent))
			continue
		}
		all = append(all, t)
	}
	if len(e.Testimonies) == 0 {
		f.nothingJudged = "no member's HTTP for operators is known"
	}
	return all
}

// firstEnds returns the end of each session, as the first member that remembers it has it.
func firstEnds(all []*Testimony) (byID map[string]End, from map[string]*Testimony) {
	byID, from = map[string]End{}, map[string]*Testimony{}
	for _, t := range all {
		for _, d := range t.Ends {
			if from[d.Session] == nil {
				byID[d.Session], from[d.Session] = d, t
			}
		}
	}
	return byID, from
}

// TwoLeaders returns the terms in which more than one member led, each with its leaders, in order.
func TwoLeaders(said []Lead) (terms [][]Lead) {
	for _, leads := range groupBy(said, func(l Lead) uint64 { return l.Term }) {
		slices.SortFunc(leads, func(a, b Lead) int { return cmp.Compare(a.Leader, b.Leader) })
		if leads = slices.Compact(leads); len(leads) > 1 {
			terms = append(terms, leads)
		}
	}
	return terms
}
