package judge

import "fmt"

var readsBack = judgeRule{
	name:    "reads-back",
	promise: "A read never shows less than its session has seen before, and after a sync nothing older than the sync.",
	page:    "docs/guide/client.md#nodes",
	judge:   judgeReads,
}

// judgeReads judges reads in the order of their answers in one session, over all members that it was connected to. The
// version and transaction of a node, and the transaction of the replies, must not fall, and the value must be at least
// Read.Floor. No fault excuses an older one: a member that is behind must not answer. There is no slack.
func judgeReads(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no read was answered", []string{KindReads}
	for _, reads := range groupBy(e.Reads, func(r Read) string { return r.Session }) {
		f.judged += len(reads)
		byPath, last := map[string]Read{}, Read{}
		for _, r := range reads {
			before, seen := byPath[r.Path]
			lines := func(earlier Read) []historyLine {
				return append(e.faultLines(earlier.At, r.At), earlier.toLine(), r.toLine())
			}
			switch {
			case seen && (r.Version < before.Version || r.Mzxid < before.Mzxid):
				f.addViolation(r.At, fmt.Sprintf("session %s read version %d of %s after version %d", r.Session, r.Version, r.Path,
					before.Version), lines(before)...)
			case r.Zxid != 0 && last.Zxid > r.Zxid:
				f.addViolation(r.At, fmt.Sprintf("session %s got a reply of transaction 0x%x after one of 0x%x", r.Session, r.Zxid,
					last.Zxid), lines(last)...)
			case r.Value < r.Floor && r.Synced:
				f.addViolation(r.At, fmt.Sprintf("session %s read %d of %s after a sync; %d was acknowledged before the sync", r.Session,
					r.Value, r.Path, r.Floor),
					append(e.faultLines(r.Sent, r.At), e.putLine(r.Path, r.Floor), r.toLine())...)
			case r.Value < r.Floor:
				f.addViolation(r.At, fmt.Sprintf("session %s read %d of %s and had written %d before", r.Session, r.Value, r.Path,
					r.Floor),
					append(e.faultLines(r.Sent, r.At), e.putLine(r.Path, r.Floor), r.toLine())...)
			}
			byPath[r.Path] = r
			if r.Zxid != 0 {
				last = r
			}
		}
	}
}

func (r Read) toLine() historyLine {
	text := ""
	if r.Zxid != 0 {
		text = fmt.Sprintf(", reply of transaction 0x%x", r.Zxid)
	}
	return lineAt(r.At, "session %s reads %s on %s, sent at %s: %d, version %d, written by 0x%x%s",
		r.Session, r.Path, memberName(r.Member), formatTime(r.Sent), r.Value, r.Version, r.Mzxid, text)
}

// putLine returns the line of the write of a value.
func (e *Evidence) putLine(path string, value int64) historyLine {
	for i := range e.Keys {
		if e.Keys[i].Path != path {
			continue
		}
		for _, p := range e.Keys[i].Puts {
			if p.Value == value {
				return p.toLine()
			}
		}
	}
	return lineAt(0, "the write of %d is not in the records that were kept", value)
}
