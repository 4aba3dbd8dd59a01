package judge

import (
	"fmt"
	"slices"

	"rollcall/operator/drill/result"
)

var backupComplete = rule{
	name:    "backup-complete",
	promise: "A backup has every write that was acknowledged before it began, and none that was sent after it ended. All members of the restored ensemble show it.",
	page:    "docs/backup.md#how-fresh-it-is",
	judge:   func(e *Evidence, _ Limits, f *finding) { judgeCopies(e, Restored, f) },
	applies: func(e *Evidence) bool { return e.copies(Restored) != nil },
}

var joinedComplete = rule{
	name:    "joined-complete",
	promise: "A member that came in has every write that was acknowledged before its clients read.",
	page:    "docs/members.md#add-a-member",
	judge:   func(e *Evidence, _ Limits, f *finding) { judgeCopies(e, Joined, f) },
	applies: func(e *Evidence) bool { return e.copies(Joined) != nil },
}

func (e *Evidence) copies(kind CopyKind) (all []Copy) {
	for _, c := range e.Copies {
		if c.Kind == kind {
			all = append(all, c)
		}
	}
	return all
}

// judgeCopies judges what copies have of the keys and of the created nodes. No fault excuses what they lack, so there is
// no slack: a copy may or may not have what was under way between its two times.
func judgeCopies(e *Evidence, kind CopyKind, f *finding) {
	f.none, f.kinds = "no write was acknowledged before the copy was made", []string{KindWrites, KindCreates}
	all := e.copies(kind)
	for _, c := range all {
		for _, copied := range c.Keys {
			at := slices.IndexFunc(e.Keys, func(k Key) bool { return k.Path == copied.Path })
			if at < 0 {
				continue
			}
			first, last := e.Keys[at].within(c)
			if first.At == 0 && last.Sent == 0 {
				continue
			}
			f.judged++
			f.copiedKey(e, c, copied, first, last)
		}
		f.copiedNodes(e, c)
	}
	for _, c := range all[min(1, len(all)):] {
		f.sameCopy(all[0], c)
	}
}

// within returns the last write of a key that a copy must have, and the last one that it may have. One that was
// acknowledged at the very time at which the copy began is not needed: nobody knows which was first.
func (k *Key) within(c Copy) (must, may Put) {
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

func (f *finding) copiedKey(e *Evidence, c Copy, copied CopiedKey, must, may Put) {
	shows := fmt.Sprintf("member %s shows %d, version %d", copied.Member, copied.Value, copied.Version)
	if copied.Missing {
		shows = fmt.Sprintf("member %s shows no node", copied.Member)
	}
	made := at(c.From, "the copy begins, and ends at %s", clock(c.To))
	switch {
	case copied.Missing || copied.Value < must.Value:
		f.broken(c.From, fmt.Sprintf("%s: the write of %d was acknowledged before, and %s", copied.Path, must.Value, shows),
			append(e.around(must.Sent, c.To), must.line(), made, at(copied.At, "%s", shows))...)
	case copied.Value > may.Value && e.Dropped[KindWrites] == 0:
		f.broken(c.From, fmt.Sprintf("%s: the write of %d was the last one that was sent before the end, and %s", copied.Path, may.Value, shows),
			may.line(), made, at(copied.At, "%s", shows))
	}
}

func (f *finding) copiedNodes(e *Evidence, c Copy) {
	names := c.Listing.ids()
	for _, create := range e.Creates {
		has := names[create.ID] > 0
		switch {
		case create.Outcome == Acked && create.At < c.From:
			f.judged++
			if !has {
				f.broken(create.At, fmt.Sprintf("%s was created before, and member %s does not have it", create.Name, c.Listing.Member),
					append(e.around(create.Sent, c.To), create.line(), at(c.From, "the copy begins, and ends at %s", clock(c.To)))...)
			}
		case has && create.Sent > c.To:
			f.broken(create.At, fmt.Sprintf("the create of %s was sent after the end, and member %s has it", create.ID, c.Listing.Member),
				create.line(), at(c.From, "the copy begins, and ends at %s", clock(c.To)))
		}
	}
}

// sameCopy finds differences between two copies of one state.
func (f *finding) sameCopy(a, b Copy) {
	if a.From != b.From || a.To != b.To {
		return
	}
	differ := func(what string, t result.Millis) {
		f.broken(t, fmt.Sprintf("members %s and %s got the same copy, and differ in %s", a.Listing.Member, b.Listing.Member, what),
			at(a.From, "the copy begins, and ends at %s", clock(a.To)), at(t, "member %s is read", b.Listing.Member))
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
