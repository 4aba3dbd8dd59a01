package differential

import (
	"fmt"
	"slices"
	"time"

	"rollcall/zk/jute"
)

// finish collects the events that are left, closes all sessions, and reads the nodes before and after that.
func (p *player) finish() error {
	end := len(p.steps)
	for k := range p.slots {
		if c := &p.slots[k]; c.conn != nil {
			if err := p.syncMember(end, c); err != nil {
				return err
			}
			p.record(p.claim(c, end)...)
		}
	}
	if err := p.walk(end); err != nil {
		return err
	}
	for _, s := range p.live {
		if err := p.closeSession(s); err != nil {
			return err
		}
	}
	return p.walk(end + 1)
}

// closeSession closes a session on a connection of its own, so that it does not expire later.
func (p *player) closeSession(s *session) error {
	conn, err := dial(p.target.addrs[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	resp, err := conn.Resume(s.ConnectResponse, 0)
	if err != nil || resp.SessionID != s.SessionID {
		return fmt.Errorf("close session %s: %+v, %w", s.name, resp, err)
	}
	if r, _, err := conn.Call(1, jute.OpCloseSession, nil); err != nil || r.Err != jute.OK {
		return fmt.Errorf("close session %s: %v, %w", s.name, r, err)
	}
	return nil
}

// forget records that a session has ended.
func (p *player) forget(s *session) {
	p.live = slices.DeleteFunc(p.live, func(o *session) bool { return o == s })
}

// walk records all nodes below the top, with their ACLs.
func (p *player) walk(i int) error {
	if _, err := p.target.ask(jute.OpSync, jute.SyncRequest{Path: []byte(p.top)}); err != nil {
		return err
	}
	for _, root := range []string{p.top, "/zookeeper/quota" + p.top} {
		if err := p.visit(i, root); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) visit(i int, path string) error {
	var names jute.GetChildrenResponse
	for _, op := range []jute.Op{jute.OpGetData, jute.OpGetACL, jute.OpGetChildren} {
		r, err := p.target.ask(op, jute.ExistsRequest{Path: []byte(path)})
		if err != nil {
			return err
		}
		l := line{step: i, kind: found, code: r.Err, body: []piece{p.path([]byte(path))}}
		l.body = append(l.body, p.reply(step{Do: op.String()}, r.Err, r.Body)...)
		p.record(l)
		if r.Err != jute.OK {
			return nil
		}
		if op == jute.OpGetChildren {
			if err := r.Into(&names); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(names.Children, slices.Compare)
	for _, name := range names.Children {
		if err := p.visit(i, path+"/"+string(name)); err != nil {
			return err
		}
	}
	return nil
}
