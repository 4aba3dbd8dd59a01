package differential

import (
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// deviation is one operation to which Rollcall, under one condition, replies differently from 3.8.0.
type deviation struct {
	row string // the first cell of its row in docs/deviations.md
	// exact says that nothing is masked: both sides are checked, each by a rule of its own.
	exact bool
	// apply changes ZooKeeper's answer to that of 3.9.5, or removes what cannot be compared. It
	// does so if the condition holds and both sides answered as the row says.
	apply func(p *pair) bool
}

// deviations is the table of all deviations.
var deviations = []deviation{
	{row: "zxid in the header of a watch event", exact: true, apply: eventZxid},
	{row: "`exists` of a node that the client may not read, with a watch or without", apply: existsUnread},
	{row: "`setWatches` on a node that the client may not read", apply: setWatchesUnread},
	{row: "single write that cannot be decoded", exact: true, apply: func(p *pair) bool {
		return p.step.Cut > 0 && p.step.Multi == nil && p.step.op().IsWrite() && p.lose(jute.MarshallingError, jute.MarshallingError)
	}},
	{row: "`removeWatches` and `checkWatches`, types 4 and 5", apply: func(p *pair) bool {
		return (p.step.Do == "checkWatches" || p.step.Do == "removeWatches") && (p.step.Kind == 4 || p.step.Kind == 5) &&
			(p.answered(jute.MarshallingError, jute.NoWatcher) || p.answered(jute.MarshallingError, jute.OK))
	}},
	{row: "`checkWatches` on a path that another connection watches", apply: func(p *pair) bool {
		return p.step.Do == "checkWatches" && p.watchedByOthers() && p.answered(jute.OK, jute.NoWatcher)
	}},
	{row: "`multi` with a null path inside", apply: func(p *pair) bool {
		return p.multi(jute.OpMulti, func(s step) bool { return s.Path == nil }) && p.spoilt()
	}},
	{row: "`create2` inside a `multi`", apply: func(p *pair) bool {
		return p.shorter(func(s step) bool { return s.Do == "create2" && s.Flags != 4 })
	}},
	{row: "`createContainer` inside a `multi`, with flag 0 or 2", apply: func(p *pair) bool {
		return p.shorter(func(s step) bool { return s.Do == "createContainer" && s.Flags != 4 })
	}},
	{row: "`multi`: null ACL list", apply: func(p *pair) bool {
		return p.multi(jute.OpMulti, func(s step) bool {
			return s.ACL == nil && (s.Do == "create" || s.Do == "create2" || s.Do == "createContainer")
		}) && (p.failedInside() || p.answered(jute.MarshallingError, jute.MarshallingError)) && p.takeZxid()
	}},
	{row: "`multi`: create with an unknown flag", apply: func(p *pair) bool {
		return p.multi(jute.OpMulti, func(s step) bool { return s.Flags < 0 || s.Flags > 6 }) && p.failedInside()
	}},
	{row: "`multi`: TTL flag in a plain create", apply: func(p *pair) bool {
		return p.multi(jute.OpMulti, func(s step) bool { return s.Do != "createTTL" && (s.Flags == 5 || s.Flags == 6) }) && p.failedInside()
	}},
}

// last returns both replies to the step.
func (p *pair) last() (zk, rc *line, ok bool) {
	find := func(lines []line) *line {
		for i := range lines {
			if lines[i].kind == reply {
				return &lines[i]
			}
		}
		return nil
	}
	zk, rc = find(p.zk), find(p.rc)
	return zk, rc, zk != nil && rc != nil
}

// lose handles a write that ZooKeeper rejected with zkCode and a zxid, and Rollcall with rcCode and no zxid.
func (p *pair) lose(zkCode, rcCode jute.Code) bool {
	zk, rc, ok := p.last()
	if !ok || zk.code != zkCode || rc.code != rcCode {
		return false
	}
	p.lost[zk.zxid] = true
	zk.code = rcCode
	return true
}

// answered makes two different codes equal.
func (p *pair) answered(zkCode, rcCode jute.Code) bool {
	zk, rc, ok := p.last()
	if !ok || zk.code != zkCode || rc.code != rcCode {
		return false
	}
	zk.code, zk.body = rc.code, rc.body
	return true
}

// watchedByOthers reports whether another slot has ever watched the step's path.
func (p *pair) watchedByOthers() bool {
	for _, s := range p.steps[:p.number] {
		if s.Slot != p.step.Slot && s.watches(p.step.Path) {
			return true
		}
	}
	return false
}

// takeZxid records that Rollcall gave out no zxid for this step.
func (p *pair) takeZxid() bool {
	zk, _, ok := p.last()
	if ok {
		p.lost[zk.zxid] = true
	}
	return ok
}

// multi reports whether the step is a multi with an operation op that satisfies such.
func (p *pair) multi(op jute.Op, such func(s step) bool) bool {
	if p.step.op() != op || p.step.Cut > 0 {
		return false
	}
	for _, s := range p.step.Multi {
		if such(s) {
			return true
		}
	}
	return false
}

// failedInside handles a multi in which, for ZooKeeper, an operation failed, and which is malformed
// for Rollcall.
func (p *pair) failedInside() bool {
	zk, rc, ok := p.last()
	if !ok || zk.code != jute.OK || rc.code != jute.MarshallingError || len(rc.body) > 0 || len(zk.body) == 0 ||
		!strings.HasPrefix(zk.body[0].text, "-1 ") {
		return false
	}
	zk.code, zk.body = rc.code, nil
	return true
}

// spoilt handles a multi that is malformed for both. ZooKeeper replies to it with an end mark, and does not show its
// zxid.
func (p *pair) spoilt() bool {
	zk, rc, ok := p.last()
	if !ok || zk.code != jute.MarshallingError || rc.code != jute.MarshallingError || len(rc.body) > 0 {
		return false
	}
	zk.body = nil
	p.lost[zk.zxid+1] = true
	p.extra[rc.zxid] = true
	return true
}

// eventZxid handles the zxid of events. In ZooKeeper it is always -1. In Rollcall it is the zxid of a write that
// succeeded, or -1 for an event that setWatches delivers late.
func eventZxid(p *pair) bool {
	seen := false
	for i := range p.zk {
		if p.zk[i].kind != event || p.zk[i].zxid != -1 || i >= len(p.rc) || p.rc[i].kind != event {
			continue
		}
		z := p.rc[i].zxid
		_, ok := p.changes[z]
		for _, l := range p.rc[i:] {
			ok = ok && (l.zxid >= z || l.kind == event || l.zxid <= 0)
		}
		if z == -1 && strings.HasPrefix(p.step.Do, "setWatches") {
			ok = true
		}
		if ok {
			p.zk[i].zxid, p.rc[i].zxid = 0, 0
			seen = true
		}
	}
	return seen
}

func existsUnread(p *pair) bool {
	if p.step.local() {
		for w := range p.hidden {
			if w.slot == p.step.Slot {
				delete(p.hidden, w)
			}
		}
		return false
	}
	if zk, rc, ok := p.last(); ok && p.step.Do == "exists" && zk.code == jute.OK && rc.code == jute.NoAuth {
		zk.code, zk.body = rc.code, nil
		if p.step.Watch && p.step.Path != nil {
			p.hidden[watched{p.step.Slot, strconv.QuoteToASCII(string(*p.step.Path))}] = true
		}
		return true
	}
	if p.step.Path != nil && (p.step.Do == "removeWatches" || p.step.Do == "checkWatches") {
		w := watched{p.step.Slot, strconv.QuoteToASCII(string(*p.step.Path))}
		if p.hidden[w] && p.step.Kind != 1 && p.answered(jute.OK, jute.NoWatcher) {
			if p.step.Do == "removeWatches" {
				delete(p.hidden, w)
			}
			return true
		}
	}
	masked := false
	for i := 0; i < len(p.zk); i++ {
		l := &p.zk[i]
		w := watched{l.slot, l.path}
		if l.kind != event || !p.hidden[w] || l.typ == jute.EventNodeChildrenChanged {
			continue
		}
		delete(p.hidden, w)
		if i >= len(p.rc) || p.rc[i].kind != event || p.rc[i].path != l.path || p.rc[i].typ != l.typ {
			p.zk = append(p.zk[:i], p.zk[i+1:]...)
			masked = true
			i--
		}
	}
	return masked
}

// shorter handles creates in a multi to which ZooKeeper replies with the path only. It removes the Stat from Rollcall's
// reply; the Stat is compared when the sequence is over.
func (p *pair) shorter(such func(s step) bool) bool {
	if !p.multi(jute.OpMulti, such) {
		return false
	}
	zk, rc, ok := p.last()
	if !ok || zk.code != jute.OK || rc.code != jute.OK || len(zk.body) == 0 || strings.HasPrefix(zk.body[0].text, "-1 ") {
		return false
	}
	const result, statPieces = "result", 11
	sub := -1
	var short []piece
	for i := 0; i < len(rc.body); i++ {
		if rc.body[i].name == result {
			sub++
			if sub < len(p.step.Multi) && such(p.step.Multi[sub]) && rc.body[i].text == "15 0" && i+1+statPieces < len(rc.body) {
				short = append(short, piece{name: result, text: "1 0"}, rc.body[i+1])
				i += 1 + statPieces
				continue
			}
		}
		short = append(short, rc.body[i])
	}
	rc.body = short
	return true
}
