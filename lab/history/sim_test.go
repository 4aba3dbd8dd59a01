package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	simStep    = 50 * ms
	simTimeout = 4 * sec
	simEnd     = 40 * sec // faults end 8 s before that
	simClients = 5        // the first falls silent at 8 s
)

// sim is an ensemble of three members that keeps all promises in the simplest way. Its log is one slice, and everything
// in it is committed. Members apply it with delays. They are killed, cut off and paused, one at a time. Clients move
// between members. All choices come from rng.
type sim struct {
	*Recorder
	rng     *rand.Rand
	now     time.Duration
	term    uint64
	leader  uint32 // 0: none
	elect   time.Duration
	log     []simEntry
	zxid    int64
	members [4]*simMember // 1 to 3
	clients []*simClient
	lease   map[jute.SessionID]time.Duration // the leader's: when each session is due
	cut     uint32                           // the follower that cannot communicate with the leader
	pause   time.Duration                    // since when the leader has been paused, if it is
	paused  bool
	mend    time.Duration
	conns   uint64
	ids     jute.SessionID
	data    int
}

type simEntry struct {
	call  *simCall // a client's request, or
	kind  lifeKind // a change in a session's life
	life  znode.Session
	zxid  int64
	sent  time.Duration
	index uint64
}

// simMember applies the log.
type simMember struct {
	id       uint32
	down     bool
	applied  int
	zxid     int64
	number   int
	tree     map[string]*Node
	sessions map[jute.SessionID]znode.Session
	vouched  map[jute.SessionID]time.Duration
	touched  map[jute.SessionID]bool // heard and not flushed
	outbox   []*simCall
	watches  map[watchKey]map[*simClient]uint64 // the connections that set them
}

type simClient struct {
	session znode.Session // Owner is its current connection; without one, Member is 0
	joining bool
	silent  bool
	pinged  time.Duration
	retry   time.Duration
	queue   []*simCall
	xid     int32
	mine    int // ephemerals
}

type simCall struct {
	client *simClient
	conn   znode.SessionOwner
	req    Request
	id     CallID
	index  int    // of a write: its index in the log; of a sync: the index to be applied; 0: not known yet
	reply  *Reply // of a write
}

// simulate runs one history to its end.
func simulate(seed uint64) (History, error) {
	r, err := NewRecorder(Config{Tick: tick, Members: []uint32{1, 2, 3}})
	if err != nil {
		return History{}, err
	}
	s := &sim{Recorder: r, rng: rand.New(rand.NewPCG(seed, 6)), lease: map[jute.SessionID]time.Duration{}, ids: 0x100}
	for id := uint32(1); id <= 3; id++ {
		s.members[id] = &simMember{
			id: id, tree: map[string]*Node{}, sessions: map[jute.SessionID]znode.Session{}, vouched: map[jute.SessionID]time.Duration{},
			touched: map[jute.SessionID]bool{}, watches: map[watchKey]map[*simClient]uint64{},
		}
	}
	for range simClients {
		s.clients = append(s.clients, &simClient{})
	}
	for ; s.now < simEnd; s.now += simStep {
		s.step()
	}
	for _, m := range s.members[1:] {
		s.apply(m, len(s.log))
		s.snapshot(m)
	}
	return s.History(s.now)
}

func (s *sim) step() {
	s.faults()
	if s.leader == 0 && s.now >= s.elect {
		s.lead()
	}
	for _, m := range s.members[1:] {
		if s.heard(m.id) {
			s.forward(m)
		}
	}
	for _, m := range s.members[1:] {
		switch {
		case m.id == s.leader && !s.paused:
			s.apply(m, len(s.log))
		case s.heard(m.id) && s.rng.IntN(3) > 0:
			s.apply(m, m.applied+s.rng.IntN(len(s.log)-m.applied+1))
		}
		if s.rng.IntN(200) == 0 && !m.down && !s.stands(m.id) {
			s.snapshot(m)
		}
	}
	for i, c := range s.clients {
		c.silent = c.silent || i == 0 && s.now >= 8*sec
		s.client(c)
	}
	if s.leader == 0 || s.paused {
		return
	}
	if s.now%(tick/2) == 0 {
		s.ping()
	}
	if s.now%tick == 0 {
		s.expire()
	}
}

// heard reports whether the leader can communicate with a member.
func (s *sim) heard(id uint32) bool {
	return s.leader != 0 && !s.paused && !s.members[id].down && s.cut != id
}

// stands reports whether a member is paused.
func (s *sim) stands(id uint32) bool { return s.paused && id == s.leader }

