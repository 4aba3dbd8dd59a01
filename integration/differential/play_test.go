package differential

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

const (
	slots = 4
	// patience is the time that a reply may take. Only a failing sequence waits so long.
	patience = 15 * time.Second
	// timeout is the timeout of all sessions, the longest that both servers grant.
	timeout = 20 * tick
	// hidden is the xid of requests that are not steps.
	hidden = 1 << 30
	// future is a zxid that no server here will reach.
	future = 1 << 60
)

// transcript is everything that a target sent during one sequence.
type transcript struct {
	steps []step
	lines []line
	rank  func(int64) string
}

// player runs one sequence on one target.
type player struct {
	*book
	target *target
	steps  []step
	slots  [slots]client
	live   []*session // sessions that are probably not closed
	lines  []line
	begin  int64 // zxid of the top node's creation
}

// session is a session that was granted.
type session struct {
	jute.ConnectResponse
	name string
}

// client is the client of one slot.
type client struct {
	slot    int
	conn    *wire.Conn // nil: none
	session *session   // the last one granted
	number  int        // sessions it has had
	member  int        // the member that conn leads to
	behind  bool       // something may have happened on another member since the last sync
	xid     int32
	seen    int64 // zxid of the last reply
	early   []line
}

// play runs steps below a fresh node and returns the transcript. An error means that the test itself failed: whatever a
// server does is in the transcript.
func play(t *target, steps []step) (*transcript, error) {
	t.tops++
	p := &player{target: t, steps: steps, book: &book{
		top:      fmt.Sprintf("/top-%06d", t.tops),
		now:      func() int64 { return time.Now().UnixMilli() },
		sessions: map[jute.SessionID]string{0: "none"}, times: map[int64]int64{},
	}}
	for k := range p.slots {
		p.slots[k].slot = k
	}
	p.began = p.now()
	defer p.hangUp()
	r, err := t.ask(jute.OpCreate, jute.CreateRequest{Path: []byte(p.top), Data: []byte{}, ACL: jute.OpenACL})
	if err != nil || r.Err != jute.OK {
		return nil, fmt.Errorf("%s: make %s: %v, %w", t.name, p.top, r, err)
	}
	p.begin = r.Zxid
	for i := 0; i < len(steps); {
		n := i + 1
		for n < len(steps) && steps[n].With && steps[n].Slot == steps[i].Slot && !steps[n].local() && !steps[i].local() {
			n++
		}
		if err := p.group(i, n); err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", t.name, i, err)
		}
		i = n
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("%s: at the end: %w", t.name, err)
	}
	return &transcript{steps: steps, lines: p.lines, rank: ranker(p.lines)}, nil
}

// group runs the steps from i to n, which are sent together.
func (p *player) group(i, n int) error {
	s := p.steps[i]
	c := &p.slots[s.Slot]
	if s.local() || slices.ContainsFunc(p.steps[i:n], func(s step) bool { return s.op().IsWrite() }) {
		defer p.markBehind(c)
	}
	switch {
	case s.Do == "open" || s.Do == "resume":
		return p.connect(i, c)
	case c.conn == nil:
		for ; i < n; i++ {
			p.record(line{step: i, slot: p.steps[i].Slot, kind: nowhere})
		}
		return nil
	}
	catchUp := p.catchUp
	if s.Do == "drop" || s.Do == "frame" { // what it has not read is lost
		catchUp = p.syncMember
	}
	if err := catchUp(i, c); err != nil {
		return err
	}
	switch s.Do {
	case "drop":
		p.record(p.claim(c, i)...)
		c.drop()
		return nil
	case "frame":
		b := jute.AppendInt32(nil, s.Code)
		if s.Code > 0 && s.Code < 8 {
			b = append(b, make([]byte, s.Code)...)
		}
		if _, err := c.conn.Write(b); err != nil {
			return err
		}
		p.record(p.claim(c, i)...)
		p.ending(i, c)
		return nil
	}
	var out []byte
	xids := make([]int32, n-i)
	for k := i; k < n; k++ {
		s := p.steps[k]
		c.xid++
		xids[k-i] = s.xid(c.xid)
		var mark int
		out, mark = jute.BeginFrame(out)
		out = jute.RequestHeader{Xid: xids[k-i], Op: s.op()}.Append(out)
		out = jute.EndFrame(append(out, s.record(p.top, p.since(c, s))...), mark)
	}
	if _, err := c.conn.Write(out); err != nil {
		return err
	}
	for ; i < n; i++ {
		if !p.answer(i, c, xids[len(xids)-(n-i)]) {
			for i++; i < n; i++ {
				p.record(line{step: i, slot: s.Slot, kind: nowhere})
			}
			return nil
		}
	}
	return nil
}

