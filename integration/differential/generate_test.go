package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"
)

// These are not generated, because ZooKeeper 3.8.0 would spoil the rest of a sequence or itself, or
// because chance would decide:
//
//   - check outside a multi: ZooKeeper cannot read its log again;
//   - deleteContainer and createSession: ZooKeeper obeys them;
//   - createTTL with a mode without TTL and a negative TTL: ZooKeeper stops;
//   - a wrong password while the session is connected: ZooKeeper closes that connection;
//   - a second resume over an open connection: ZooKeeper's table of connections may then be wrong;
//   - text that is not UTF-8 where it could succeed: ZooKeeper keeps replacement characters;
//   - a null after other lists or paths of setWatches: ZooKeeper has processed the ones before it;
//   - IPv6 in ACLs: the node would exist on one side only;
//   - sasl: it succeeds on ZooKeeper, and proves nothing;
//   - addWatch with a null path: ZooKeeper then forgets to close the connection;
//   - checkWatches on a path without a slash: ZooKeeper cannot go up from there;
//   - several kinds of watches of one connection on one path, and the removal of watches of one
//     kind where there is another: in ZooKeeper the last kind replaces the others, and is removed;
//   - what a client writes into a quota's usage node: ZooKeeper counts on from it;
//   - auth, unknown operations and closeSession sent together with other requests: their replies
//     overtake others, or are lost with the connection;
//   - setACL and multi sent together with others, and any write below a hard limit: chance decides
//     against which state they are checked.

// These are the lengths of sequences.
const (
	minSteps = 30
	maxSteps = 60
)

// generator generates sequences. It roughly follows the effect of the steps, so that many of them
// hit something.
type generator struct {
	*rand.Rand
	slots [slots]genSlot
	nodes map[string]genNode // by path: nodes that probably exist
	made  map[string]int     // number of creates below a path
	quota bool               // there is a quota
	hard  bool               // the quota has a hard limit
	steps []step
}

type genSlot struct {
	open, session bool
	dropped       bool                // the session has been resumed, or will be
	watches       map[text]genWatches // by path: set on this connection, and perhaps gone
}

// genWatches is the way in which a connection watches a path: in one way only, because 3.8.0 forgets the others.
type genWatches int

const (
	unwatched genWatches = iota
	once
	persistent
	recursive
)

// may reports whether the slot may watch a path in this way, and if so records it.
func (s *genSlot) may(path *text, how genWatches) bool {
	if path == nil {
		return true
	}
	if w := s.watches[*path]; w != unwatched && w != how {
		return false
	}
	if s.watches == nil {
		s.watches = map[text]genWatches{}
	}
	s.watches[*path] = how
	return true
}

type genNode struct {
	owner int // slot; -1: persistent
}

// generate returns the sequence of a seed.
func generate(seed uint64) []step {
	g := &generator{
		Rand:  rand.New(rand.NewPCG(seed, 1)),
		nodes: map[string]genNode{top: {owner: -1}}, made: map[string]int{},
	}
	for c := range 1 + g.IntN(3) {
		g.open(c)
	}
	for n := minSteps + g.IntN(maxSteps-minSteps+1); len(g.steps) < n; {
		g.step(g.IntN(slots))
	}
	return g.steps
}

// choice is a kind of step and how often it comes.
type choice struct {
	weight int
	make   func(g *generator, c int)
}

var choices = []choice{
	{170, (*generator).create},
	{80, (*generator).delete},
	{80, (*generator).setData},
	{60, func(g *generator, c int) { g.look(c, "exists") }},
	{70, func(g *generator, c int) { g.look(c, "getData") }},
	{50, func(g *generator, c int) { g.look(c, "getChildren") }},
	{60, func(g *generator, c int) { g.look(c, "getChildren2") }},
	{30, func(g *generator, c int) { g.add(step{Slot: c, Do: "getACL", Path: g.path()}) }},
	{45, (*generator).setACL},
	{90, (*generator).multi},
	{25, (*generator).multiRead},
	{15, func(g *generator, c int) { g.add(step{Slot: c, Do: "sync", Path: g.path()}) }},
	{10, func(g *generator, c int) { g.add(step{Slot: c, Do: "ping"}) }},
	{30, (*generator).auth},
	{12, func(g *generator, c int) { g.add(step{Slot: c, Do: "whoAmI"}) }},
	{20, (*generator).ephemerals},
	{20, func(g *generator, c int) { g.add(step{Slot: c, Do: "getAllChildrenNumber", Path: g.path()}) }},
	{25, (*generator).setWatches},
	{25, (*generator).addWatch},
	{25, (*generator).removeWatches},
	{6, (*generator).quotas},
	{30, (*generator).dropAndResume},
	{6, (*generator).takeOver},
	{15, (*generator).closeSession},
	{10, (*generator).openAnew},
	{5, (*generator).nonsense},
	{40, (*generator).together},
	{3, (*generator).cutShort},
	{1, func(g *generator, c int) { g.add(step{Slot: c, Do: "reconfig"}) }},
}

