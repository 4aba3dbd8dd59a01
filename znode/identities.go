package znode

import (
	"unicode/utf8"
	"unique"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// Identities are those of the connection that owns a session. They are in the session's record, so that its transactions need
// not name them. Equal lists are equal values and share their memory, because most clients of one host have the same. The zero
// value is the empty list.
type Identities struct{ text unique.Handle[string] }

// IdentitiesOf returns the list of these identities, in their order.
func IdentitiesOf(ids []*proto.Identity) Identities { return Identities{}.with(ids) }

// with returns a list that has these identities after those of i.
func (i Identities) with(ids []*proto.Identity) Identities {
	b := []byte(i.encoded())
	for _, id := range ids {
		b = jute.AppendString(jute.AppendString(b, id.GetScheme()), id.GetId())
	}
	return identitiesIn(string(b))
}

func identitiesIn(text string) Identities {
	if text == "" {
		return Identities{}
	}
	return Identities{unique.Make(text)}
}

// encoded returns the schemes and ids, as jute encodes strings.
func (i Identities) encoded() string {
	if i == (Identities{}) {
		return ""
	}
	return i.text.Value()
}

// List returns the identities in their order. Their strings are parts of the encoding.
func (i Identities) List() []*proto.Identity {
	list, _ := decodeIdentities(i.encoded())
	return list
}

// decodeIdentities returns false if the text is not what encoded returns.
func decodeIdentities(text string) (list []*proto.Identity, ok bool) {
	for text != "" {
		id := &proto.Identity{}
		for _, field := range []*string{&id.Scheme, &id.Id} {
			if len(text) < 4 || int32At(text) < 0 || int(int32At(text)) > len(text)-4 {
				return nil, false
			}
			if *field, text = cutText(text); !utf8.ValidString(*field) {
				return nil, false
			}
		}
		list = append(list, id)
	}
	return list, true
}

// sender is the client of the running transaction. Consecutive transactions of clients with equal identities decode them once.
type sender struct {
	own     []*proto.Identity // of a transaction without a session, which names them
	session Identities        // those of the session
	decoded Identities        // of which list has the identities
	list    []*proto.Identity
}

// begin forgets the client before txn.
func (c *sender) begin(txn *proto.Txn) {
	c.own, c.session = nil, Identities{}
	if txn.GetSession() == 0 {
		c.own = txn.GetIds()
	}
}

// identities returns what ACLs are compared with. If the transaction has a session, refuse has found it before.
func (c *sender) identities() []*proto.Identity {
	if c.session == (Identities{}) {
		return c.own
	}
	if c.session != c.decoded {
		c.decoded, c.list = c.session, c.session.List()
	}
	return c.list
}
