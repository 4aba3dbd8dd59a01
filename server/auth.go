package server

import (
	"strings"

	"rollcall/internal/admission"
	"rollcall/operator/audit"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// auditFailedAuth adds a failed authentication to the audit log, and counts a missing certificate.
func (r *request) auditFailedAuth(code jute.Code) {
	c := r.c
	scheme := "sasl"
	if r.op == jute.OpAuth {
		var p jute.AuthPacket
		d := jute.NewDecoder(r.body)
		p.Decode(&d)
		scheme = string(p.Scheme)
	}
	if scheme == "x509" {
		c.srv.cfg.CredentialLimiter.RecordWithoutSlowing(c.identity.host, admission.ClientCertificate)
	}
	c.srv.cfg.Audit.Add(audit.Event{
		Session: c.session.id, Ids: r.ids, Operation: audit.Authenticate, Target: scheme, Result: audit.Failure,
		Error: code.Error(),
	})
}

// clientInfo returns an identity as whoAmI shows it. For digest, that is only the user.
func clientInfo(id *proto.Identity) jute.ClientInfo {
	user := id.Id
	if id.Scheme == "digest" {
		user, _, _ = strings.Cut(user, ":")
	}
	return jute.ClientInfo{AuthScheme: []byte(id.Scheme), User: []byte(user)}
}