// faults begins a fault now and then, and ends it.
func (s *sim) faults() {
	if s.mend != 0 {
		if s.now >= s.mend {
			s.heal()
		}
		return
	}
	if s.leader == 0 || s.now > simEnd-8*sec || s.rng.IntN(60) != 0 {
		return
	}
	s.mend = min(s.now+time.Duration(1+s.rng.IntN(100))*simStep, simEnd-7*sec)
	id := uint32(1 + s.rng.IntN(3))
	if s.rng.IntN(2) == 0 && id != s.leader {
		s.cut = id
		s.Cut(s.now, id, s.leader)
		return
	}
	if id == s.leader && s.rng.IntN(3) == 0 {
		s.paused, s.pause = true, s.now
		s.Cut(s.now, id, id)
		return
	}
	s.Cut(s.now, id, id)
	m := s.members[id]
	m.down, m.outbox = true, nil
	clear(m.touched)
	clear(m.watches)
	for _, c := range s.clients {
		if c.session.Owner.Member == id {
			s.drop(c)
		}
	}
	if id == s.leader {
		s.leader, s.elect = 0, s.now+time.Duration(6+s.rng.IntN(20))*simStep
	}
}

func (s *sim) heal() {
	s.mend = 0
	if s.paused {
		s.Healed(s.now, s.leader, s.leader)
		s.paused = false
		for id := range s.lease { // its clock was stopped
			s.lease[id] += s.now - s.pause
		}
		return
	}
	if s.cut != 0 {
		s.Healed(s.now, s.cut, s.leader)
		s.cut = 0
		return
	}
	for _, m := range s.members[1:] {
		if m.down {
			m.down = false
			s.Healed(s.now, m.id, m.id)
		}
	}
}

// lead begins a term: every session gets a full lease.
func (s *sim) lead() {
	for s.leader == 0 || s.members[s.leader].down {
		s.leader = uint32(1 + s.rng.IntN(3))
	}
	s.term++
	s.zxid = int64(s.term) << 32
	s.apply(s.members[s.leader], len(s.log))
	s.Leads(s.now, s.term, 0, s.leader)
	clear(s.lease)
	for id, x := range s.members[s.leader].sessions {
		s.lease[id] = s.now + x.Timeout
	}
}

// ping renews the leases of the sessions that the members have heard. The members then vouch for
// them.
func (s *sim) ping() {
	for _, m := range s.members[1:] {
		if !s.heard(m.id) {
			continue
		}
		for id := range m.touched {
			x, ok := s.members[s.leader].sessions[id]
			if ok && x.Owner.Member == m.id {
				s.lease[id] = max(s.lease[id], s.now+x.Timeout)
				m.vouched[id] = max(m.vouched[id], s.now+x.Timeout*9/10)
			}
		}
		clear(m.touched)
	}
}

func (s *sim) expire() {
	for id, x := range s.members[s.leader].sessions {
		if (s.lease[id]/tick+1)*tick <= s.now {
			s.append(simEntry{kind: lifeClosed, life: x})
			delete(s.lease, id)
		}
	}
	s.apply(s.members[s.leader], len(s.log))
}

func (s *sim) append(e simEntry) int {
	if e.kind != lifeAttached {
		s.zxid++
	}
	e.zxid, e.index, e.sent = s.zxid, uint64(len(s.log)+1), s.now
	s.log = append(s.log, e)
	return len(s.log)
}

// forward sends a member's waiting requests to the leader.
func (s *sim) forward(m *simMember) {
	for _, c := range m.outbox {
		if c.req.Op == jute.OpSync {
			c.index = len(s.log)
		} else {
			c.index = s.append(simEntry{call: c})
		}
	}
	m.outbox = nil
}

func (s *sim) apply(m *simMember, upTo int) {
	for ; m.applied < upTo; m.applied++ {
		e := s.log[m.applied]
		if e.call == nil {
			m.zxid = e.zxid
			s.changeLife(m, e)
			continue
		}
		mine := e.call.conn.Member == m.id
		if mine {
			s.deliverReplies(e.call.client) // reads before it see the earlier state
		}
		m.zxid = e.zxid
		if reply := s.write(m, e); mine {
			e.call.reply = &reply
			s.deliverReplies(e.call.client)
		}
	}
}

