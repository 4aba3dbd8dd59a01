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
type Identities struct{ encoding unique.Handle[string] }

// IdentitiesOf returns the list of these identities, in their order.
func IdentitiesOf(ids []*proto.Identity) Identities { return Identities{}.appendAll(ids) }

// appendAll returns a list that has these identities after those of i.
func (i Identities) appendAll(ids []*proto.Identity) Identities {
	b := []byte(i.encodedText())
	for _, id := range ids {
		b = jute.AppendString(jute.AppendString(b, id.GetScheme()), id.GetId())
	}
	return identitiesOfText(string(b))
}

func identitiesOfText(text string) Identities {
	if text == "" {
		return Identities{}
	}
	return Identities{unique.Make(text)}
}

// encodedText returns the schemes and ids, as jute encodes strings.
func (i Identities) encodedText() string {
	if i == (Identities{}) {
		return ""
	}
	return i.encoding.Value()
}

// List returns the identities in their order. Their strings are parts of the encoding.
func (i Identities) List() []*proto.Identity {
	list, _ := decodeIdentities(i.encodedText())
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
			if *field, text = cutString(text); !utf8.ValidString(*field) {
				return nil, false
			}
		}
		list = append(list, id)
	}
	return list, true
}

// txnClient is the client of the running transaction. Consecutive transactions of clients with equal identities decode them once.
type txnClient struct {
	txnIdentities     []*proto.Identity // of a transaction without a session, which names them
	sessionIdentities Identities        // those of the session
	decodedFrom       Identities        // of which list has the identities
	decodedList       []*proto.Identity
}

// startTxn forgets the client before txn.
func (c *txnClient) startTxn(txn *proto.Txn) {
	c.txnIdentities, c.sessionIdentities = nil, Identities{}
	if txn.GetSession() == 0 {
		c.txnIdentities = txn.GetIds()
	}
}

// identities returns what ACLs are compared with. If the transaction has a session, refuse has found it before.
func (c *txnClient) identities() []*proto.Identity {
	if c.sessionIdentities == (Identities{}) {
		return c.txnIdentities
	}
	if c.sessionIdentities != c.decodedFrom {
		c.decodedFrom, c.decodedList = c.sessionIdentities, c.sessionIdentities.List()
	}
	return c.decodedList
}
