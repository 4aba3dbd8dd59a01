package server

import (
	"strings"

	"rollcall/audit"
	"rollcall/internal/guesses"
	"rollcall/jute"
	"rollcall/proto"
)

// maxIdentityBytes bounds the identities of one connection beside Limits.MaxIdentities, because the record of its session has
// them. It is 64 bytes for each of 64.
const maxIdentityBytes = 4 << 10

// authenticate adds the identities that an auth packet proves. They hold for the
// requests after it.
func (c *conn) authenticate(body []byte) jute.Code {
	var p jute.AuthPacket
	d := jute.NewDecoder(body)
	p.Decode(&d)
	if d.Err() != nil {
		return jute.MarshallingError
	}
	switch string(p.Scheme) {
	case "ip":
		return c.identify("ip", c.host)
	case "x509": // certify has added the certificate's identity
		if c.subject != "" {
			return jute.OK
		}
	case "digest":
		if p.Auth == nil || c.srv.cfg.NoDigest { // an empty text is an identity, as in ZooKeeper
			return jute.AuthFailed
		}
		id := c.srv.digestOf(p.Auth)
		if super := c.srv.cfg.SuperDigest; super != "" && id == super {
			if code := c.identify("super", ""); code != jute.OK {
				return code
			}
		}
		return c.identify("digest", id)
	}
	return jute.AuthFailed
}

// auditAuth puts a failed authentication into the audit log, with the scheme that the client chose. It counts a missing certificate.
func (r *request) auditAuth(code jute.Code) {
	c := r.c
	scheme := "sasl"
	if r.op == jute.OpAuth {
		var p jute.AuthPacket
		d := jute.NewDecoder(r.body)
		p.Decode(&d)
		scheme = string(p.Scheme)
	}
	if scheme == "x509" {
		c.srv.cfg.Guesses.Count(c.host, guesses.Certificate)
	}
	c.srv.cfg.Audit.Add(audit.Event{
		Session: c.session.id, Ids: r.ids, Operation: audit.Authenticate, Target: scheme, Result: audit.Failure, Error: code.Error(),
	})
}

// identify adds an identity, unless the connection has it.
func (c *conn) identify(scheme, id string) jute.Code {
	ids := *c.ids.Load()
	size := len(scheme) + len(id)
	for _, have := range ids {
		if have.Scheme == scheme && have.Id == id {
			return jute.OK
		}
		size += len(have.Scheme) + len(have.Id)
	}
	if len(ids) >= c.srv.cfg.Limits.MaxIdentities || size > maxIdentityBytes {
		return jute.AuthFailed
	}
	ids = append(ids, identity(scheme, id)) // a holder of the old slice sees no more than before
	c.ids.Store(&ids)
	return jute.OK
}

// clientInfo returns an identity in the form in which whoAmI shows it: for digest, only the user.
func clientInfo(id *proto.Identity) jute.ClientInfo {
	user := id.Id
	if id.Scheme == "digest" {
		user, _, _ = strings.Cut(user, ":")
	}
	return jute.ClientInfo{AuthScheme: []byte(id.Scheme), User: []byte(user)}
}
