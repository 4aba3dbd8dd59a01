package server

import (
	"crypto/sha1"
	"encoding/base64"
	"strings"

	"rollcall/jute"
	"rollcall/proto"
)

// maxIdentityBytes bounds the identities of one connection: every transaction of it
// carries them.
const maxIdentityBytes = 16 << 10

// authenticate adds the identities that an auth packet proves. They hold for the
// requests behind it.
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
	case "digest":
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
	ids = append(ids, identity(scheme, id)) // who holds the old slice sees no more than before
	c.ids.Store(&ids)
	return jute.OK
}

// digestID returns the identity of a "user:password" text in the digest scheme: the user
// and a hash of the whole. Without a colon all of it is the user.
func digestID(text string) string {
	user, _, _ := strings.Cut(text, ":")
	sum := sha1.Sum([]byte(text))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// clientInfo returns an identity as whoAmI shows it: of digest only the user.
func clientInfo(id *proto.Identity) jute.ClientInfo {
	user := id.Id
	if id.Scheme == "digest" {
		user, _, _ = strings.Cut(user, ":")
	}
	return jute.ClientInfo{AuthScheme: []byte(id.Scheme), User: []byte(user)}
}