func (s *sim) changeLife(m *simMember, e simEntry) {
	x := e.life
	switch e.kind {
	case lifeOpened:
		x.OwnerIndex = e.index
		s.Opened(s.now, m.id, x)
	case lifeAttached:
		if _, ok := m.sessions[x.ID]; !ok {
			return
		}
		x.OwnerIndex = e.index
		s.Attached(s.now, m.id, x)
	case lifeClosed:
		now := m.sessions[x.ID]
		if now.OwnerIndex != x.OwnerIndex {
			return // the session has come back
		}
		delete(m.sessions, x.ID)
		s.Closed(s.now, m.id, e.index, e.zxid, x, true)
		for path, n := range m.tree {
			if n.Owner == x.ID {
				delete(m.tree, path)
				s.fire(m, watchKey{path: path}, jute.EventNodeDeleted)
			}
		}
		for _, c := range s.clients {
			if c.session.ID == x.ID && c.session.Owner.Member == m.id {
				s.drop(c)
			}
		}
		return
	}
	m.sessions[x.ID] = x
	if m.id == s.leader {
		s.lease[x.ID] = s.now + x.Timeout
	}
	if x.Owner.Member == m.id {
		m.vouched[x.ID] = e.sent + x.Timeout*9/10
	}
}

// write carries out a client's write.
func (s *sim) write(m *simMember, e simEntry) Reply {
	r, n := e.call.req, m.tree[e.call.req.Path]
	x, ok := m.sessions[r.Session]
	if !ok {
		return no(jute.SessionExpired, e.zxid)
	}
	if x.Owner != e.call.conn {
		return no(jute.SessionMoved, e.zxid)
	}
	path := r.Path
	switch {
	case r.Op == jute.OpCreate:
		if r.Mode.IsSequential() {
			path = fmt.Sprintf("%s%010d", path, m.number)
			m.number++
		} else if n != nil {
			return no(jute.NodeExists, e.zxid)
		}
		n = &Node{Path: path, Data: r.Data, Czxid: e.zxid, Mzxid: e.zxid}
		if r.Mode.IsEphemeral() {
			n.Owner = r.Session
		}
		m.tree[path] = n
		s.fire(m, watchKey{path: path}, jute.EventNodeCreated)
		s.fire(m, watchKey{path: "/", children: true}, jute.EventNodeChildrenChanged)
	case n == nil:
		return no(jute.NoNode, e.zxid)
	case r.Version != -1 && r.Version != n.Version:
		return no(jute.BadVersion, e.zxid)
	case r.Op == jute.OpSetData:
		n = &Node{Path: path, Data: r.Data, Owner: n.Owner, Czxid: n.Czxid, Mzxid: e.zxid, Version: n.Version + 1}
		m.tree[path] = n
		s.fire(m, watchKey{path: path}, jute.EventNodeDataChanged)
	default:
		delete(m.tree, path)
		s.fire(m, watchKey{path: path}, jute.EventNodeDeleted)
		s.fire(m, watchKey{path: "/", children: true}, jute.EventNodeChildrenChanged)
	}
	return Reply{Zxid: e.zxid, Path: path, Mzxid: n.Mzxid, Version: n.Version}
}

func (s *sim) fire(m *simMember, k watchKey, e jute.EventType) {
	for c, conn := range m.watches[k] {
		if c.session.Owner.Conn == conn && s.mayReply(m, c) {
			s.Event(s.now, c.session.ID, conn, e, k.path)
		}
	}
	delete(m.watches, k)
}

// mayReply checks whether a client may get a reply, and closes its connection if not.
func (s *sim) mayReply(m *simMember, c *simClient) bool {
	ok := s.now <= m.vouched[c.session.ID]
	s.Vouched(s.now, m.id, c.session.ID, c.session.Owner.Conn, ok)
	if !ok {
		s.drop(c)
	}
	return ok
}

func (s *sim) drop(c *simClient) {
	s.Connection(s.now, Disconnected, c.session.ID, c.session.Owner.Conn, c.session.Owner.Member)
	c.session.Owner, c.queue, c.joining = znode.SessionOwner{}, nil, false
	c.retry = s.now + time.Duration(1+s.rng.IntN(8))*simStep
}

// client lets a client receive what is ready, and send something.
func (s *sim) client(c *simClient) {
	m := s.members[c.session.Owner.Member]
	switch {
	case s.stands(c.session.Owner.Member):
		return // what the client sends waits in socket buffers
	case m == nil:
		if !c.silent {
			s.connect(c)
		}
		return
	case c.joining:
		s.join(c, m)
		return
	}
	s.deliverReplies(c)
	switch {
	case c.silent || c.session.Owner.Member == 0:
	case s.rng.IntN(400) == 0:
		s.drop(c)
	case len(c.queue) < 3 && s.rng.IntN(4) == 0:
		s.request(c, m)
	case s.now-c.pinged >= simTimeout/3:
		s.touch(c, m)
	}
}

// deliverReplies gives a client the replies that are ready, in the order of its requests.
func (s *sim) deliverReplies(c *simClient) {
	for len(c.queue) > 0 && s.answer(s.members[c.session.Owner.Member], c.queue[0]) {
		if len(c.queue) > 0 { // otherwise its connection was closed
			c.queue = c.queue[1:]
		}
	}
}