var choiceSum = func() (sum int) {
	for _, c := range choices {
		sum += c.weight
	}
	return sum
}()

// step adds at least one step, of slot c.
func (g *generator) step(c int) {
	if !g.slots[c].open {
		switch {
		case g.slots[c].session && g.IntN(2) == 0:
			g.resume(c)
			return
		case g.IntN(4) == 0:
			g.open(c)
			return
		}
		for c = 0; c < slots && !g.slots[c].open; c++ {
		}
		if c == slots {
			g.open(0)
			return
		}
	}
	n := g.IntN(choiceSum)
	for _, ch := range choices {
		if n -= ch.weight; n < 0 {
			ch.make(g, c)
			return
		}
	}
}

func (g *generator) add(s step) { g.steps = append(g.steps, s) }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// existing returns a path that probably exists.
func (g *generator) existing() string {
	paths := make([]string, 0, len(g.nodes))
	for p := range g.nodes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return pick(g, paths...)
}

// fresh returns a path below an existing node. There are few names, so that most are taken at
// times.
func (g *generator) fresh() string {
	parent := g.existing()
	if strings.Count(parent, "/") > 3 {
		parent = top
	}
	return parent + "/" + pick(g, "a", "b", "c", "n-", "é", "x y")
}

// oddPaths are mostly invalid paths.
var oddPaths = []string{
	top + "/", top + "//a", top + "/./a", top + "/..", top + "/a\x00b", top + "/a\x01", top + "/\ue000", top + "/\uf900", top + "/\ufff0",
	top + "/😀", top + "/\x7f", top + "/\u0085", top + "/...", top + "/.a", top + "/none/none", "a", "//", "/none-such/a", top + "/a/", top + "/a/./",
	top + "/\u2028", top + "/a\xffb", "", "/zookeeper", "/zookeeper/quota",
}

// odd returns one of them, or null.
func (g *generator) odd() *text {
	if g.chance(5) {
		return nil
	}
	return str(pick(g, oddPaths...))
}

func (g *generator) path() *text {
	switch n := g.IntN(100); {
	case n < 76:
		return str(g.existing())
	case n < 95:
		return str(g.fresh())
	}
	return g.harmless()
}

// harmless returns an odd path, but neither the path of a node that all sequences share, nor one that ZooKeeper writes
// differently from how it has read it.
func (g *generator) harmless() *text {
	for {
		p := g.odd()
		if p == nil ||
			*p != "" && !strings.HasPrefix(string(*p), "/zookeeper") && utf8.ValidString(string(*p)) && !strings.Contains(string(*p), "😀") {
			return p
		}
	}
}

func (g *generator) version() int32 {
	return pick[int32](g, -1, -1, -1, -1, 0, 0, 1, 2, -2, 7)
}

func (g *generator) data() *text {
	switch g.IntN(8) {
	case 0:
		return nil
	case 1:
		return str("")
	}
	return str(strings.Repeat(pick(g, "x", "y", "\x00\xff"), 1+g.IntN(12)))
}

