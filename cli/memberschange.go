package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
)

// newServerCommand returns the command `rollcall members NAME`. The user must give as many arguments as the parameter arguments
// says, and run gets them. An error about their number calls them what.
func newServerCommand(w IOStreams, name, use, short, long, example string, arguments int, what string, run func(ctx context.Context, k *membersCommand, args []string) error) *cobra.Command {
	k := newMembersCommand(w, name)
	cmd := &cobra.Command{
		Use: name + " [flags] " + use, Short: short, Args: RangeArgs(arguments, arguments, what),
		Long:    long + " It needs the credentials of an administrator, on the machine of a member. It can be stopped and run again: it goes on where it is.",
		Example: "  rollcall members " + name + " --token-file /etc/rollcall/token " + example,
		RunE:    func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), k, args) },
	}
	k.Register(cmd)
	return cmd
}

// newMembersAdd returns the command that adds a server.
func newMembersAdd(w IOStreams) *cobra.Command {
	return newServerCommand(w, "add", "LINE", "add a server, and wait until it votes or observes",
		"Adds the server of a line server.N=host:quorumPort:electionPort[:role];clientPort, which may begin with N=, to the ensemble, and waits until it has copied the log and votes, or until it serves clients, if its role is observer. "+
			"Start the server before: its zoo.cfg has its own line and those of the others, and its data directory is empty.",
		"'server.4=zoo4:2888:3888;2181'", 1, "the line of a server",
		func(ctx context.Context, k *membersCommand, args []string) error {
			s, err := parseServerLine(args[0])
			if err != nil {
				return k.wrapError(err)
			}
			m, err := k.addServer(ctx, s)
			if err != nil {
				return err
			}
			return k.printResult(m, s.ID, roleOutcome(s), fmt.Sprintf("member %d %s", s.ID, roleOutcome(s)))
		})
}

// roleOutcome says what a server does once it is added.
func roleOutcome(s serverlist.Server) string {
	if s.Observer {
		return "observes"
	}
	return "votes"
}

// addServer adds a server unless the list has it, and waits until it votes or observes.
func (k *membersCommand) addServer(ctx context.Context, s serverlist.Server) (api.Members, error) {
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return m, err
	}
	switch known, listed := findServer(m, s.ID); {
	case !listed:
		err = k.requestChange(ctx, m, api.MembersChange{Joining: s.String()})
	case known.ListLine != s.String():
		err = WithStatus(Conflict, k.wrapError(fmt.Errorf("the list has member %d already, as %s; rollcall members address changes its addresses, and rollcall members promote or demote its role", s.ID, known.ListLine)))
	}
	if err != nil {
		return m, err
	}
	return k.awaitJoined(ctx, s)
}

// awaitJoined waits until a server of the list votes or observes.
func (k *membersCommand) awaitJoined(ctx context.Context, s serverlist.Server) (api.Members, error) {
	return k.waitUntil(ctx, s.ID, fmt.Sprintf("the ensemble goes on adding member %d", s.ID), func(m api.Members) bool {
		now, listed := findServer(m, s.ID)
		return listed && now.IsVoter != s.Observer && now.RaftAddress == s.ElectionAddr() && hasJoined(now)
	})
}

// hasJoined reports whether a server is done with joining, and answers.
func hasJoined(s api.Server) bool {
	switch s.State {
	case api.StateSilent, api.StateJoining, api.StateCatchingUp, api.StateNotServing, api.StateLeaving, api.StateRemoved:
		return false
	}
	return true
}

// newMembersRemove returns the command that removes a server.
func newMembersRemove(w IOStreams) *cobra.Command {
	ifExists := false
	cmd := newServerCommand(w, "remove", "ID", "remove a server",
		"Removes a server from the ensemble, and waits until raft's configuration does not have it any more. If it leads, it hands leadership over. Afterwards it serves nobody: stop it. "+
			"A server that is not in the ensemble is an error, unless --if-exists is given. The command refuses if too few of the remaining voters would be alive for a majority, or if one voter would be left, unless --force is given.",
		"4", 1, "the id of a server",
		func(ctx context.Context, k *membersCommand, args []string) error {
			id, err := parseServerID(args[0])
			if err != nil {
				return k.wrapError(err)
			}
			m, err := k.removeServer(ctx, id, ifExists)
			if err != nil {
				return err
			}
			return k.printResult(m, id, "removed", fmt.Sprintf("member %d is not in the ensemble", id))
		})
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "succeed also if the ensemble has no such server")
	return cmd
}

// removeServer removes a server if the list has it, and waits until raft's configuration does not have it. If neither has it, that is an error
// unless ifExists is set.
func (k *membersCommand) removeServer(ctx context.Context, id uint32, ifExists bool) (api.Members, error) {
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return m, err
	}
	switch s, listed := findServer(m, id); {
	case listed:
		if err := k.requestChange(ctx, m, api.MembersChange{Leaving: fmt.Sprint(id)}); err != nil {
			return m, err
		}
	case s.MemberID == 0 && !ifExists:
		return m, WithStatus(NotFound, k.wrapError(fmt.Errorf("the ensemble has no member %d; rollcall members list shows the servers, and --if-exists makes this a success", id)))
	}
	return k.waitUntil(ctx, id, fmt.Sprintf("the ensemble goes on removing member %d", id), func(m api.Members) bool {
		s, listed := findServer(m, id)
		return !listed && (s.MemberID == 0 || s.State == api.StateRemoved)
	})
}

