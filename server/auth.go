package server

import (
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"strings"

	"rollcall/jute"
	"rollcall/proto"
)

// maxIdentityBytes bounds the identities of one connection, because each of its transactions
// carries them.
const maxIdentityBytes = 16 << 10

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
		if p.Auth == nil { // an empty text is an identity, as in ZooKeeper
			return jute.AuthFailed
		}
		id := digestID(strings.ToValidUTF8(string(p.Auth), "\ufffd")) // as Java reads a string
		if super := c.srv.cfg.SuperDigest; super != "" && id == super {
			if code := c.identify("super", ""); code != jute.OK {
				return code
			}
		}
		return c.identify("digest", id)
	}
	return jute.AuthFailed
}

// certify ends the TLS handshake of a connection that has one. If the listener verifies the
// client's certificate, its subject becomes an identity. If that is the configured SuperSubject,
// the connection gets the super user's identity too.
func (c *conn) certify(conn net.Conn) error {
	sock, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	if err := sock.Handshake(); err != nil { // within the handshake's deadline
		return fmt.Errorf("server: TLS handshake: %w", err)
	}
	chains := sock.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return nil
	}
	c.subject = chains[0][0].Subject.String()
	code := c.identify("x509", c.subject)
	if c.subject == c.srv.cfg.SuperSubject && code == jute.OK {
		code = c.identify("super", c.subject)
	}
	if code != jute.OK {
		return fmt.Errorf("server: the certificate's subject has over %d bytes", maxIdentityBytes)
	}
	return nil
}

// refuseSASL answers the first token of a SASL exchange. Rollcall has no SASL mechanism. (In that
// case ZooKeeper answers OK, and adds no identity.)
func refuseSASL(body []byte) jute.Code {
	var token jute.SASLToken
	d := jute.NewDecoder(body)
	if token.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	return jute.AuthFailed
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
	if size > maxIdentityBytes {
		return jute.AuthFailed
	}
	ids = append(ids, identity(scheme, id)) // a holder of the old slice sees no more than before
	c.ids.Store(&ids)
	return jute.OK
}

// digestID returns the identity that a "user:password" text gives in the digest scheme: the user
// and a hash of the whole text. Without a colon, the whole text is the user.
func digestID(text string) string {
	user, _, _ := strings.Cut(text, ":")
	sum := sha1.Sum([]byte(text))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// clientInfo returns an identity in the form in which whoAmI shows it: for digest, only the user.
func clientInfo(id *proto.Identity) jute.ClientInfo {
	user := id.Id
	if id.Scheme == "digest" {
		user, _, _ = strings.Cut(user, ":")
	}
	return jute.ClientInfo{AuthScheme: []byte(id.Scheme), User: []byte(user)}
}
