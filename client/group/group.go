// Package group has the recipes of programs that run several times: ephemeral nodes that come back, membership, and
// partitions that are shared out among the members.
//
// All of them hold for one session and end with it. A program that outlives its sessions calls them in client.Keep.
//
// # Presence
//
// A Presence is an ephemeral node, like Curator's PersistentNode. It exists while the session lives, except from its
// deletion by someone else until the servers have created it again. It is no right: it says that the program was alive
// until at most a session timeout ago.
//
// # Membership
//
// Members of a group are the ephemeral children of a parent: F/<id>, as Curator's GroupMember creates them. The parent
// is a container. kazoo's Party and ShallowParty create such children too, so members of both see each other; their
// names are <hex>__party__ and <hex>-<identifier>. A member whose process has died stays until its session ends. Nodes
// that are not ephemeral are no members.
//
// # Partitions
//
// SharePartitions gives each member a share of N partitions. The members are in F/members. Each partition has a lock,
// F/partitions/<number of four digits>, with the layout of Curator's InterProcessMutex. So no two members own a
// partition, whatever they believe of the group: a member first stops its work on a partition and releases the lock,
// and only then does another member get it. Each member computes the same shares from the list of members. While their
// lists differ, a partition may wait, or stay with its former owner. An owner has a client.Right with a fencing token.
//
// kazoo's SetPartitioner has other nodes and another rule: it makes all members release everything at each change. The
// two do not work together on one parent.
//
// Before a session is handed over to another process (client.HandOver), SharePartitions must have returned: nodes that
// it leaves in the session keep all others from those partitions.
package group

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"rollcall/client"
	"rollcall/client/internal/roster"
	"rollcall/client/recipe"
)

// MaxMembers limits the members that Members and Watch read. More are an error.
const MaxMembers = roster.MaxChildren

// MaxBytes limits the data of all nodes under a parent that Members and Watch keep. More are left out: see
// Member.DataOmitted.
const MaxBytes = roster.MaxBytes

// ErrTooMuchData means that the data of a node were left out because of MaxBytes.
var ErrTooMuchData = roster.ErrTooMuchData

// ErrTooMany means that a parent has more than MaxMembers children.
var ErrTooMany = roster.ErrTooMany

// errBadID means that an id cannot be the name of a node.
var errBadID = errors.New("an id must not be empty, must not be . or .., and must not contain a slash")

// Member is a member of a group.
type Member struct {
	ID      string // the name of its node
	Data    []byte
	Session client.SessionID
	Joined  client.Zxid // when its node was created: a member that comes back has another one

	// DataOmitted is set if Data is nil because the data of the other nodes have used up MaxBytes. Watch reads them when
	// there is room. SharePartitions needs no data.
	DataOmitted bool
}

// Join makes the program a member of the group under parent until Leave or until the session ends. id must be unique
// among the members. Join waits while another session has it, as Announce does.
func Join(ctx context.Context, c *client.Client, parent, id string, data []byte) (*Presence, error) {
	return joinGroup(ctx, c, parent, id, PresenceConfig{Data: data})
}

func joinGroup(ctx context.Context, c *client.Client, parent, id string, cfg PresenceConfig) (*Presence, error) {
	if id == "" || id == "." || id == ".." || strings.Contains(id, "/") {
		return nil, fmt.Errorf("group: join %s as %q: %w", parent, id, errBadID)
	}
	return Announce(ctx, c, recipe.PathOf(parent, id), cfg)
}

// Members returns the members of the group under parent, sorted by id. A parent that does not exist has none. The list
// is as recent as the Client's server: call Client.Sync first if it must be up to date.
func Members(ctx context.Context, c *client.Client, parent string) ([]Member, error) {
	children, err := roster.Read(ctx, c, parent)
	if err != nil {
		return nil, fmt.Errorf("group: members of %s: %w", parent, err)
	}
	return membersOf(children), nil
}

// Watch returns the members of the group under parent, sorted by id, and again after each change of the members or
// their data, until ctx ends. The members of a list are read one after the other, so they need not have existed at the
// same time. A caller that is slower than the changes misses some lists, but always gets the last one.
//
// When ctx or the session ends, or the parent cannot be read, the last pair has the error. After that, and after a
// break out of the loop, no goroutine and no watch is left.
func Watch(ctx context.Context, c *client.Client, parent string) iter.Seq2[[]Member, error] {
	return roster.FollowAs(ctx, c, parent, "group", membersOf)
}

func membersOf(children []roster.Child) []Member {
	members := make([]Member, 0, len(children))
	for _, child := range children {
		if child.Stat.Owner == 0 {
			continue
		}
		members = append(members, Member{
			ID: child.Name, Data: child.Data, Session: child.Stat.Owner, Joined: child.Stat.Created,
			DataOmitted: child.Omitted,
		})
	}
	return members
}
