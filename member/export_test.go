package member

import "rollcall/jute"

// EndTerm ends the term that this member leads, if it does, as a refused proposal would:
// raft still leads.
func (m *Member) EndTerm() {
	m.terms.mu.Lock()
	end := m.terms.cancelTerm
	m.terms.mu.Unlock()
	if end != nil {
		end()
	}
}

// StallSlowly ends the term that leads as the watchdog does, which comes to it only after
// a pause: between the term's end and what else there is to do.
func (m *Member) StallSlowly(pause func()) {
	m.terms.mu.Lock()
	retired := m.terms.cancelTerm
	m.terms.cancelTerm = func() { retired(); pause() }
	m.terms.mu.Unlock()
	m.terms.abandon()
}

// Dies has the member remember the death of a session that was not.
func (m *Member) Dies(id jute.SessionID) {
	m.state.Lock()
	defer m.state.Unlock()
	m.deaths.add(Death{Session: id})
}

// MinFormat is the lowest format that members have announced, as this one leads by it.
func (m *Member) MinFormat() uint32 { return m.minFormat.Load() }

// FormatOf is that of the entries of a leader that knows of members with lowest.
func FormatOf(lowest uint32) uint32 {
	var m Member
	m.minFormat.Store(lowest)
	return (&terms{m: &m}).format()
}

// Tracked is how many sessions the table of the term has that this member leads.
func (m *Member) Tracked() int {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.terms.table.Len()
}