// newMembersReplace returns the command that replaces a server by another one.
func newMembersReplace(w IOStreams) *cobra.Command {
	return newServerCommand(w, "replace", "OLD LINE", "replace a server by another one with a new id",
		"Adds the server of the line, waits until it votes or observes, and then removes the server with the id OLD. Use it for a machine that is lost, or that is to go. The new server has an id of its own; its data directory is empty, "+
			"and it runs already.",
		"3 'server.4=zoo4:2888:3888;2181'", 2, "the id of the old server and the line of the new one",
		func(ctx context.Context, k *membersCommand, args []string) error {
			old, err := parseServerID(args[0])
			if err != nil {
				return k.wrapError(err)
			}
			s, err := parseServerLine(args[1])
			switch {
			case err != nil:
				return k.wrapError(err)
			case s.ID == old:
				return WithStatus(UsageError, k.wrapError(fmt.Errorf("the new server needs another id than %d; rollcall members address gives a server another address", old)))
			}
			return k.replaceServer(ctx, old, s)
		})
}

func (k *membersCommand) replaceServer(ctx context.Context, old uint32, s serverlist.Server) error {
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return err
	}
	_, hasOld := findServer(m, old)
	if _, hasNew := findServer(m, s.ID); !hasOld && !hasNew {
		return WithStatus(NotFound, k.wrapError(fmt.Errorf("the list has no member %d; rollcall members list shows the servers", old)))
	}
	if _, err := k.addServer(ctx, s); err != nil {
		if hasOld {
			err = fmt.Errorf("%w; member %d is still in the ensemble", err, old)
		}
		return err
	}
	m, err = k.removeServer(ctx, old, true)
	if err != nil {
		return err
	}
	return k.printResult(m, s.ID, "replaced", fmt.Sprintf("member %d %s in place of member %d", s.ID, roleOutcome(s), old))
}

// newMembersAddress returns the command that changes the addresses of a server.
func newMembersAddress(w IOStreams) *cobra.Command {
	return newServerCommand(w, "address", "ID LINE", "give a server other addresses",
		"Gives the server other addresses or ports, and waits until raft's configuration has them and the server answers there. Start the server at its new addresses after that, or before.",
		"3 'server.3=zoo3b:2888:3888;2181'", 2, "the id of a server and its new line",
		func(ctx context.Context, k *membersCommand, args []string) error {
			id, err := parseServerID(args[0])
			if err != nil {
				return k.wrapError(err)
			}
			s, err := parseServerLine(args[1])
			switch {
			case err != nil:
				return k.wrapError(err)
			case s.ID != id:
				return WithStatus(UsageError, k.wrapError(fmt.Errorf("the line is that of server %d, not of %d; rollcall members replace replaces one server by another", s.ID, id)))
			}
			return k.changeAddress(ctx, s)
		})
}

// changeAddress gives a server another line.
func (k *membersCommand) changeAddress(ctx context.Context, s serverlist.Server) error {
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return err
	}
	switch known, listed := findServer(m, s.ID); {
	case !listed:
		return WithStatus(NotFound, k.wrapError(fmt.Errorf("the list has no member %d; rollcall members list shows the servers", s.ID)))
	case known.Role != roleName(s):
		return WithStatus(Conflict, k.wrapError(fmt.Errorf("member %d is a %s in the list; rollcall members promote or demote changes the role", s.ID, known.Role)))
	case known.ListLine != s.String():
		if err := k.requestChange(ctx, m, api.MembersChange{Joining: s.String()}); err != nil {
			return err
		}
	}
	if m, err = k.awaitJoined(ctx, s); err != nil {
		return err
	}
	return k.printResult(m, s.ID, "moved", fmt.Sprintf("member %d is at %s", s.ID, s.QuorumAddr()))
}

// roleName returns the role of a server as the list has it.
func roleName(s serverlist.Server) string {
	if s.Observer {
		return "observer"
	}
	return "participant"
}

// newMembersRole returns the command that makes an observer a voter, or a voter an observer.
func newMembersRole(w IOStreams, name string) *cobra.Command {
	short, long := "make an observer a voter", "Makes an observer a participant, and waits until it votes."
	if name == "demote" {
		short, long = "make a voter an observer", "Makes a participant an observer, and waits until it votes no more. If it leads, it hands leadership over. "+
			"The command refuses if too few of the remaining voters would be alive for a majority, or if one voter would be left, unless --force is given."
	}
	return newServerCommand(w, name, "ID", short, long, "4", 1, "the id of a server", func(ctx context.Context, k *membersCommand, args []string) error {
		id, err := parseServerID(args[0])
		if err != nil {
			return k.wrapError(err)
		}
		return k.changeRole(ctx, id, name == "demote")
	})
}

// changeRole gives a server another role, and waits until raft's configuration has it.
func (k *membersCommand) changeRole(ctx context.Context, id uint32, observer bool) error {
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return err
	}
	known, listed := findServer(m, id)
	if !listed {
		return WithStatus(NotFound, k.wrapError(fmt.Errorf("the list has no member %d; rollcall members list shows the servers", id)))
	}
	list, err := serverlist.ParseList(known.ListLine)
	if err != nil {
		return k.wrapError(errors.New("a standalone server has no role to change; docs/runbooks.md says how to make it an ensemble"))
	}
	s := list[0]
	if s.Observer != observer {
		if s.Observer = observer; s.ClientPort == 0 {
			return WithStatus(UsageError, k.wrapError(fmt.Errorf("the list has no port for clients of member %d, which each change must name; rollcall members address %d '%v;clientPort' adds it", id, id, list[0])))
		}
		if err := k.requestChange(ctx, m, api.MembersChange{Joining: s.String()}); err != nil {
			return err
		}
	}
	if m, err = k.awaitJoined(ctx, s); err != nil {
		return err
	}
	return k.printResult(m, id, roleOutcome(s), fmt.Sprintf("member %d %s", id, roleOutcome(s)))
}
