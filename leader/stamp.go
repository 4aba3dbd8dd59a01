package leader

import (
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// stampChanges sets the fields of operators' changes that only this leader knows, whatever the members have written
// there. A changed transaction is a copy: the member that leads may still be sending the original.
func stampChanges(txns []*proto.Txn, cfg *Config, now time.Time) {
	for i, txn := range txns {
		switch jute.Op(txn.GetOp()) {
		case jute.OpReconfig, jute.OpChangeServers:
			txns[i] = pb.CloneOf(txn)
			txns[i].ReachableServers = cfg.ReachableServers(txn)
		case jute.OpKill:
			txns[i] = stampKill(txn, cfg.Sessions, now)
		}
	}
}

// stampKill sets the time for which the session has been silent. It returns a kill that cannot be decoded as it is:
// apply rejects it.
func stampKill(txn *proto.Txn, sessions *sessiontracker.GlobalTable, now time.Time) *proto.Txn {
	var kill proto.Kill
	if pb.Unmarshal(txn.GetBody(), &kill) != nil {
		return txn
	}
	heard, _ := sessions.LastHeard(jute.SessionID(kill.GetSession()), now)
	kill.SilentMs = uint64(heard.Ago.Milliseconds())
	body, err := pb.Marshal(&kill)
	if err != nil {
		return txn
	}
	stamped := pb.CloneOf(txn)
	stamped.Body = body
	return stamped
}
