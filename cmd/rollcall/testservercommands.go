package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// testServerCommand is one command on the stdin of `rollcall test-server`.
type testServerCommand struct {
	name     string
	required []string // the arguments: SERVER, SESSION, N or DURATION
	optional string   // one more; "": none
	effect   string   // for the help
	do       func(ctx context.Context, e *rollcalltest.Ensemble, a testServerArguments) (reply string, err error)
}

// testServerArguments are the arguments of a command. Those that it does not have are zero.
type testServerArguments struct {
	servers  []*rollcalltest.Server
	session  int64 // 0: any
	number   int
	duration time.Duration
}

// testServerCommands returns all commands, in the order of the help.
func testServerCommands() []testServerCommand {
	return append(clientFaultCommands(), serverFaultCommands()...)
}

// clientFaultCommands returns the commands about sessions and connections.
func clientFaultCommands() []testServerCommand {
	return []testServerCommand{
		{
			"sessions", nil, "", "lists the ids of all sessions",
			func(_ context.Context, e *rollcalltest.Ensemble, _ testServerArguments) (string, error) {
				ids, err := e.Sessions()
				var texts []string
				for _, id := range ids {
					texts = append(texts, jute.SessionID(id).String())
				}
				return strings.Join(texts, " "), err
			},
		},
		{
			"expire",
			[]string{"SESSION"},
			"", "ends a session as if it had been silent for too long",
			func(_ context.Context, e *rollcalltest.Ensemble, a testServerArguments) (string, error) {
				return "", e.ExpireSession(a.session)
			},
		},
		{
			"drop-connections", nil, "SESSION", "breaks all connections, or those of a session; says how many",
			func(_ context.Context, e *rollcalltest.Ensemble, a testServerArguments) (string, error) {
				return strconv.Itoa(e.DropConnections(a.session)), nil
			},
		},
		{
			"lose-reply",
			[]string{"N"},
			"SESSION", "carries out the N-th request, and breaks its connection",
			func(_ context.Context, e *rollcalltest.Ensemble, a testServerArguments) (string, error) {
				return "", e.LoseReply(a.session, a.number)
			},
		},
		{
			"lose-request",
			[]string{"N"},
			"SESSION", "breaks the connection before the N-th request is carried out",
			func(_ context.Context, e *rollcalltest.Ensemble, a testServerArguments) (string, error) {
				return "", e.LoseRequest(a.session, a.number)
			},
		},
		{
			"delay-reply",
			[]string{"N", "DURATION"},
			"SESSION", "holds the reply to the N-th request back",
			func(_ context.Context, e *rollcalltest.Ensemble, a testServerArguments) (string, error) {
				return "", e.DelayReply(a.session, a.number, a.duration)
			},
		},
	}
}

// serverFaultCommands returns the commands about servers.
func serverFaultCommands() []testServerCommand {
	return []testServerCommand{
		{
			"leader", nil, "", "says which server leads",
			func(_ context.Context, e *rollcalltest.Ensemble, _ testServerArguments) (string, error) {
				if leader := e.Leader(); leader != nil {
					return strconv.Itoa(leader.Number()), nil
				}
				return "", errors.New("no server leads")
			},
		},
		{
			"kill-leader", nil, "", "kills the leader as a crash would; says which server that was",
			func(_ context.Context, e *rollcalltest.Ensemble, _ testServerArguments) (string, error) {
				leader, err := e.KillLeader()
				if err != nil {
					return "", err
				}
				return strconv.Itoa(leader.Number()), nil
			},
		},
		oneServer("kill", "kills a server as a crash would", (*rollcalltest.Server).Kill),
		oneServer("restart", "starts a server that was killed, with what it had stored", (*rollcalltest.Server).Restart),
		oneServer("pause", "stops a server, as SIGSTOP stops a process", (*rollcalltest.Server).Pause),
		oneServer("resume", "ends pause", (*rollcalltest.Server).Resume),
		{
			"partition",
			[]string{"SERVER", "SERVER"},
			"", "breaks the network between two servers",
			func(_ context.Context, e *rollcalltest.Ensemble, a testServerArguments) (string, error) {
				return "", e.Partition(a.servers[0], a.servers[1])
			},
		},
		{
			"heal",
			[]string{"SERVER", "SERVER"},
			"", "ends partition",
			func(_ context.Context, e *rollcalltest.Ensemble, a testServerArguments) (string, error) {
				e.Heal(a.servers[0], a.servers[1])
				return "", nil
			},
		},
		{
			"slow-disk",
			[]string{"SERVER", "DURATION"},
			"", "makes each write to a server's disk take so long; 0s ends it",
			func(_ context.Context, _ *rollcalltest.Ensemble, a testServerArguments) (string, error) {
				a.servers[0].SlowDisk(a.duration)
				return "", nil
			},
		},
		{
			"wait-ready", nil, "", "waits until all servers that are up and not paused serve",
			func(ctx context.Context, e *rollcalltest.Ensemble, _ testServerArguments) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, testServerStartTimeout)
				defer cancel()
				return "", e.AwaitReady(ctx)
			},
		},
	}
}

