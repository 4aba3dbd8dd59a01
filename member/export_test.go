package member

// EndTerm ends the term that this member leads, if it does, as a refused proposal would:
// raft still leads.
func (m *Member) EndTerm() {
	m.terms.mu.Lock()
	end := m.terms.retired
	m.terms.mu.Unlock()
	if end != nil {
		end()
	}
}
