package znode

import "rollcall/proto"

// superUser is the user of SASL that has the permissions of all other users of SASL, as in
// ZooKeeper. It has no permissions of other schemes.
const superUser = "super"

func isSuperUser(id *proto.Identity) bool {
	return id.GetScheme() == "sasl" && id.GetId() == superUser
}

// late reports whether r has a rule that entries of a format before saslFormat do not have.
func (r *Rules) late() bool { return r.SASL || r.DataQuota != 0 }
