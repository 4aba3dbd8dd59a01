package znode

import (
	"unicode/utf8"
	"unique"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// Identities belong to the connection that owns a session. They are in the session's record, so transactions
// need not carry them. Equal lists are equal values and share memory, because most clients of a host have the
// same. The zero value is the empty list.
type Identities struct{ encoding unique.Handle[string] }

// IdentitiesOf returns a list of these identities, in their order.
func IdentitiesOf(ids []*proto.Identity) Identities { return Identities{}.appendAll(ids) }

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

// encodedText returns the schemes and ids in jute's encoding of strings.
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

// decodeIdentities reads what encodedText returns, or returns false.
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

// txnClient is the client of the running transaction. Consecutive transactions of clients with equal
// identities decode them once.
type txnClient struct {
	txnIdentities     []*proto.Identity // of a transaction without a session
	sessionIdentities Identities
	decodedFrom       Identities // encoding of decodedList
	decodedList       []*proto.Identity
}

// resetForTxn replaces the client before txn.
func (c *txnClient) resetForTxn(txn *proto.Txn) {
	c.txnIdentities, c.sessionIdentities = nil, Identities{}
	if txn.GetSession() == 0 {
		c.txnIdentities = txn.GetIds()
	}
}

// identities returns the identities to compare with ACLs. checkOwnerLoadIdentities has set those of a session before.
func (c *txnClient) identities() []*proto.Identity {
	if c.sessionIdentities == (Identities{}) {
		return c.txnIdentities
	}
	if c.sessionIdentities != c.decodedFrom {
		c.decodedFrom, c.decodedList = c.sessionIdentities, c.sessionIdentities.List()
	}
	return c.decodedList
}
