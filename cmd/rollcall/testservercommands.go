package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/cli"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// testServerCommand is one command on the stdin of `rollcall test-server`.
type testServerCommand struct {
	// usage is the name and the arguments, which are words such as SERVER. An argument in brackets is optional, and comes last.
	usage  string
	effect string // for the help
	do     func(l *testServerLine) (reply string, err error)
}

// testServerLine is a line that is carried out. The arguments that it does not have are zero.
type testServerLine struct {
	*rollcalltest.Ensemble
	ctx      context.Context
	servers  []*rollcalltest.Server
	session  int64 // 0: any
	number   int
	duration time.Duration
}

// testServerCommands are all commands, in the order of the help.
var testServerCommands = []testServerCommand{
	{"sessions", "lists the ids of all sessions", func(l *testServerLine) (string, error) {
		ids, err := l.Sessions()
		return cli.JoinFunc(ids, " ", func(id int64) string { return jute.SessionID(id).String() }), err
	}},
	{"expire SESSION", "ends a session as if it had been silent for too long", func(l *testServerLine) (string, error) {
		return "", l.ExpireSession(l.session)
	}},
	{
		"drop-connections [SESSION]", "breaks all connections, or those of a session; says how many",
		func(l *testServerLine) (string, error) { return strconv.Itoa(l.DropConnections(l.session)), nil },
	},
	{
		"lose-reply N [SESSION]", "carries out the N-th request, and breaks its connection",
		func(l *testServerLine) (string, error) { return "", l.LoseReply(l.session, l.number) },
	},
	{
		"lose-request N [SESSION]", "breaks the connection before the N-th request is carried out",
		func(l *testServerLine) (string, error) { return "", l.LoseRequest(l.session, l.number) },
	},
	{
		"delay-reply N DURATION [SESSION]", "holds the reply to the N-th request back",
		func(l *testServerLine) (string, error) { return "", l.DelayReply(l.session, l.number, l.duration) },
	},
	{"leader", "says which server leads", func(l *testServerLine) (string, error) {
		if leader := l.Leader(); leader != nil {
			return strconv.Itoa(leader.Number()), nil
		}
		return "", errors.New("no server leads")
	}},
	{"kill-leader", "kills the leader as a crash would; says which server that was", func(l *testServerLine) (string, error) {
		leader, err := l.KillLeader()
		if err != nil {
			return "", err
		}
		return strconv.Itoa(leader.Number()), nil
	}},
	{
		"kill SERVER", "kills a server as a crash would",
		func(l *testServerLine) (string, error) { return "", l.servers[0].Kill() },
	},
	{
		"restart SERVER", "starts a server that was killed, with what it had stored",
		func(l *testServerLine) (string, error) { return "", l.servers[0].Restart() },
	},
	{
		"pause SERVER", "stops a server, as SIGSTOP stops a process",
		func(l *testServerLine) (string, error) { return "", l.servers[0].Pause() },
	},
	{
		"resume SERVER", "ends pause",
		func(l *testServerLine) (string, error) { return "", l.servers[0].Resume() },
	},
	{
		"partition SERVER SERVER", "breaks the network between two servers",
		func(l *testServerLine) (string, error) { return "", l.Partition(l.servers[0], l.servers[1]) },
	},
	{"heal SERVER SERVER", "ends partition", func(l *testServerLine) (string, error) {
		l.Heal(l.servers[0], l.servers[1])
		return "", nil
	}},
	{
		"slow-disk SERVER DURATION", "makes each write to a server's disk take so long; 0s ends it",
		func(l *testServerLine) (string, error) {
			l.servers[0].SlowDisk(l.duration)
			return "", nil
		},
	},
	{
		"wait-ready", "waits until all servers that are up and not paused serve",
		func(l *testServerLine) (string, error) {
			ctx, cancel := context.WithTimeout(l.ctx, testServerStartTimeout)
			defer cancel()
			return "", l.AwaitReady(ctx)
		},
	},
}

func (c testServerCommand) name() string {
	name, _, _ := strings.Cut(c.usage, " ")
	return name
}

// helpLine returns the command with its effect.
func (c testServerCommand) helpLine() string { return fmt.Sprintf("  %-34s %s", c.usage, c.effect) }

// doTestServerLine carries out a line, and returns the text to print after "ok".
func doTestServerLine(ctx context.Context, e *rollcalltest.Ensemble, line string) (string, error) {
	words := strings.Fields(line)
	i := slices.IndexFunc(testServerCommands, func(c testServerCommand) bool { return c.name() == words[0] })
	if i < 0 {
		return "", fmt.Errorf("%.40q is no command; there are %s", words[0],
			cli.JoinFunc(testServerCommands, ", ", testServerCommand.name))
	}
	c := testServerCommands[i]
	kinds, texts := strings.Fields(c.usage)[1:], words[1:]
	if last := len(kinds) - 1; len(texts) == last && strings.HasPrefix(kinds[last], "[") {
		kinds = kinds[:last]
	}
	if len(texts) != len(kinds) {
		return "", fmt.Errorf("%s has %d arguments; it must be: %s", words[0], len(texts), c.usage)
	}
	l := &testServerLine{Ensemble: e, ctx: ctx}
	for i, kind := range kinds {
		if err := l.parse(strings.Trim(kind, "[]"), texts[i]); err != nil {
			return "", fmt.Errorf("%s: %w", words[0], err)
		}
	}
	return c.do(l)
}

// parse reads an argument of a kind.
func (l *testServerLine) parse(kind, text string) (err error) {
	switch kind {
	case "SERVER":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(l.Servers) {
			return fmt.Errorf("%.40q is not the number of a server, which is 1 to %d", text, len(l.Servers))
		}
		l.servers = append(l.servers, l.Servers[n-1])
	case "SESSION":
		if l.session, err = strconv.ParseInt(text, 10, 64); err == nil && l.session != 0 {
			return nil
		}
		id, err := jute.ParseSessionID(text)
		l.session = int64(id)
		return err
	case "N":
		if l.number, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%.40q is not a number", text)
		}
	case "DURATION":
		if l.duration, err = time.ParseDuration(text); err != nil || l.duration < 0 {
			return fmt.Errorf("%.40q is not a duration such as 500ms or 2s", text)
		}
	}
	return nil
}
