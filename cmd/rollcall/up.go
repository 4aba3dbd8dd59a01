package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rollcall/admin"
	"rollcall/config"
	"rollcall/member"
	"rollcall/server"
)

// `rollcall up` uses ZooKeeper's limits of session timeouts for a tick of 2 s. Its own tick is half
// of that, so that a leader is replaced in about half a second.
const (
	upTick       = time.Second
	upMinTimeout = 2 * time.Second
	upMaxTimeout = 40 * time.Second
	upMembers    = 3
	upMaxMembers = 9
)

// upFlags are the flags of `rollcall up`.
type upFlags struct {
	data    string
	port    int
	members int
	verbose bool
}

// up runs a whole ensemble in this process, on loopback, until ctx ends.
func up(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f upFlags
	fs := newFlags("up", "", stderr)
	fs.StringVar(&f.data, "data", "rollcall-data", "`folder` for the members' data, made if missing")
	fs.IntVar(&f.port, "port", 2181, "client `port` of member 1; the others have the next ones. Members talk to each other on the ports 1,000 and 2,000 above, and serve HTTP on those 3,000 above")
	fs.IntVar(&f.members, "members", upMembers, fmt.Sprintf("`number` of members, 1 to %d", upMaxMembers))
	fs.BoolVar(&f.verbose, "v", false, "also print the log lines of the members")
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("up: unexpected argument %q; it takes flags only", fs.Arg(0))
	case f.members < 1 || f.members > upMaxMembers:
		return fmt.Errorf("up: -members %d; allowed are 1 to %d", f.members, upMaxMembers)
	case f.port < 1 || f.port+f.members+3000 > 65535:
		return fmt.Errorf("up: -port %d; allowed are 1 to %d", f.port, 65535-3000-f.members)
	}
	return f.run(ctx, stdout, stderr)
}

func (f upFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	out := &teller{w: stdout, begun: time.Now()}
	servers, connect := f.layout()
	g, ctx := errgroup.WithContext(ctx)
	var ready sync.WaitGroup
	operators := "" // member 1's address for HTTP, if it has one
	for i, s := range servers {
		http := listenHTTP(net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port+3000+i)), "HTTP for operators is not served; -port takes others", slog.New(slog.NewTextHandler(stderr, nil)))
		if i == 0 {
			operators = addrOf(http)
		}
		m, err := f.member(servers, i, http, out, stderr)
		if err != nil {
			return fmt.Errorf("up: member %d: %w", s.ID, err)
		}
		ready.Add(1)
		g.Go(func() error {
			if err := m.Run(ctx); err != nil {
				return fmt.Errorf("up: member %d: %w", s.ID, err)
			}
			return nil
		})
		g.Go(func() error {
			defer ready.Done()
			select {
			case <-m.Ready():
			case <-ctx.Done():
			}
			return nil
		})
	}
	g.Go(func() error {
		ready.Wait()
		if ctx.Err() == nil {
			out.say("ready: connect to %s (data in %s, Ctrl-C stops)", connect, f.data)
			if operators != "" {
				out.say("for operators: http://%s%s on member 1", operators, admin.DefaultCommandURL)
			}
		}
		return nil
	})
	err := g.Wait()
	out.say("stopped")
	return err
}

// layout returns the members with their addresses, and the connect string of clients. Clients connect to
// port, port+1 and so on, and members to the ports 1,000 and 2,000 above.
func (f upFlags) layout() (servers []member.Server, connect string) {
	var addrs []string
	for i := range f.members {
		at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
		servers = append(servers, member.Server{ID: uint32(i + 1), Grpc: at(f.port + 1000 + i), Raft: at(f.port + 2000 + i)})
		addrs = append(addrs, at(f.port+i))
	}
	return servers, strings.Join(addrs, ",")
}

// upText returns the content of /zookeeper/config.
func upText(servers []member.Server, port int) []byte {
	cfg := config.Config{Standalone: len(servers) == 1}
	for i, s := range servers {
		_, quorum, _ := net.SplitHostPort(s.Grpc) // layout joined them
		_, election, _ := net.SplitHostPort(s.Raft)
		q, _ := strconv.Atoi(quorum)
		e, _ := strconv.Atoi(election)
		cfg.Servers = append(cfg.Servers, config.Server{ID: s.ID, Host: "127.0.0.1", QuorumPort: q, ElectionPort: e, ClientHost: "127.0.0.1", ClientPort: port + i})
	}
	return cfg.EnsembleText()
}

func (f upFlags) member(servers []member.Server, i int, http net.Listener, out *teller, stderr io.Writer) (*member.Member, error) {
	clients, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port+i)))
	if err != nil {
		closeListeners(member.Config{Operators: http})
		return nil, err
	}
	level := slog.LevelError // elections and partings are part of starting and stopping
	if f.verbose {
		level = slog.LevelDebug
	}
	cfg := member.Config{
		Settings: config.Settings{
			Dir:  filepath.Join(f.data, strconv.Itoa(i+1)),
			Tick: upTick, MinTimeout: upMinTimeout, MaxTimeout: upMaxTimeout,
			Whitelist: []string{"*"}, Limits: server.Limits{Budget: clientMemory(0, len(servers))},
			HTTP: admin.HTTPSettings{Addr: addrOf(http)},
		},
		ID: servers[i].ID, Servers: servers, Clients: clients, Operators: http,
		Events: out.tell, EnsembleText: upText(servers, f.port), Version: builtFrom().version(), Built: builtFrom().built(),
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	}
	m, err := member.New(cfg)
	if err != nil {
		closeListeners(cfg) // the error of New is the one to return
		return nil, err
	}
	return m, nil
}

// teller prints one line per event, with the seconds since the start. Safe for
// concurrent use.
type teller struct {
	mu    sync.Mutex
	w     io.Writer
	begun time.Time
}

func (t *teller) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A reader that went away is no reason to stop serving.
	_, _ = fmt.Fprintf(t.w, "%8.3f  %s\n", time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (t *teller) tell(e member.Event) {
	switch e.Kind {
	case member.EventLeader:
		t.say("leader elected: member %d, term %d", e.Member, e.Term)
	case member.EventOpened:
		t.say("session opened: %v from %s on member %d, timeout %v", e.Session, e.Address, e.Member, e.Timeout)
	case member.EventMoved:
		if e.From == e.Member {
			t.say("session resumed: %v from %s on member %d, timeout %v", e.Session, e.Address, e.Member, e.Timeout)
			return
		}
		t.say("session moved: %v from member %d to %d, timeout %v", e.Session, e.From, e.Member, e.Timeout)
	case member.EventExpired, member.EventClosed:
		t.say("%s: %v%s", e.Kind, e.Session, ephemerals(e.Ephemerals))
	case member.EventKilled:
		t.say("%s: %v by %s%s", e.Kind, e.Session, e.By, ephemerals(e.Ephemerals))
	case member.EventQuota:
		t.say("quota overused: %s has %d nodes of %d, %d bytes of %d", e.Quota.Path, e.Quota.Count, e.Quota.CountLimit, e.Quota.Bytes, e.Quota.BytesLimit)
	}
}

func ephemerals(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", 1 ephemeral with it"
	}
	return fmt.Sprintf(", %d ephemerals with it", n)
}
