package judge

import "fmt"

var doubledWrites = judgeRule{
	name:    "doubled-writes",
	promise: "A write is carried out at most once, and not at all if it was rejected.",
	page:    "docs/sessions.md#change-of-leader",
	judge:   judgeDoubled,
}

// judgeDoubled judges all writes. Each sequential node has an ID of its own, so a create that was carried out twice
// left two nodes. Each write to a key raises its version by one, so the version is their number. A
// write without a reply may count once or not at all. No fault excuses more, so there is no slack.
func judgeDoubled(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no write was sent", []string{KindWrites, KindCreates}
	f.judged = len(e.Creates)
	for _, l := range e.Listings {
		names := l.countByID()
		for _, c := range e.Creates {
			most := 1
			if c.Outcome == Failed {
				most = 0
			}
			if n := names[c.ID]; n > most {
				f.addViolation(c.At, fmt.Sprintf("member %s has %d nodes of the create of %s, which was sent once; its outcome: %s",
					l.Member, n, c.ID, c.Outcome),
					append(e.faultLines(c.Sent, l.At), c.toLine(), lineAt(l.At, "member %s lists %d nodes", l.Member, n))...)
			}
		}
	}
	for i := range e.Keys {
		k := &e.Keys[i]
		f.judged += k.Acked + k.Unknown
		doubledInReplies(e, k, f)
		for _, final := range k.Finals {
			if most := k.Acked + k.Unknown; !final.Missing && int(final.Version) > most {
				f.addViolation(final.At, fmt.Sprintf("%s has version %d on member %s after %d writes", k.Path, final.Version,
					final.Member, most),
					append(e.faultLines(k.Last.Sent, final.At), k.Last.toLine(),
						lineAt(final.At, "member %s shows version %d after a sync; %d writes were acknowledged and %d have no reply",
							final.Member, final.Version, k.Acked, k.Unknown))...)
			}
		}
	}
	f.judgedAtEnd(e)
}

// doubledInReplies finds replies whose version rose by more than the writes in between explain.
func doubledInReplies(e *Evidence, k *Key, f *findings) {
	var last Put // the initial node has version 0
	unknown := 0
	for _, p := range k.Puts {
		switch p.Outcome {
		case Unknown:
			unknown++
		case Acked:
			if most := last.Version + int32(unknown) + 1; p.Version > most {
				f.addViolation(p.At,
					fmt.Sprintf("%s got version %d, and at most %d is explained: a write was carried out more than once", k.Path,
						p.Version, most),
					append(e.faultLines(last.Sent, p.At), last.toLine(), lineAt(p.Sent, "%d writes between have no reply", unknown),
						p.toLine())...)
			}
			last, unknown = p, 0
		case Failed:
		}
	}
}
