package server

import "rollcall/zk/jute"

// readConsistencyScheme is the scheme of an auth packet with which a client chooses how fresh its connection's reads are. Clients send their
// auth packets again on each connection, so the choice holds for the session. It proves no identity.
const readConsistencyScheme = "readConsistency"

// readModes has what such a packet may say: whether no read of the connection is stale from now on.
var readModes = map[string]bool{"linearizable": true, "sequential": false}

// chooseReadMode takes an auth packet of readConsistencyScheme, and reports whether the body is one. A client in read-only mode cannot have
// reads that are never stale, because there is no leader.
func chooseReadMode(c *conn, body []byte) (code jute.Code, isChoice bool) {
	var p jute.AuthPacket
	d := jute.NewDecoder(body)
	if p.Decode(&d); d.Err() != nil || string(p.Scheme) != readConsistencyScheme {
		return jute.OK, false
	}
	linear, known := readModes[string(p.Auth)]
	switch {
	case !known:
		c.srv.authenticator.logRejection("auth packet of the scheme "+readConsistencyScheme, c.addr, c.session.id,
			"it says neither linearizable nor sequential")
		return jute.AuthFailed, true
	case linear && c.readOnly:
		c.srv.authenticator.logRejection("auth packet of the scheme "+readConsistencyScheme, c.addr, c.session.id,
			"no read of a read-only server can be linearizable: the client has to find a server that has a leader")
		return jute.AuthFailed, true
	}
	c.linearReads = linear
	return jute.OK, true
}