// answer reads up to the reply of step i. It returns false if the connection has ended.
func (p *player) answer(i int, c *client, xid int32) bool {
	s := p.steps[i]
	p.record(p.claim(c, i)...)
	for {
		r, l := p.read(i, c)
		p.record(l)
		switch {
		case l.kind == event:
			continue
		case l.kind != reply:
			c.drop()
			return false
		}
		last := &p.lines[len(p.lines)-1]
		if r.Xid != xid {
			last.body = []piece{{name: "xid", text: fmt.Sprintf("%d, not %d", r.Xid, xid)}}
			c.drop()
			return false
		}
		last.body = p.reply(s, r.Err, r.Body)
		if r.Zxid > 0 && s.op() != jute.OpPing {
			c.seen = r.Zxid
		}
		switch op := s.op(); {
		case op == jute.OpCloseSession && r.Err == jute.OK:
			p.forget(c.session)
			p.ending(i, c)
			return false
		case s.Do == unknown || r.Err == jute.AuthFailed:
			p.ending(i, c)
			return false
		}
		return true
	}
}

// read reads one frame.
func (p *player) read(i int, c *client) (wire.Reply, line) {
	_ = c.conn.SetReadDeadline(time.Now().Add(patience)) // fails only on a closed connection; Recv reports that
	r, err := c.conn.Recv()
	l := line{step: i, slot: c.slot, zxid: r.Zxid}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.kind = silence
	case err != nil: // end of file, or a reset
		l.kind = closed
	case r.Xid == jute.XidNotification:
		e := r.Event()
		d := jute.NewDecoder(r.Body)
		e.Decode(&d)
		l.kind, l.typ, l.path = event, e.Type, p.path(e.Path).text
		l.body = p.rest([]piece{{name: "state", text: fmt.Sprint(int32(e.State), int32(r.Err))}}, &d)
	default:
		l.kind, l.code = reply, r.Err
	}
	return r, l
}

// ending records whether the server closes c, as it should.
func (p *player) ending(i int, c *client) {
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	for {
		r, err := c.conn.Recv()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.record(line{step: i, slot: c.slot, kind: open})
		case err != nil:
			p.record(line{step: i, slot: c.slot, kind: closed})
		default:
			p.record(line{step: i, slot: c.slot, kind: reply, code: r.Err, body: []piece{{name: "late", text: r.String()}}})
			continue
		}
		c.drop()
		return
	}
}

