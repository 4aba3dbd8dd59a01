package cluster

import (
	"errors"
	"fmt"
	"time"

	"rollcall/lab/history"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// ReadOnly waits until a member serves readers alone, for at most limit. Then it opens a read-only session there, and
// reads the node at path. The history judges what it reads, unless every read is linearizable: what such a member shows is old. The
// member must refuse a write. ReadOnly reports whether the member served readers alone. It may be called from any goroutine.
func (e *Ensemble) ReadOnly(id uint32, m *member.Member, path string, limit time.Duration) (served bool, err error) {
	for end := time.Now().Add(limit); m.Role() != api.RoleReadOnly; time.Sleep(e.opts.Tick / 20) {
		if time.Now().After(end) {
			return false, nil
		}
	}
	c, err := e.dialMember(e.ctx, id)
	if err != nil {
		return false, nil // killed meanwhile, as below
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(e.opts.Tick)) // fails only on a closed connection
	resp, err := c.Handshake(jute.ConnectRequest{TimeOut: int32(4 * e.opts.Tick.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true, ReadOnly: true})
	if err != nil || !resp.ReadOnly {
		return false, nil
	}
	ask := &jute.WatchedPath{Path: []byte(path)}
	r, _, err := c.Call(1, jute.OpGetData, ask)
	if err != nil {
		return false, nil
	}
	if !e.opts.Linear {
		conn := e.record.noteConnection(history.Connected, resp.SessionID, 0, id)
		e.record.noteReply(e.record.noteRequest(resp.SessionID, conn, 1, jute.OpGetData, ask), jute.OpGetData, r)
	}
	write := &jute.CreateRequest{Path: []byte("/read-only"), ACL: jute.OpenACL}
	switch w, _, err := c.Call(2, jute.OpCreate, write); {
	case err != nil:
		return true, nil
	case r.Err != jute.OK:
		return true, fmt.Errorf("cluster: read-only member %d: %s: %w", id, path, r.Err)
	case !errors.Is(w.Err, jute.NotReadOnly):
		return true, fmt.Errorf("cluster: read-only member %d answered a write with %w", id, w.Err)
	}
	return true, nil
}
