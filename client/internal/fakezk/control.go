package fakezk

import (
	"slices"
	"strings"

	"rollcall/zk/jute"
)

// locked runs f under the lock.
func (s *Server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// SetBeforeRequest sets BeforeRequest of a server that is in use.
func (s *Server) SetBeforeRequest(hook func(Request)) { s.locked(func() { s.BeforeRequest = hook }) }

// SetOnRequest sets OnRequest of a server that is in use.
func (s *Server) SetOnRequest(hook func(op jute.Op, path string, count int) (loseReply bool)) {
	s.locked(func() { s.OnRequest = hook })
}

// Disconnect ends all connections. A request that has arrived and is not carried out yet is lost. While the server is
// down, there are no other connections.
func (s *Server) Disconnect(down bool) {
	s.locked(func() {
		s.down = down
		for _, known := range s.sessions {
			known.close()
		}
	})
}

// close ends the session's connection.
func (known *session) close() {
	if known != nil && known.link != nil {
		_ = known.link.Close()
		known.link = nil
	}
}

// RefuseConnections lets clients keep their connections, and open no others.
func (s *Server) RefuseConnections() { s.locked(func() { s.down = true }) }

// AllowConnections lets clients connect again after Disconnect or RefuseConnections.
func (s *Server) AllowConnections() { s.locked(func() { s.down = false }) }

// SetReadOnly sets whether the server is without a leader, and ends the connections.
func (s *Server) SetReadOnly(readOnly bool) {
	s.locked(func() { s.readOnly = readOnly })
	s.Disconnect(false)
}

// ExpireSession ends all sessions. Until AllowSessions, no other one can be opened.
func (s *Server) ExpireSession() {
	s.locked(func() {
		s.rejecting = true
		for _, known := range s.sessions {
			known.close()
			s.endSession(known)
		}
	})
	s.AllowConnections()
}

// AllowSessions lets clients open a session again after ExpireSession.
func (s *Server) AllowSessions() { s.locked(func() { s.rejecting = false }) }

// Expire ends one session.
func (s *Server) Expire(id jute.SessionID) {
	s.locked(func() {
		if known := s.sessions[id]; known != nil {
			known.close()
			s.endSession(known)
		}
	})
}

// Lag makes a session read the nodes as they are now, without later changes and their events, until it sends a sync or
// a write, or connects again.
func (s *Server) Lag(id jute.SessionID) {
	s.locked(func() {
		if known := s.sessions[id]; known != nil && known.link != nil {
			known.link.lag = &lag{nodes: s.nodes.clone()}
		}
	})
}

// LagAtNextServer is Lag for the session's next connection. So a client whose connection breaks does not see its own
// last write at first.
func (s *Server) LagAtNextServer(id jute.SessionID) {
	s.locked(func() {
		if known := s.sessions[id]; known != nil {
			known.behind = &lag{nodes: s.nodes.clone()}
		}
	})
}

// DropHistory makes the server forget all changes so far, as a server of Rollcall forgets the oldest ones.
func (s *Server) DropHistory() {
	s.locked(func() { s.history, s.historyFrom = nil, s.zxid })
}

// SetEnsemble sets Ensemble of a server that is in use.
func (s *Server) SetEnsemble(id string) { s.locked(func() { s.Ensemble = id }) }

// Zxid returns the last zxid.
func (s *Server) Zxid() (zxid int64) {
	s.locked(func() { zxid = s.zxid })
	return zxid
}

// MuteEvents makes the server send no events from now on. So a test can tell what a client learns of a reply from what
// it learns of an event, which its goroutines may handle first.
func (s *Server) MuteEvents() { s.locked(func() { s.muted = true }) }

// BehaveBefore39 makes the Server behave as before ZooKeeper 3.9. There must be no connection.
func (s *Server) BehaveBefore39() { s.locked(func() { s.Before39 = true }) }

// DenyRead makes reads of a node return NoAuth, by a change of its ACL, of which there is no event.
func (s *Server) DenyRead(path string) { s.setSecret(path, true) }

// AllowRead makes a node readable again.
func (s *Server) AllowRead(path string) { s.setSecret(path, false) }

func (s *Server) setSecret(path string, secret bool) {
	s.locked(func() {
		s.zxid++
		s.aclsChanged = s.zxid
		s.nodes[path].secret = secret
		s.nodes[path].stat.Aversion++
	})
}

// changeNode makes changes with a transaction of its own, and returns its zxid.
func (s *Server) changeNode(do func(t *transaction)) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	t := transaction{tree: s.nodes, zxid: s.zxid}
	do(&t)
	s.sendChanges(t.changes)
	return s.zxid
}