// connect opens a session, or resumes the slot's.
func (p *player) connect(i int, c *client) error {
	s := p.steps[i]
	if s.Do == "resume" && c.session == nil {
		p.record(line{step: i, slot: s.Slot, kind: nowhere})
		return nil
	}
	if c.conn != nil { // its last events must be recorded
		if err := p.syncMember(i, c); err != nil {
			return err
		}
	}
	req := jute.ConnectRequest{TimeOut: s.Timeout, Passwd: make([]byte, 16), HasReadOnly: s.Flags == 0, LastZxidSeen: p.since(c, s)}
	if s.Do == "resume" {
		req.SessionID, req.Passwd = c.session.SessionID, wrong(c.session.Passwd, s.Secret)
	}
	member := s.Member % len(p.target.addrs)
	conn, err := dial(p.target.addrs[member])
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(patience)) // fails only on a closed connection; the handshake reports that
	resp, err := conn.Handshake(req)
	_ = conn.SetDeadline(time.Time{})
	l := line{step: i, slot: s.Slot}
	switch {
	case err != nil:
		l.kind = closed
	case resp.SessionID == 0:
		l.kind, l.body = refused, []piece{{name: "zeroes", text: fmt.Sprint(resp.TimeOut, resp.Passwd, resp.HasReadOnly)}}
	}
	if l.kind != "" {
		_ = conn.Close()
		p.record(l)
		return nil
	}
	old := *c
	c.conn, c.member, c.xid, c.early = conn, member, 0, nil
	if s.Do == "open" {
		old.drop()
		c.number++
		c.session = &session{resp, fmt.Sprintf("%d.%d", s.Slot, c.number)}
		p.live = append(p.live, c.session)
		p.sessions[resp.SessionID] = c.session.name
	}
	if old.conn != nil { // it was the session's connection, and must end
		p.record(p.claim(&old, i)...)
		p.ending(i, &old)
	}
	same := resp.SessionID == c.session.SessionID && len(resp.Passwd) == 16 && slices.Equal(resp.Passwd, c.session.Passwd)
	p.record(line{step: i, slot: s.Slot, kind: connected, body: []piece{
		{name: "timeout", text: fmt.Sprint(resp.TimeOut)},
		{name: "readonly", text: fmt.Sprint(resp.HasReadOnly, resp.ReadOnly)},
		{name: "same", text: fmt.Sprint(same)},
	}})
	return nil
}

// wrong returns a password that is wrong in the way that how names; "" leaves it right.
func wrong(passwd []byte, how string) []byte {
	passwd = slices.Clone(passwd)
	switch how {
	case "bit":
		passwd[0] ^= 1
	case "short":
		return passwd[:len(passwd)-1]
	case "null":
		return nil
	}
	return passwd
}

// since returns the zxid that s.Since stands for.
func (p *player) since(c *client, s step) int64 {
	switch s.Since {
	case sinceSeen:
		return c.seen
	case sinceBegin:
		return p.begin
	case sinceFuture:
		return future
	}
	return 0
}

// markBehind records that, after a step on c, the other clients' members may lag.
func (p *player) markBehind(c *client) {
	for k := range p.slots {
		o := &p.slots[k]
		o.behind = o.behind || o.conn != nil && (o.member != c.member || o == c && o.xid == 0) && len(p.target.addrs) > 1
	}
}

// catchUp makes sure that c's member has applied every write that was acknowledged to any client. Other data that
// arrives meanwhile belongs to the next step.
func (p *player) catchUp(i int, c *client) error {
	if c.conn == nil || !c.behind {
		return nil
	}
	c.behind = false
	return p.syncMember(i, c)
}

// syncMember syncs c's member.
func (p *player) syncMember(i int, c *client) error {
	if err := c.conn.Send(hidden, jute.OpSync, jute.SyncRequest{Path: []byte(top)}); err != nil {
		return err
	}
	for {
		r, l := p.read(i, c)
		switch {
		case l.kind == event:
			c.early = append(c.early, l)
		case l.kind != reply || r.Xid != hidden:
			return fmt.Errorf("instead of the reply to a sync: %v %v", l.kind, r)
		default:
			return nil
		}
	}
}

// claim returns the lines that have arrived for c since its last step, as part of step i.
func (p *player) claim(c *client, i int) []line {
	early := c.early
	c.early = nil
	for k := range early {
		early[k].step = i
	}
	return early
}

func (p *player) record(lines ...line) { p.lines = append(p.lines, lines...) }

// hangUp closes the connections that are still open.
func (p *player) hangUp() {
	for k := range p.slots {
		p.slots[k].drop()
	}
}

func (c *client) drop() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = nil
}
