package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
)

// completeServerCommand completes cmd, which changes one server of the list. Of the arguments in its Use, run gets the
// one named LINE as a server, and the other one as an id.
func (k *membersCommand) completeServerCommand(cmd *cobra.Command,
	run func(ctx context.Context, id uint32, s serverlist.Server) error,
) *cobra.Command {
	arguments := strings.Fields(cmd.Use)[2:] // after the name and [flags]
	names := map[string]string{
		"ID": "the id of a server", "LINE": "the line of a server",
		"OLD LINE": "the id of the old server and the line of the new one",
		"ID LINE":  "the id of a server and its new line",
	}
	cmd.Args = RangeArgs(len(arguments), len(arguments), names[strings.Join(arguments, " ")])
	cmd.Long += " It needs an administrator's credentials on a member's machine, and can be stopped and run again."
	cmd.Example = "  rollcall members " + cmd.Name() + " --token-file /etc/rollcall/token " + cmd.Example
	return k.registerForce(k.registerRun(cmd, func(ctx context.Context, args []string) (err error) {
		var id uint32
		var s serverlist.Server
		for i, text := range args {
			if arguments[i] == "LINE" {
				s, err = parseServerLine(text)
			} else {
				id, err = parseServerID(text)
			}
			if err != nil {
				return err
			}
		}
		return run(ctx, id, s)
	}))
}

func newMembersAdd(w IOStreams) *cobra.Command {
	k := newMembersCommand(w)
	return k.completeServerCommand(&cobra.Command{
		Use: "add [flags] LINE", Short: "add a server, and wait until it votes or observes",
		Long: "Adds the server of a line server.N=host:quorumPort:electionPort[:role];clientPort, which may begin with " +
			"N=, to the " +
			"ensemble, and waits until it has copied the log and votes, or until it serves clients, if its role is observer. " +
			"Start the server before: its zoo.cfg has its own line and those of the others, and its data directory is empty.",
		Example: "'server.4=zoo4:2888:3888;2181'",
	}, func(ctx context.Context, _ uint32, s serverlist.Server) error {
		m, err := k.addServerAndWait(ctx, s)
		if err != nil {
			return err
		}
		return k.printResult(m, s.ID, roleOutcome(s), fmt.Sprintf("member %d %s", s.ID, roleOutcome(s)))
	})
}

func roleOutcome(s serverlist.Server) string {
	if s.Observer {
		return "observes"
	}
	return "votes"
}

// addServerAndWait adds a server unless the list has it, and waits until it votes or observes.
func (k *membersCommand) addServerAndWait(ctx context.Context, s serverlist.Server) (api.Members, error) {
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return m, err
	}
	switch known, listed := findServer(m, s.ID); {
	case !listed:
		err = k.requestChange(ctx, m, api.MembersChange{Joining: s.String()})
	case known.ListLine != s.String():
		err = Conflict.Errorf("the list has member %d already, as %s; rollcall members address changes "+
			"its addresses, "+
			"and rollcall members promote or demote its role", s.ID, known.ListLine)
	}
	if err != nil {
		return m, err
	}
	return k.awaitJoined(ctx, s)
}

func (k *membersCommand) awaitJoined(ctx context.Context, s serverlist.Server) (api.Members, error) {
	return k.pollMembersUntil(ctx, s.ID, fmt.Sprintf("the ensemble is still adding member %d", s.ID),
		func(m api.Members) bool {
			now, listed := findServer(m, s.ID)
			return listed && now.IsVoter != s.Observer && now.RaftAddress == s.ElectionAddr() &&
				!slices.Contains(unjoinedStates, now.State)
		})
}

// unjoinedStates are the states of a server that has not finished joining, or does not reply.
var unjoinedStates = []string{
	api.StateSilent, api.StateJoining, api.StateCatchingUp, api.StateNotServing, api.StateLeaving, api.StateRemoved,
}

func newMembersRemove(w IOStreams) *cobra.Command {
	k, ifExists := newMembersCommand(w), false
	cmd := k.completeServerCommand(&cobra.Command{
		Use: "remove [flags] ID", Short: "remove a server",
		Long: "Removes a server from the ensemble, and waits until raft's configuration does not have it any more. If it " +
			"leads, it " +
			"hands leadership over. Afterwards it serves no clients: stop it. A server that is not in the ensemble is an " +
			"error, unless " +
			"--if-exists is given. " + minorityHelp,
		Example: "4",
	}, func(ctx context.Context, id uint32, _ serverlist.Server) error {
		m, err := k.removeServerAndWait(ctx, id, ifExists)
		if err != nil {
			return err
		}
		return k.printResult(m, id, "removed", fmt.Sprintf("member %d is not in the ensemble", id))
	})
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "succeed also if the ensemble has no such server")
	return cmd
}

const minorityHelp = "The command fails if too few of the remaining voters would be alive for a majority, or if one voter would be " +
	"left, unless --force is given."