// CreateNode creates a node, with a transaction of its own.
func (s *Server) CreateNode(path string) int64 { return s.CreateEphemeral(path, 0) }

// CreateEphemeral creates a node of a session, with a transaction of its own.
func (s *Server) CreateEphemeral(path string, owner jute.SessionID) int64 {
	return s.changeNode(func(t *transaction) { t.create(path, nil, owner) })
}

// SetData sets a node's data, with a transaction of its own.
func (s *Server) SetData(path, data string) int64 {
	return s.changeNode(func(t *transaction) { t.set(path, []byte(data)) })
}

// DeleteNode deletes a node, with a transaction of its own.
func (s *Server) DeleteNode(path string) int64 {
	return s.changeNode(func(t *transaction) { t.delete(path) })
}

// WatchCount returns the number of watches of all tables and connections.
func (s *Server) WatchCount() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.sessions {
		if known.link != nil {
			n += len(known.link.data) + len(known.link.children)
		}
	}
	return n
}

// Watches returns the watches of a session as table and path, such as "data /a" or "children /a", sorted.
func (s *Server) Watches(id jute.SessionID) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.sessions[id]; known != nil && known.link != nil {
		for path := range known.link.data {
			list = append(list, "data "+path)
		}
		for path := range known.link.children {
			list = append(list, "children "+path)
		}
	}
	slices.Sort(list)
	return list
}

// RequestCount returns the number of requests of an operation.
func (s *Server) RequestCount(op jute.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[op]
}

// ApplyChanges carries out steps: "+/a" creates, "=/a" sets, "-/a" deletes.
func (s *Server) ApplyChanges(steps ...string) {
	for _, step := range steps {
		switch path := step[1:]; step[0] {
		case '+':
			s.CreateNode(path)
		case '=':
			s.SetData(path, "x")
		case '-':
			s.DeleteNode(path)
		}
	}
}

// AwaitConnectionsEnd waits until the goroutines of all connections have ended. The clients must have closed them.
func (s *Server) AwaitConnectionsEnd() { s.clients.Wait() }

// HasNode reports whether there is a node.
func (s *Server) HasNode(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[path] != nil
}

// Children returns the sorted names of a node's children.
func (s *Server) Children(path string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.nodes.childrenOf(path) {
		names = append(names, string(name))
	}
	return names
}

// ListSubtree returns the paths and data of a node and of all nodes below it, each parent before its children, and
// children sorted by name.
func (s *Server) ListSubtree(path string) (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, n := range s.nodes {
		if p == path || strings.HasPrefix(p, path+"/") {
			nodes = append(nodes, p+"="+string(n.data))
		}
	}
	slices.SortFunc(nodes, func(a, b string) int {
		a, _, _ = strings.Cut(a, "=")
		b, _, _ = strings.Cut(b, "=")
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})
	return nodes
}

// ForgetChange gives a node earlier data, as if a backup had been restored.
func (s *Server) ForgetChange(path, data string, changed int64) {
	s.locked(func() {
		n := s.nodes[path]
		n.data, n.stat.Mzxid, n.stat.DataLength = []byte(data), changed, int32(len(data))
	})
}
