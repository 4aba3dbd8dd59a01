// Package migrate converts a state from ZooKeeper to Rollcall and back: ExamineImport and ImportPlan.WriteImage make an
// image of Rollcall's state from ZooKeeper's, and ToZooKeeper makes ZooKeeper's state from an image.
//
// Both servers have the same nodes and sessions, so most of a state carries over unchanged. Findings and Losses
// list the exceptions; the commands print them. Nothing here depends on a clock or on randomness: equal states
// give equal bytes, so all members that import the same directories have the same state.
//
// The package opens no file, keeps no state, takes no lock and starts no goroutine. zxids and times are as in
// packages datadir and znode.
package migrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rollcall/migrate/datadir"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// firstImageIndex is the log index of an imported state: the one after raft's first entry.
const firstImageIndex = 2

// maxEpoch is the highest epoch of ZooKeeper that a term can follow. Terms are in the upper half of zxids,
// which are not negative. Half of the range stays free for later elections.
const maxEpoch = math.MaxInt32 / 2

// The nodes that always exist.
const (
	systemPath = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	configPath = "/zookeeper/config"
)

// ImportPlan is a state of ZooKeeper that has been examined for an import. Make one with ExamineImport.
type ImportPlan struct {
	Findings
	state        *datadir.State
	rejectedACLs map[string]*rejectedACL // by scheme
}

// Findings describes an import.
type Findings struct {
	Zxid       int64  // the last one that a client may have seen
	Term       uint64 // the term of the imported state; every zxid of a later term is above Zxid
	Now        int64  // the newest time in the state, in ms since 1970
	Nodes      int    // that carry over
	Bytes      int64  // of their paths and data
	Sessions   int
	Ephemerals int
	Containers int
	TTLs       int
	Quotas     int
	SASL, X509 int      // nodes whose ACL names users of SASL, or subjects of certificates
	NotCarried []string // describes the parts that never carry over
	Rejections []string // the reasons why there can be no import
}

// rejectedACL counts the nodes whose ACLs have entries of one scheme that cannot carry over.
type rejectedACL struct {
	nodeCount int
	firstPath string
}

// ExamineImport plans an import of s. It adds to s the system nodes that an old version of ZooKeeper did not have. s
// must not change afterwards.
func ExamineImport(s *datadir.State) (*ImportPlan, error) {
	p := &ImportPlan{state: s, rejectedACLs: map[string]*rejectedACL{}}
	if err := addSystemNodes(s); err != nil {
		return nil, err
	}
	p.Zxid = max(s.Zxid, s.Epoch<<32)
	p.Term = uint64(max(1, datadir.Epoch(p.Zxid)))
	p.Sessions = len(s.Sessions)
	if s.Zxid < 0 || s.Epoch < 0 || max(s.Epoch, datadir.Epoch(s.Zxid)) > maxEpoch {
		p.addRejection("the last zxid is %#x, of epoch %d; the epoch must be 0 to %d", uint64(s.Zxid), s.Epoch, maxEpoch)
	}
	if _, ok := s.Sessions[0]; ok {
		p.addRejection("there is a session with the id 0")
	}
	if err := s.Walk(p.examineNode); err != nil {
		return nil, err
	}
	for scheme, r := range p.rejectedACLs {
		p.addRejection("%d nodes, such as %q, have ACLs with the scheme %q or an id that is not valid for it; these "+
			"entries would admit no client, so give the nodes other ACLs first (setAcl)", r.nodeCount, r.firstPath, scheme)
	}
	slices.Sort(p.Rejections) // schemes are in the order of a map
	return p, nil
}

func (p *ImportPlan) addRejection(format string, args ...any) {
	p.Rejections = append(p.Rejections, fmt.Sprintf(format, args...))
}

// addSystemNodes adds the nodes that always exist, if they are missing. ZooKeeper 3.4 has no node for the ensemble's
// configuration.
func addSystemNodes(s *datadir.State) error {
	for _, path := range []string{"/", systemPath, quotaPath, configPath} {
		if s.Get(path) != nil {
			continue
		}
		n := datadir.Node{Path: path, Data: []byte{}, ACL: jute.OpenACL}
		if path == configPath {
			n.ACL = []jute.ACL{{Perms: jute.PermRead, ID: jute.OpenACL[0].ID}}
			n.Aversion = -1
		}
		if err := s.Add(n); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	return nil
}

func (p *ImportPlan) examineNode(n *datadir.Node) error {
	p.Now = max(p.Now, n.Ctime, n.Mtime)
	switch p.state.Kind(n) {
	case datadir.Ephemeral:
		p.Ephemerals++
	case datadir.Container:
		p.Containers++
	case datadir.TTL:
		p.TTLs++
	}
	p.Nodes++
	p.Bytes += int64(len(n.Path) + len(n.Data))
	if strings.HasPrefix(n.Path, quotaPath+"/") && strings.HasSuffix(n.Path, "/zookeeper_limits") {
		p.Quotas++
	}
	if n.Path == configPath && !isSetByClient(n) && len(n.Data) > 0 {
		p.NotCarried = append(p.NotCarried,
			"the text of "+configPath+", which is ZooKeeper's server list: members show their own")
	}
	p.examineACL(n)
	return nil
}

func (p *ImportPlan) examineACL(n *datadir.Node) {
	sasl, x509 := 0, 0
	for _, e := range n.ACL {
		scheme := string(e.ID.Scheme)
		switch {
		case !znode.ValidACLEntry(e):
			if p.rejectedACLs[scheme] == nil {
				p.rejectedACLs[scheme] = &rejectedACL{firstPath: n.Path}
			}
			p.rejectedACLs[scheme].nodeCount++
		case scheme == "sasl":
			sasl = 1
		case scheme == "x509":
			x509 = 1
		}
	}
	p.SASL, p.X509 = p.SASL+sasl, p.X509+x509
	if len(n.ACL) == 0 {
		p.addRejection("the node %q has no ACL", n.Path)
	}
}

// isSetByClient reports whether a client has written the configuration node. ZooKeeper's own text has version -1.
func isSetByClient(n *datadir.Node) bool { return n.Mzxid != 0 && n.Version >= 0 }

// highestSessionIDs returns the greatest session id of each upper byte. The member with that byte as its id makes no
// session with an id up to it.
func (p *ImportPlan) highestSessionIDs() (members []znode.MemberProgress) {
	var greatest [256]uint64
	for id := range p.state.Sessions {
		greatest[uint64(id)>>56] = max(greatest[uint64(id)>>56], uint64(id))
	}
	for id, highest := range greatest {
		if highest != 0 {
			members = append(members, znode.MemberProgress{ID: uint32(id), HighestSession: jute.SessionID(highest)})
		}
	}
	return members
}

// sessionIDs returns the ids of all sessions, in the order of an image.
func sessionIDs(s *datadir.State) []jute.SessionID {
	ids := make([]jute.SessionID, 0, len(s.Sessions))
	for id := range s.Sessions {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b jute.SessionID) int { return cmp.Compare(uint64(a), uint64(b)) })
	return ids
}