// removeServerAndWait removes a server from the list, and waits until raft's configuration has dropped it. Unless
// ifExists is set, it returns an error if neither has the server.
func (k *membersCommand) removeServerAndWait(ctx context.Context, id uint32, ifExists bool) (api.Members, error) {
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
		return m, NotFound.Errorf("the ensemble has no member %d; rollcall members list shows the servers, "+
			"and --if-exists makes this a success", id)
	}
	return k.pollMembersUntil(ctx, id, fmt.Sprintf("the ensemble is still removing member %d", id),
		func(m api.Members) bool {
			s, listed := findServer(m, id)
			return !listed && (s.MemberID == 0 || s.State == api.StateRemoved)
		})
}

func newMembersReplace(w IOStreams) *cobra.Command {
	k := newMembersCommand(w)
	return k.completeServerCommand(&cobra.Command{
		Use: "replace [flags] OLD LINE", Short: "replace a server by another one with a new id",
		Long: "Adds the server of the line, waits until it votes or observes, and then removes the server with the id " +
			"OLD. Use it " +
			"for a machine that is lost, or that is to go. The new server has an id of its own; its data directory is empty, " +
			"and it " +
			"runs already.",
		Example: "3 'server.4=zoo4:2888:3888;2181'",
	}, k.replaceServer)
}

func (k *membersCommand) replaceServer(ctx context.Context, old uint32, s serverlist.Server) error {
	if s.ID == old {
		return UsageError.Errorf("the new server needs another id than %d; rollcall members address gives a server another address",
			old)
	}
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return err
	}
	_, hasOld := findServer(m, old)
	if _, hasNew := findServer(m, s.ID); !hasOld && !hasNew {
		return unlistedError(old)
	}
	if _, err := k.addServerAndWait(ctx, s); err != nil {
		if hasOld {
			err = fmt.Errorf("%w; member %d is still in the ensemble", err, old)
		}
		return err
	}
	m, err = k.removeServerAndWait(ctx, old, true)
	if err != nil {
		return err
	}
	return k.printResult(m, s.ID, "replaced", fmt.Sprintf("member %d %s in place of member %d", s.ID, roleOutcome(s), old))
}

func newMembersAddress(w IOStreams) *cobra.Command {
	k := newMembersCommand(w)
	return k.completeServerCommand(&cobra.Command{
		Use: "address [flags] ID LINE", Short: "give a server other addresses",
		Long: "Gives the server other addresses or ports, and waits until raft's configuration has them and the server " +
			"replies " +
			"there. Start the server at its new addresses after that, or before.",
		Example: "3 'server.3=zoo3b:2888:3888;2181'",
	}, k.changeAddress)
}

func (k *membersCommand) changeAddress(ctx context.Context, id uint32, s serverlist.Server) error {
	if s.ID != id {
		return UsageError.Errorf("the line is that of server %d, not of %d; rollcall members replace replaces one server by another", s.ID, id)
	}
	m, known, err := k.fetchServer(ctx, id)
	switch {
	case err != nil:
		return err
	case known.Role != roleName(s):
		return Conflict.Errorf("member %d is a %s in the list; rollcall members promote or demote changes "+
			"the role",
			id, known.Role)
	case known.ListLine != s.String():
		if err := k.requestChange(ctx, m, api.MembersChange{Joining: s.String()}); err != nil {
			return err
		}
	}
	if m, err = k.awaitJoined(ctx, s); err != nil {
		return err
	}
	return k.printResult(m, id, "moved", fmt.Sprintf("member %d is at %s", id, s.QuorumAddr()))
}

func roleName(s serverlist.Server) string {
	if s.Observer {
		return "observer"
	}
	return "participant"
}

func newMembersPromote(w IOStreams) *cobra.Command {
	k := newMembersCommand(w)
	return k.completeServerCommand(&cobra.Command{
		Use: "promote [flags] ID", Short: "make an observer a voter", Example: "4",
		Long: "Makes an observer a participant, and waits until it votes.",
	}, func(ctx context.Context, id uint32, _ serverlist.Server) error { return k.changeRole(ctx, id, false) })
}

func newMembersDemote(w IOStreams) *cobra.Command {
	k := newMembersCommand(w)
	return k.completeServerCommand(&cobra.Command{
		Use: "demote [flags] ID", Short: "make a voter an observer", Example: "4",
		Long: "Makes a participant an observer, and waits until it votes no more. If it leads, it hands leadership over. " +
			minorityHelp,
	}, func(ctx context.Context, id uint32, _ serverlist.Server) error { return k.changeRole(ctx, id, true) })
}

// changeRole changes a server's role, and waits until raft's configuration has it.
func (k *membersCommand) changeRole(ctx context.Context, id uint32, observer bool) error {
	m, known, err := k.fetchServer(ctx, id)
	if err != nil {
		return err
	}
	list, err := serverlist.ParseList(known.ListLine)
	if err != nil {
		return errors.New("a standalone server has no role to change; docs/runbooks.md says how to make it an ensemble")
	}
	s := list[0]
	if s.Observer != observer {
		if s.Observer = observer; s.ClientPort == 0 {
			return UsageError.Errorf("the list has no port for clients of member %d, which each change must name; "+
				"rollcall members address %d '%v;clientPort' adds it", id, id, list[0])
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