// acl returns the ACL for a node. It nearly always gives everyone every permission.
func (g *generator) acl(c int) *[]ace {
	world := func(perms int32) ace { return ace{perms, str("world"), str("anyone")} }
	auth := ace{31, str("auth"), str("")}
	digest := ace{31, str("digest"), str("u0:" + digestOf["u0:p"])}
	switch n := g.IntN(100); {
	case n < 74:
		return &[]ace{world(31)}
	case n < 82:
		return &[]ace{world(pick[int32](g, 1, 3, 7, 15, 16, 17, 30, 0, 64, 5, 9, 20, 26))}
	case n < 86:
		auth.Perms = pick[int32](g, 31, 1, 6)
		return &[]ace{auth, world(pick[int32](g, 1, 3, 5))}
	case n < 88:
		return &[]ace{digest, world(pick[int32](g, 1, 17))}
	case n < 90:
		return &[]ace{{31, str("ip"), str(pick(g, "127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "127.0.0.1/32", "0.0.0.0/0", "127.0.0.2", "127.0.0.2/30", "127.0.0.01"))}, world(1)}
	case n < 91:
		return &[]ace{world(31), world(31), world(1)}
	}
	switch bad := ace(ace{31, str("ip"), nil}); g.IntN(14) {
	case 0:
		return nil
	case 1:
		return &[]ace{}
	case 2:
		return &[]ace{world(31), {31, str("world"), str("other")}}
	case 3:
		return &[]ace{{31, str("digest"), str(pick(g, "u", "u:", "a:b:c", ":h", "u:h:", "::", ""))}}
	case 4:
		bad.ID = str(pick(g, "1.2.3", "1.2.3.256", "1.2.3.4/33", "x", "1.2.3.4/", "", "1.2.3.4/-1", "1.2.3.4/x", "+1.2.3.4", "1.2.3.4/+8", "-1.2.3.4", "1.2.3.4/08", "1..2.3", "1.2.3.4."))
		return &[]ace{bad}
	case 5:
		return &[]ace{{31, str(pick(g, "super", "sasl", "x509", "nosuch", "")), str("x")}}
	case 6:
		return &[]ace{{31, str(pick(g, "world", "digest", "ip")), nil}}
	case 7:
		return &[]ace{{31, nil, str("x")}}
	case 8:
		return &[]ace{{31, nil, nil}, {31, nil, nil}}
	case 9:
		return &[]ace{auth, auth}
	case 10:
		return &[]ace{{31, str("auth"), nil}}
	case 11:
		return &[]ace{{3, str("auth"), str("x")}, auth}
	case 12:
		return &[]ace{{31, str("ip"), str("127.0.0.1")}, {1, str("digest"), str("u:h")}, world(31)}
	}
	return &[]ace{world(31), {1, str("digest"), str("u1:" + digestOf["u1:p"])}, {3, str("ip"), str("127.0.0.1")}, world(31)}
}

// digestOf maps the texts that clients use here to their digests.
var digestOf = map[string]string{"u0:p": "DIpnEgFj6vM9ScYgMWbYOXVpTe8=", "u1:p": "FfP80c+zcEPgU6zorph629PDPJ0="}

// creation returns a create of some kind, alone or for a multi.
func (g *generator) creation(c int) step {
	s := step{Slot: c, Do: "create", Data: g.data(), ACL: g.acl(c)}
	if g.chance(25) {
		s.Do = "create2"
	}
	s.Flags = pick[int32](g, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3)
	switch n := g.IntN(100); {
	case n < 70:
		s.Path = str(g.fresh())
	case n < 90:
		s.Path = str(g.existing())
	case n < 94 && s.Flags&2 != 0:
		s.Path = str(g.existing() + "/")
	case s.Flags&2 != 0:
		s.Path = g.harmless() // otherwise it might succeed, next to the top node
	default:
		s.Path = g.odd()
	}
	if s.Path == nil || !strings.HasPrefix(string(*s.Path), top) {
		return s
	}
	switch n := g.IntN(100); {
	case n < 4:
		s.Flags = pick[int32](g, 4, 5, 6, 7, -1, 100)
	case n < 12:
		s.Do, s.Flags = "createContainer", pick[int32](g, 4, 4, 4, 4, 4, 4, 0, 1, 2)
	case n < 20:
		s.Do, s.TTL, s.Flags = "createTTL", pick[int64](g, 60_000, 1<<40-1, 1<<30), pick[int32](g, 5, 6)
		switch g.IntN(8) {
		case 0:
			s.TTL = pick[int64](g, 0, -1, 1<<40, 1<<62)
		case 1:
			s.Flags = pick[int32](g, 0, 1, 2, 3, 4, 7)
		}
	}
	return s
}

func (g *generator) create(c int) {
	s := g.creation(c)
	g.add(s)
	g.created(s)
}

// created records the effect that a create should have had.
func (g *generator) created(s step) {
	if s.Path == nil || s.ACL == nil || slices.Contains(oddPaths, string(*s.Path)) {
		return
	}
	p := string(*s.Path)
	parent, name, _ := cutLast(p)
	above, there := g.nodes[parent]
	if !there || above.owner >= 0 || s.Flags < 0 || s.Flags > 6 || name == "" && s.Flags&2 == 0 {
		return
	}
	if s.Flags == 2 || s.Flags == 3 || s.Flags == 6 {
		p += fmt.Sprintf("%010d", g.made[parent])
	}
	if _, taken := g.nodes[p]; taken {
		return
	}
	g.made[parent]++
	owner := -1
	if (s.Flags == 1 || s.Flags == 3) && s.Do != "createContainer" {
		owner = s.Slot
	}
	g.nodes[p] = genNode{owner}
	g.made[p] = 0
}

func cutLast(p string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p, false
	}
	return p[:i], p[i+1:], true
}

func (g *generator) deletion(c int) step {
	s := step{Slot: c, Do: "delete", Path: g.path(), Version: g.version()}
	for range 3 {
		if s.Path != nil && *s.Path == top { // it stays until the end
			s.Path = str(g.existing())
		}
	}
	if s.Path != nil && *s.Path == top {
		s.Path = str(g.fresh())
	}
	if g.chance(4) {
		s.Path = g.odd()
	}
	return s
}

func (g *generator) delete(c int) {
	s := g.deletion(c)
	g.add(s)
	g.deleted(s)
}

func (g *generator) deleted(s step) {
	if s.Path == nil || s.Version > 0 || s.Version < -1 {
		return
	}
	p := string(*s.Path)
	for other := range g.nodes {
		if strings.HasPrefix(other, p+"/") {
			return
		}
	}
	delete(g.nodes, p)
}

func (g *generator) setting(c int) step {
	return step{Slot: c, Do: "setData", Path: g.path(), Data: g.data(), Version: g.version()}
}

func (g *generator) setData(c int) { g.add(g.setting(c)) }

func (g *generator) look(c int, op string) {
	s := step{Slot: c, Do: op, Path: g.path()}
	s.Watch = g.chance(60) && g.slots[c].may(s.Path, once)
	g.add(s)
}

func (g *generator) setACL(c int) {
	s := step{Slot: c, Do: "setACL", Path: g.path(), ACL: g.acl(c), Version: pick[int32](g, -1, -1, -1, 0, 1, 5)}
	g.add(s)
}

// multi adds a multi of several writes. Unless something in it must fail, its effect is recorded as
// if it had succeeded.
func (g *generator) multi(c int) {
	m := step{Slot: c, Do: "multi"}
	for range g.IntN(5) {
		var s step
		switch n := g.IntN(10); {
		case n < 5:
			s = g.creation(c)
			s.ACL = &[]ace{{31, str("world"), str("anyone")}}
			switch g.IntN(60) {
			case 0, 1:
				s.ACL = g.acl(c)
			case 2:
				s.ACL = nil
			}
			if s.ACL == nil && s.Path == nil { // not in the table of deviations
				s.Path = str(g.fresh())
			}
			if s.Do == "create2" && !g.chance(8) {
				s.Do = "create"
			}
			if s.Do == "createContainer" && s.Flags&1 != 0 {
				s.Flags = 4
			}
		case n < 7:
			s = g.deletion(c)
		case n < 9:
			s = g.setting(c)
		default:
			s = step{Slot: c, Do: "check", Path: g.path(), Version: g.version()}
		}
		if g.spoils(s) && slices.ContainsFunc(m.Multi, g.spoils) {
			continue // two of these in one multi are not in the table
		}
		s.Slot = 0
		m.Multi = append(m.Multi, s)
		s.Slot = c
		if strings.HasPrefix(s.Do, "create") {
			g.created(s)
		}
	}
	if g.chance(2) && !slices.ContainsFunc(m.Multi, g.spoils) {
		m.Multi = append(m.Multi, pick(g, step{Do: "setACL", Path: str(top), ACL: g.acl(c)}, step{Do: "getData", Path: str(top)}, step{Do: "sync", Path: str(top)}))
	}
	g.add(m)
}

// spoils reports whether a multi with s in it is malformed, at least for Rollcall.
func (g *generator) spoils(s step) bool {
	creates := strings.HasPrefix(s.Do, "create")
	return s.Path == nil || creates && (s.ACL == nil || s.Flags < 0 || s.Flags > 6 || s.Flags > 4 && s.Do != "createTTL")
}

func (g *generator) multiRead(c int) {
	m := step{Slot: c, Do: "multiRead"}
	for range g.IntN(5) {
		m.Multi = append(m.Multi, step{Do: pick(g, "getData", "getChildren"), Path: str(g.existingOrFresh()), Watch: g.chance(30)})
	}
	g.add(m)
}

func (g *generator) existingOrFresh() string {
	if g.chance(80) {
		return g.existing()
	}
	return g.fresh()
}

// auth adds an identity. Sometimes it is invalid, which ends the connection.
func (g *generator) auth(c int) {
	s := step{Slot: c, Do: "auth", Scheme: str("digest"), Data: str(pick(g, "u0:p", "u0:p", "u0:p", "u1:p", "u0:wrong", "super:secret", "super:wrong", "u2", "", ":", "ü:p"))}
	switch n := g.IntN(100); {
	case n < 8:
		s.Scheme, s.Data = str("ip"), str("10.0.0.1")
	case n < 14:
		s.Scheme = pick(g, str("world"), str("auth"), str("super"), str("nosuch"), str(""), nil)
		g.slots[c].open, g.slots[c].dropped = false, true
	case n < 16:
		s.Data = nil
		g.slots[c].open, g.slots[c].dropped = false, true
	}
	g.add(s)
}

func (g *generator) ephemerals(c int) {
	s := step{Slot: c, Do: "getEphemerals", Path: str(pick(g, g.existing(), top, top+"/a", "/", "", "  ", "/ ", "no"))}
	if g.chance(10) {
		s.Path = nil
	}
	g.add(s)
}

func (g *generator) setWatches(c int) {
	s := step{Slot: c, Do: "setWatches", Since: pick(g, sinceSeen, sinceSeen, sinceSeen, sinceBegin, sinceNothing, sinceFuture)}
	ways := []genWatches{once, once, once}
	if g.chance(50) {
		s.Do, ways = "setWatches2", append(ways, persistent, recursive)
	}
	for _, how := range ways {
		list := paths{}
		for range g.IntN(3) {
			if p := str(g.existingOrFresh()); g.slots[c].may(p, how) {
				list = append(list, p)
			}
		}
		s.Lists = append(s.Lists, list)
	}
	if g.chance(3) {
		s.Lists[0] = nil
	}
	if g.chance(2) {
		s.Lists[0] = paths{nil}
	}
	g.add(s)
}

// addWatch adds a persistent watch.
func (g *generator) addWatch(c int) {
	s := step{Slot: c, Do: "addWatch", Path: str(g.existingOrFresh()), Kind: pick[int32](g, 0, 1)}
	switch n := g.IntN(100); {
	case n < 4:
		s.Kind = pick[int32](g, 2, -1, 7)
	case !g.slots[c].may(s.Path, persistent+genWatches(s.Kind)):
		return
	}
	g.add(s)
}

// removeWatches removes or checks watches. It never does that where there is a watch of another
// kind, because 3.8.0 would remove that.
func (g *generator) removeWatches(c int) {
	paths := []text{text(g.existingOrFresh())}
	for p := range g.slots[c].watches {
		if strings.Contains(string(p), "/") {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	p := pick(g, paths...)
	s := step{Slot: c, Do: pick(g, "removeWatches", "removeWatches", "checkWatches"), Path: &p, Kind: 3}
	switch how := g.slots[c].watches[p]; {
	case g.chance(3):
		s.Kind = pick[int32](g, 0, 6, -1)
	case g.chance(5):
		s.Kind = pick[int32](g, 4, 5)
		if s.Do == "removeWatches" && (how == persistent && s.Kind == 4 || how == recursive && s.Kind == 5) {
			return
		}
	case how < persistent:
		s.Kind = pick[int32](g, 1, 2, 3)
	}
	g.add(s)
}

// quotas makes a quota, once, and later reads its usage.
func (g *generator) quotas(c int) {
	at := "/zookeeper/quota" + top
	if g.quota {
		if g.chance(10) {
			g.add(step{Slot: c, Do: "delete", Path: str(at + "/zookeeper_limits"), Version: -1})
		}
		g.add(step{Slot: c, Do: "getData", Path: str(at + "/zookeeper_stats")})
		return
	}
	g.quota = true
	world := &[]ace{{31, str("world"), str("anyone")}}
	g.add(step{Slot: c, Do: "create", Path: str(at), ACL: world})
	limits := fmt.Sprintf("count=%d,bytes=100", g.IntN(20))
	if g.hard = g.chance(50); g.hard {
		nodes, bytes := fmt.Sprintf("countHardLimit=%d", 2+g.IntN(12)), fmt.Sprintf("byteHardLimit=%d", g.IntN(60))
		limits += "=;" + pick(g, nodes, bytes, bytes+";"+nodes)
	}
	g.add(step{Slot: c, Do: "create", Path: str(at + "/zookeeper_limits"), Data: str(limits), ACL: world})
	g.add(step{Slot: c, Do: "create", Path: str(at + "/zookeeper_stats"), Data: str("count=0,bytes=0"), ACL: world})
}

// open opens a session at once.
func (g *generator) open(c int) {
	g.add(step{Slot: c, Do: "open", Member: g.IntN(3), Timeout: pick[int32](g, 20000, 20000, 30000, 1<<31-1), Flags: pick[int32](g, 0, 0, 0, 1)})
	g.slots[c] = genSlot{open: true, session: true}
}

func (g *generator) dropAndResume(c int) {
	g.add(step{Slot: c, Do: "drop"})
	g.slots[c].open, g.slots[c].dropped = false, true
	if g.chance(10) {
		g.add(step{Slot: c, Do: "resume", Secret: pick(g, "bit", "short", "null"), Timeout: 20000, Member: g.IntN(3)})
	}
	if g.chance(5) {
		g.add(step{Slot: c, Do: "resume", Since: sinceFuture, Timeout: 20000, Member: g.IntN(3)})
	}
	for range g.IntN(3) {
		if o := g.IntN(slots); g.slots[o].open {
			g.setData(o)
		}
	}
	if g.chance(80) {
		g.resume(c)
		if g.chance(50) {
			g.setWatches(c)
		}
	}
}

func (g *generator) resume(c int) {
	g.slots[c] = genSlot{open: true, session: true, dropped: true}
	g.add(step{Slot: c, Do: "resume", Timeout: pick[int32](g, 20000, 20000, 50000), Member: g.IntN(3), Flags: pick[int32](g, 0, 0, 0, 1)})
}

// takeOver resumes a session whose connection is open, which ends that connection.
func (g *generator) takeOver(c int) {
	if g.slots[c].dropped {
		return
	}
	g.resume(c)
}

func (g *generator) closeSession(c int) {
	g.add(step{Slot: c, Do: "closeSession"})
	g.slots[c].open = false
	for p, n := range g.nodes {
		if n.owner == c {
			delete(g.nodes, p)
		}
	}
	if g.chance(20) {
		g.add(step{Slot: c, Do: "resume", Timeout: 20000, Member: g.IntN(3)})
	}
	g.slots[c] = genSlot{}
}

func (g *generator) openAnew(int) {
	for c := range slots {
		if !g.slots[c].open && !g.slots[c].session {
			g.open(c)
			return
		}
	}
}

// nonsense sends something that ends the connection.
func (g *generator) nonsense(c int) {
	if g.chance(60) {
		g.add(step{Slot: c, Do: unknown, Code: pick[int32](g, 0, -1, 10, 23, 99, 108, 1000)})
	} else {
		g.add(step{Slot: c, Do: "frame", Code: pick[int32](g, 0, 4, 7, -1, 1<<20, 1<<30)})
	}
	g.slots[c].open, g.slots[c].dropped = false, true
}

// together sends several requests at once.
func (g *generator) together(c int) {
	for n := range 2 + g.IntN(4) {
		at := len(g.steps)
		switch g.IntN(8) {
		case 0, 1:
			g.create(c)
		case 2:
			g.delete(c)
		case 3, 4:
			g.setData(c)
		case 5:
			g.look(c, "getData")
		case 6:
			g.look(c, "exists")
		case 7:
			g.look(c, "getChildren2")
		}
		if g.steps[at].Do == "createContainer" { // with the ephemeral flag it may count as a create
			g.steps[at].Flags = 4
		}
		g.steps[at].With = n > 0 && !g.hard
	}
}

// cutShort sends a record that ends too early.
func (g *generator) cutShort(c int) {
	s := pick(g,
		step{Do: "create", Path: str(top + "/a"), ACL: &[]ace{}}, step{Do: "delete", Path: str(top + "/a")},
		step{Do: "setData", Path: str(top)}, step{Do: "setACL", Path: str(top)}, step{Do: "exists", Path: str(top)},
		step{Do: "getData", Path: str(top)}, step{Do: "getChildren", Path: str(top)}, step{Do: "getACL", Path: str(top)},
		step{Do: "sync", Path: str(top)}, step{Do: "multi", Multi: []step{{Do: "delete", Path: str(top)}}},
		step{Do: "setWatches", Lists: []paths{{}, {}, {}}}, step{Do: "getEphemerals", Path: str(top)})
	s.Slot, s.Cut = c, 1+g.IntN(3)
	g.add(s)
}
