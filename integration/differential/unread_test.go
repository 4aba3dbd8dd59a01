package differential

import (
	"slices"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// setWatchesUnread removes events of ZooKeeper, and corrects its replies about watches, that come of a setWatches on nodes which the client
// may not read. Whether it may is not known here: it applies to paths that a list without the right for everybody has been set for.
func setWatchesUnread(p *pair) bool {
	if p.step.local() {
		for w := range p.unread {
			if w.slot == p.step.Slot {
				delete(p.unread, w)
			}
		}
		return false
	}
	if strings.HasPrefix(p.step.Do, "setWatches") {
		for _, list := range p.step.Lists[:min(len(p.step.Lists), oneShotLists)] {
			for _, path := range list {
				if path != nil && hasUnreadList(p.steps[:p.number], *path) {
					p.unread[watched{p.step.Slot, strconv.QuoteToASCII(string(*path))}] = true
				}
			}
		}
	}
	if p.step.Path != nil && (p.step.Do == "removeWatches" || p.step.Do == "checkWatches") {
		return p.unread[watched{p.step.Slot, strconv.QuoteToASCII(string(*p.step.Path))}] && p.answered(jute.OK, jute.NoWatcher)
	}
	before := len(p.zk)
	for i := 0; i < len(p.zk); i++ {
		l := p.zk[i]
		if l.kind == event && p.unread[watched{l.slot, l.path}] &&
			(i >= len(p.rc) || p.rc[i].kind != event || p.rc[i].path != l.path || p.rc[i].typ != l.typ) {
			p.zk = slices.Delete(p.zk, i, i+1)
			i--
		}
	}
	return len(p.zk) < before
}

// oneShotLists is the number of lists of a setWatches that come before the lists of persistent watches.
const oneShotLists = 3

// hasUnreadList reports whether a step creates the node, or sets its list, without the right to read for everybody.
func hasUnreadList(steps []step, path text) bool {
	return slices.ContainsFunc(steps, func(s step) bool {
		if s.Multi != nil {
			return hasUnreadList(s.Multi, path)
		}
		if s.ACL == nil || s.Path == nil || !strings.HasPrefix(string(path), string(*s.Path)) { // a sequential name is longer
			return false
		}
		return !slices.ContainsFunc(*s.ACL, func(a ace) bool { return a.Perms&int32(jute.PermRead) != 0 && a.Scheme != nil && *a.Scheme == "world" })
	})
}
