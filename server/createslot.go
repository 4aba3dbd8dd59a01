package server

// tryTakeCreateSlot takes a slot if one is free and no client waits for it.
func (h *handshake) tryTakeCreateSlot() bool {
	if !h.c.srv.createSlots.TryTake() {
		return false
	}
	h.noteCreateSlot()
	return true
}

// takeCreateSlot waits for a slot. It returns false if the connection ends first.
func (h *handshake) takeCreateSlot() bool {
	if h.c.srv.createSlots.Take(h.c.stream.Life.Context()) != nil {
		return false
	}
	h.noteCreateSlot()
	return true
}

func (h *handshake) noteCreateSlot() {
	h.c.stream.Lock()
	defer h.c.stream.Unlock()
	h.c.hasCreateSlot = true
}

// releaseCreateSlot gives the connection's slot back, if it has one. It never blocks. The caller holds the
// lock.
func (c *conn) releaseCreateSlot() {
	if c.hasCreateSlot {
		c.hasCreateSlot = false
		c.srv.createSlots.Release()
	}
}
