package judge

import (
	"fmt"
	"slices"

	"rollcall/lab/result"
)

var backupComplete = judgeRule{
	name:    "backup-complete",
	promise: "A backup has every write that was acknowledged before it began, and none that was sent after it ended. All members of the restored ensemble show it.",
	page:    "docs/backup.md#how-fresh-it-is",
	judge:   func(e *Evidence, _ Limits, f *findings) { judgeCopies(e, Restored, f) },
	applies: func(e *Evidence) bool { return len(e.copiesOfKind(Restored)) > 0 },
}

var joinedComplete = judgeRule{
	name:    "joined-complete",
	promise: "A member that came in has every write that was acknowledged before its clients read.",
	page:    "docs/members.md#add-a-member",
	judge:   func(e *Evidence, _ Limits, f *findings) { judgeCopies(e, Joined, f) },
	applies: func(e *Evidence) bool { return len(e.copiesOfKind(Joined)) > 0 },
}

func (e *Evidence) copiesOfKind(kind CopyKind) []Copy {
	return slices.DeleteFunc(slices.Clone(e.Copies), func(c Copy) bool { return c.Kind != kind })
}

// judgeCopies judges what copies have of the keys and of the created nodes. No fault excuses what they lack, so there is
// no slack: a copy may or may not have what was under way between its two times.
func judgeCopies(e *Evidence, kind CopyKind, f *findings) {
	f.nothingJudged, f.kinds = "no write was acknowledged before the copy was made", []string{KindWrites, KindCreates}
	all := e.copiesOfKind(kind)
	for _, c := range all {
		for _, copied := range c.Keys {
			at := slices.IndexFunc(e.Keys, func(k Key) bool { return k.Path == copied.Path })
			if at < 0 {
				continue
			}
			first, last := e.Keys[at].writesAround(c)
			if first.At == 0 && last.Sent == 0 {
				continue
			}
			f.judged++
			f.judgeCopiedKey(e, c, copied, first, last)
		}
		f.judgeCopiedNodes(e, c)
	}
	for _, c := range all[min(1, len(all)):] {
		f.compareCopies(all[0], c)
	}
}

// writesAround returns the last write of a key that a copy must have, and the last one that it may have. One that was
// acknowledged at the very time at which the copy began is not needed: their order is unknown.
func (k *Key) writesAround(c Copy) (must, may Put) {
	for _, p := range k.Puts {
		if p.Outcome == Acked && p.At < c.From {
			must = p
		}
		if p.Outcome != Failed && p.Sent <= c.To {
			may = p
		}
	}
	return must, may
}

func (f *findings) judgeCopiedKey(e *Evidence, c Copy, copied CopiedKey, must, may Put) {
	shows := fmt.Sprintf("member %s shows %s", copied.Member, copied.Final)
	made := lineAt(c.From, "the copy begins, and ends at %s", formatTime(c.To))
	switch {
	case copied.Missing || copied.Value < must.Value:
		f.addViolation(c.From, fmt.Sprintf("%s: the write of %d was acknowledged before, and %s", copied.Path, must.Value, shows),
			append(e.faultLines(must.Sent, c.To), must.toLine(), made, lineAt(copied.At, "%s", shows))...)
	case copied.Value > may.Value && e.Dropped[KindWrites] == 0:
		f.addViolation(c.From, fmt.Sprintf("%s: the write of %d was the last one that was sent before the end, and %s", copied.Path, may.Value, shows),
			may.toLine(), made, lineAt(copied.At, "%s", shows))
	}
}

func (f *findings) judgeCopiedNodes(e *Evidence, c Copy) {
	names := c.Listing.countByID()
	for _, create := range e.Creates {
		has := names[create.ID] > 0
		switch {
		case create.Outcome == Acked && create.At < c.From:
			f.judged++
			if !has {
				f.addViolation(create.At, fmt.Sprintf("%s was created before, and member %s does not have it", create.Name, c.Listing.Member),
					append(e.faultLines(create.Sent, c.To), create.toLine(), lineAt(c.From, "the copy begins, and ends at %s", formatTime(c.To)))...)
			}
		case has && create.Sent > c.To:
			f.addViolation(create.At, fmt.Sprintf("the create of %s was sent after the end, and member %s has it", create.ID, c.Listing.Member),
				create.toLine(), lineAt(c.From, "the copy begins, and ends at %s", formatTime(c.To)))
		}
	}
}

// compareCopies finds differences between two copies of one state.
func (f *findings) compareCopies(a, b Copy) {
	if a.From != b.From || a.To != b.To {
		return
	}
	differ := func(what string, t result.Millis) {
		f.addViolation(t, fmt.Sprintf("members %s and %s got the same copy, and differ in %s", a.Listing.Member, b.Listing.Member, what),
			lineAt(a.From, "the copy begins, and ends at %s", formatTime(a.To)), lineAt(t, "member %s is read", b.Listing.Member))
	}
	for i := range a.Keys {
		if x, y := a.Keys[i], b.Keys[i]; x.Value != y.Value || x.Version != y.Version || x.Missing != y.Missing {
			differ(x.Path, y.At)
		}
	}
	if x, y := slices.Sorted(slices.Values(a.Listing.Names)), slices.Sorted(slices.Values(b.Listing.Names)); !slices.Equal(x, y) {
		differ("the created nodes", b.Listing.At)
	}
}
