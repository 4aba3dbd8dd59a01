package znode

import "rollcall/proto"

// saslSuperUser is the user of SASL that has the permissions of all other users of SASL, as in
// ZooKeeper. It has no permissions of other schemes.
const saslSuperUser = "super"

func isSuperUser(id *proto.Identity) bool {
	return id.GetScheme() == "sasl" && id.GetId() == saslSuperUser
}