func (s *sim) touch(c *simClient, m *simMember) {
	c.pinged = s.now
	m.touched[c.session.ID] = true
	s.Touched(s.now, m.id, c.session.ID)
}

// connect opens or attaches c's session at a member that can communicate with the leader.
func (s *sim) connect(c *simClient) {
	id := uint32(1 + s.rng.IntN(3))
	if s.now < c.retry || !s.heard(id) {
		return
	}
	s.conns++
	kind := lifeAttached
	if c.session.ID == 0 {
		s.ids++
		c.session = znode.Session{ID: s.ids, Timeout: simTimeout}
		kind, c.mine = lifeOpened, 0
	}
	c.session.Owner = znode.SessionOwner{Member: id, Conn: s.conns}
	c.joining = true
	s.append(simEntry{kind: kind, life: c.session})
}

// join ends a handshake once the member has applied it.
func (s *sim) join(c *simClient, m *simMember) {
	if m.applied < len(s.log) {
		return // simpler than to remember its place
	}
	x, ok := m.sessions[c.session.ID]
	if !ok {
		s.Connection(s.now, Expired, c.session.ID, c.session.Owner.Conn, m.id)
		c.session, c.joining = znode.Session{}, false
		return
	}
	c.session, c.joining = x, false
	if s.mayReply(m, c) {
		s.Connection(s.now, Connected, x.ID, x.Owner.Conn, m.id)
		s.touch(c, m)
	}
}

// request sends a request; a sync is always followed by a read.
func (s *sim) request(c *simClient, m *simMember) {
	path := fmt.Sprintf("/r%d", s.rng.IntN(3))
	s.data++
	data := fmt.Sprint(s.data)
	var r Request
	switch k := s.rng.IntN(12); {
	case c.mine == 0:
		c.mine++
		r = ephemeral(fmt.Sprintf("/e-%x", int64(c.session.ID)))
	case k < 2:
		r = create(path, data)
	case k < 5:
		r = set(path, data)
		if k == 2 {
			r.Version = int32(s.rng.IntN(3))
		}
	case k == 5:
		r = remove(path)
	case k == 6:
		r = sequential("/q-", data)
	case k == 7:
		s.send(c, m, Request{Op: jute.OpSync, Path: "/"})
		r = get(path)
	case k == 8:
		r = watching(children("/"))
	default:
		r = get(path)
		r.Watch = k == 9
	}
	s.send(c, m, r)
}

func (s *sim) send(c *simClient, m *simMember, r Request) {
	c.xid++
	r.Session, r.Conn, r.Xid = c.session.ID, c.session.Owner.Conn, c.xid
	call := &simCall{client: c, conn: c.session.Owner, req: r, id: s.Invoked(s.now, r)}
	c.queue = append(c.queue, call)
	s.touch(c, m)
	if r.Op.IsWrite() || r.Op == jute.OpSync {
		m.outbox = append(m.outbox, call)
	}
}

// answer replies to a client's first request, if that is possible yet.
func (s *sim) answer(m *simMember, c *simCall) bool {
	r := Reply{Zxid: m.zxid}
	n := m.tree[c.req.Path]
	switch {
	case c.req.Op.IsWrite():
		if c.reply == nil {
			return false
		}
		r = *c.reply
	case c.req.Op == jute.OpSync:
		if c.index == 0 || m.applied < c.index {
			return false
		}
	case c.req.Op == jute.OpGetData && n == nil:
		r.Code = jute.NoNode
	case c.req.Op == jute.OpGetData:
		r.Data, r.Mzxid, r.Version = n.Data, n.Mzxid, n.Version
	}
	if !s.mayReply(m, c.client) {
		return true
	}
	s.Returned(s.now, c.id, r)
	if c.req.Watch && r.Code == jute.OK {
		k := watchKey{path: c.req.Path, children: c.req.Op == jute.OpGetChildren}
		if m.watches[k] == nil {
			m.watches[k] = map[*simClient]uint64{}
		}
		m.watches[k][c.client] = c.conn.Conn
	}
	return true
}

func (s *sim) snapshot(m *simMember) {
	snap := Snapshot{Member: m.id, Index: uint64(m.applied), Zxid: m.zxid, Whole: true}
	for _, n := range m.tree {
		snap.Nodes = append(snap.Nodes, *n)
	}
	slices.SortFunc(snap.Nodes, func(x, y Node) int { return strings.Compare(x.Path, y.Path) })
	s.Snapshot(s.now, snap)
}