// oneServer returns a command that does something to one server.
func oneServer(name, effect string, do func(*rollcalltest.Server) error) testServerCommand {
	return testServerCommand{
		name,
		[]string{"SERVER"},
		"", effect,
		func(_ context.Context, _ *rollcalltest.Ensemble, a testServerArguments) (string, error) {
			return "", do(a.servers[0])
		},
	}
}

// usage returns a command with its arguments.
func (c testServerCommand) usage() string {
	words := append([]string{c.name}, c.required...)
	if c.optional != "" {
		words = append(words, "["+c.optional+"]")
	}
	return strings.Join(words, " ")
}

// testServerHelp returns the commands with their effects, one per line.
func testServerHelp() string {
	var lines []string
	for _, c := range testServerCommands() {
		lines = append(lines, fmt.Sprintf("  %-34s %s", c.usage(), c.effect))
	}
	return strings.Join(lines, "\n")
}

// doTestServerLine carries out a line, and returns the text to print after "ok".
func doTestServerLine(ctx context.Context, e *rollcalltest.Ensemble, line string) (string, error) {
	words := strings.Fields(line)
	all := testServerCommands()
	i := slices.IndexFunc(all, func(c testServerCommand) bool { return c.name == words[0] })
	if i < 0 {
		var names []string
		for _, c := range all {
			names = append(names, c.name)
		}
		return "", fmt.Errorf("%.40q is no command; there are %s", words[0], strings.Join(names, ", "))
	}
	c := all[i]
	kinds, texts := c.required, words[1:]
	if c.optional != "" && len(texts) > len(kinds) {
		kinds = append(slices.Clone(kinds), c.optional)
	}
	if len(texts) != len(kinds) {
		return "", fmt.Errorf("%s has %d arguments; it must be: %s", c.name, len(texts), c.usage())
	}
	var arguments testServerArguments
	for i, kind := range kinds {
		if err := arguments.parse(e, kind, texts[i]); err != nil {
			return "", fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return c.do(ctx, e, arguments)
}

// parse reads an argument of a kind.
func (a *testServerArguments) parse(e *rollcalltest.Ensemble, kind, text string) (err error) {
	switch kind {
	case "SERVER":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(e.Servers) {
			return fmt.Errorf("%.40q is not the number of a server, which is 1 to %d", text, len(e.Servers))
		}
		a.servers = append(a.servers, e.Servers[n-1])
	case "SESSION":
		if a.session, err = strconv.ParseInt(text, 10, 64); err == nil && a.session != 0 {
			return nil
		}
		id, err := jute.ParseSessionID(text)
		a.session = int64(id)
		return err
	case "N":
		if a.number, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%.40q is not a number", text)
		}
	case "DURATION":
		if a.duration, err = time.ParseDuration(text); err != nil || a.duration < 0 {
			return fmt.Errorf("%.40q is not a duration such as 500ms or 2s", text)
		}
	}
	return nil
}
