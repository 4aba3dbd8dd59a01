package subtree

import (
	"rollcall/client"
	"rollcall/zk/jute"
)

// ACLOf returns an access control list of a server's state as clients have it.
func ACLOf(records []jute.ACL) []client.ACL {
	list := make([]client.ACL, len(records))
	for i, r := range records {
		list[i] = client.ACL{
			Permissions: client.Permission(r.Perms),
			Identity:    client.Identity{Scheme: string(r.ID.Scheme), ID: string(r.ID.ID)},
		}
	}
	return list
}

// ACLRecords is the inverse of ACLOf.
func ACLRecords(list []client.ACL) []jute.ACL {
	records := make([]jute.ACL, len(list))
	for i, a := range list {
		records[i] = jute.ACL{
			Perms: jute.Perm(a.Permissions),
			ID:    jute.ID{Scheme: []byte(a.Identity.Scheme), ID: []byte(a.Identity.ID)},
		}
	}
	return records
}

// StatOf returns the Stat of a node in a server's state as clients have it.
func StatOf(s jute.Stat) client.Stat {
	return client.Stat{
		Created: client.Zxid(s.Czxid), Changed: client.Zxid(s.Mzxid), ChildrenChanged: client.Zxid(s.Pzxid),
		CreatedMs: s.Ctime, ChangedMs: s.Mtime,
		Version: s.Version, ChildrenVersion: s.Cversion, ACLVersion: s.Aversion,
		Owner: client.SessionID(s.EphemeralOwner), DataLength: int(s.DataLength), NumChildren: int(s.NumChildren),
	}
}

// MultiOp returns the write as an operation of a multi, for a server's log.
func (w *NodeWrite) MultiOp() jute.MultiOp {
	path := []byte(w.Path)
	if w.NodeExists {
		return jute.MultiOp{
			Op:      jute.OpSetData,
			SetData: jute.SetDataRequest{Path: path, Data: w.Data, Version: client.AnyVersion},
		}
	}
	op := jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: path, Data: w.Data, ACL: ACLRecords(w.ACL)}}
	switch {
	case w.Container:
		op.Op, op.Create.Flags = jute.OpCreateContainer, jute.Container
	case w.TTL != 0:
		op.Op, op.Create.Flags, op.TTL = jute.OpCreateTTL, jute.PersistentWithTTL, w.TTL
	}
	return op
}
