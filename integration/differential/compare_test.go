package differential

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// verdict is the result of comparing two transcripts of one sequence.
type verdict struct {
	step   int    // the first step that differs; -1: none
	text   string // the difference
	silent bool   // ZooKeeper did not answer there
	lines  []line // Rollcall's lines during the steps
	masked map[*deviation]map[int]bool
}

// comparison compares the replies to one sequence, step by step.
type comparison struct {
	steps   []step
	zk, rc  *transcript
	zxids   zxids
	lost    map[int64]bool   // zxids of ZooKeeper that Rollcall does not give out
	extra   map[int64]bool   // zxids of Rollcall that ZooKeeper does not show
	hidden  map[watched]bool // watches that only ZooKeeper has set
	unread  map[watched]bool // of setWatches, perhaps on nodes that the client may not read
	changes map[int64]bool   // Rollcall's zxids of writes that succeeded; true: the end of a session
}

// watched is a path that a slot watches.
type watched struct {
	slot int
	path string
}

// compare compares the two transcripts. Where the table of deviations applies, it works on copies
// that say what 3.9.5 would have said.
func compare(zk, rc *transcript) verdict {
	c := &comparison{
		steps: zk.steps, zk: zk, rc: rc,
		lost: map[int64]bool{}, extra: map[int64]bool{}, hidden: map[watched]bool{}, unread: map[watched]bool{}, changes: map[int64]bool{},
	}
	for _, l := range rc.lines {
		if l.kind == reply && l.code == 0 && l.step < len(c.steps) && c.steps[l.step].op().IsWrite() {
			c.changes[l.zxid] = c.steps[l.step].Do == "closeSession"
		}
	}
	inSteps := slices.DeleteFunc(slices.Clone(rc.lines), func(l line) bool { return l.step >= len(rc.steps) })
	v := verdict{step: -1, lines: inSteps, masked: map[*deviation]map[int]bool{}}
	a, b := byStep(zk), byStep(rc)
	for i := range max(len(a), len(b)) {
		p := pair{comparison: c, step: step{Do: "end"}, number: i, zk: clone(a[i]), rc: clone(b[i])}
		if i < len(c.steps) {
			p.step = c.steps[i]
		}
		p.sortEnds()
		for k := range deviations {
			if d := &deviations[k]; d.apply(&p) {
				if v.masked[d] == nil {
					v.masked[d] = map[int]bool{}
				}
				v.masked[d][i] = true
			}
		}
		if text := p.differ(); text != "" {
			v.step, v.text = i, text
			v.silent = slices.ContainsFunc(p.zk, func(l line) bool { return l.kind == silence })
			return v
		}
	}
	return v
}

// byStep returns the lines of each step, and of the two walks at the end.
func byStep(t *transcript) [][]line {
	out := make([][]line, len(t.steps)+2)
	for _, l := range t.lines {
		out[l.step] = append(out[l.step], l)
	}
	return out
}

func clone(lines []line) []line {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i].body = slices.Clone(lines[i].body)
	}
	return lines
}

// pair is the lines of both sides at one step.
type pair struct {
	*comparison
	step   step
	number int
	zk, rc []line
}

// sortEnds sorts the events of a session's end, because its ephemeral nodes are deleted in no fixed
// order.
func (p *pair) sortEnds() {
	for i := 0; i < min(len(p.zk), len(p.rc)); {
		j := i
		for j < min(len(p.zk), len(p.rc)) && p.zk[j].kind == event && p.rc[j].kind == event && p.rc[j].zxid == p.rc[i].zxid {
			j++
		}
		if p.rc[i].kind == event && p.changes[p.rc[i].zxid] {
			for _, run := range [][]line{p.zk[i:j], p.rc[i:j]} {
				slices.SortStableFunc(run, func(a, b line) int {
					return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(a.path, b.path))
				})
			}
		}
		i = max(j, i+1)
	}
}

// differ compares line by line and describes the difference.
func (p *pair) differ() string {
	var b strings.Builder
	for k := range max(len(p.zk), len(p.rc)) {
		if k < len(p.zk) && k < len(p.rc) && p.equal(&p.zk[k], &p.rc[k]) {
			continue
		}
		fmt.Fprintf(&b, "step %d: %v\n", p.number, p.step)
		for _, side := range []struct {
			name  string
			lines []line
			rank  func(int64) string
		}{{"ZooKeeper", p.zk, p.comparison.zk.rank}, {"Rollcall", p.rc, p.comparison.rc.rank}} {
			what := "nothing more"
			if k < len(side.lines) {
				what = side.lines[k].print(side.rank)
			}
			fmt.Fprintf(&b, "  %-9s %s\n", side.name, what)
		}
		return b.String()
	}
	return ""
}

func (p *pair) equal(a, b *line) bool {
	if a.slot != b.slot || a.kind != b.kind || a.code != b.code || a.typ != b.typ || a.path != b.path ||
		len(a.body) != len(b.body) || !p.same(a.zxid, b.zxid) {
		return false
	}
	for i := range a.body {
		x, y := a.body[i], b.body[i]
		if x.name != y.name || x.text != y.text || !p.same(x.zxid, y.zxid) {
			return false
		}
	}
	return true
}

// same compares zxids. A zxid that only one side gives out counts as the one before it.
func (c *comparison) same(zk, rc int64) bool {
	for c.lost[zk] {
		zk--
	}
	for c.extra[rc] {
		rc--
	}
	return c.zxids.same(zk, rc)
}

// zxids are pairs of ZooKeeper's zxids, in order, and Rollcall's counterparts. The order must be
// the same on both sides.
type zxids struct{ pairs [][2]int64 }

// same reports whether a and b can be counterparts, given all earlier pairs, and adds them.
func (z *zxids) same(a, b int64) bool {
	if a <= 0 || b <= 0 {
		return a == b
	}
	at, known := slices.BinarySearchFunc(z.pairs, a, func(p [2]int64, a int64) int {
		return int(min(1, max(-1, p[0]-a)))
	})
	switch {
	case known:
		return z.pairs[at][1] == b
	case at > 0 && z.pairs[at-1][1] >= b, at < len(z.pairs) && z.pairs[at][1] <= b:
		return false
	}
	z.pairs = slices.Insert(z.pairs, at, [2]int64{a, b})
	return true
}
