package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/zk/jute"
)

const (
	// configPath is the node of the ensemble's configuration, whatever the shell's root is.
	configPath = "/zookeeper/config"
	// maxConfigFile limits the bytes that are read of a file with members.
	maxConfigFile = 1 << 20
)

func (s *Shell) printConfig(ctx context.Context, a *arguments) error {
	var data []byte
	var stat jute.Stat
	err := s.session.sendWatching(ctx, configPath, watchKindIf(a.hasFlag("w"), watchData),
		func(ctx context.Context, space nodes.Space) (err error) {
			space.Root = ""
			data, stat, err = space.Get(ctx, configPath)
			return err
		})
	if err != nil {
		return err
	}
	text := textOrNull(data)
	if a.hasFlag("c") {
		text = clientAddresses(text)
	}
	s.screen.print(text + "\n")
	s.screen.printStatIf(a.hasFlag("s"), stat)
	return nil
}

// clientAddresses returns "version host:port,…" for a configuration with lines such as
// "server.1=host:2888:3888:participant;host:2181".
func clientAddresses(config string) string {
	version := ""
	var addrs []string
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "version":
			version = value
		case strings.HasPrefix(key, "server."):
			_, addr, found := strings.Cut(value, ";")
			if !found {
				continue
			}
			if _, err := strconv.Atoi(addr); err == nil {
				addr = "0.0.0.0:" + addr
			}
			addrs = append(addrs, addr)
		}
	}
	return version + " " + strings.Join(addrs, ",")
}

// reconfigure requests another server list. Rollcall rejects that; ZooKeeper may allow it.
func (s *Shell) reconfigure(ctx context.Context, a *arguments) error {
	rec := client.Reconfiguration{Version: -1}
	whole := a.hasFlag("file") || a.hasFlag("members")
	switch {
	case !whole && !a.hasFlag("add") && !a.hasFlag("remove"):
		return errUsage
	case a.hasFlag("v"):
		n, err := strconv.ParseInt(a.optionValues["v"], 16, 64)
		if err != nil {
			return zkCliError("-v must be followed by a long (configuration version)")
		}
		rec.Version = n
	}
	switch {
	case whole && (a.hasFlag("add") || a.hasFlag("remove")):
		return zkCliError("Can't use -file or -members together with -add or -remove (mixing incremental and " +
			"non-incremental modes is not allowed)")
	case a.hasFlag("file") && a.hasFlag("members"):
		return zkCliError("Can't use -file and -members together (conflicting non-incremental modes)")
	}
	for flag, into := range map[string]*[]string{"add": &rec.Joining, "remove": &rec.Leaving, "members": &rec.Members} {
		if a.hasFlag(flag) {
			*into = []string{strings.ToLower(a.optionValues[flag])}
		}
	}
	if a.hasFlag("file") {
		members, err := readServerLines(a.optionValues["file"])
		if err != nil {
			return zkCliError(fmt.Sprintf("Error processing %s: %v", a.optionValues["file"], err))
		}
		rec.Members = []string{members}
	}
	var list []byte
	var stat client.Stat
	err := s.session.sendWhenConnected(ctx, "", func(ctx context.Context, space nodes.Space) (err error) {
		list, stat, err = space.Client.Ensemble().Reconfigure(ctx, rec)
		return err
	})
	if err != nil {
		return err
	}
	s.screen.print("Committed new configuration:\n" + textOrNull(list) + "\n")
	s.screen.printStatIf(a.hasFlag("s"), nodes.StatRecord(stat))
	return nil
}

// readServerLines returns the server lines of a configuration file.
func readServerLines(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile))
	if err != nil {
		return "", err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "server.") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n"), nil
}

func (s *Shell) printVersion(_ context.Context, a *arguments) error {
	if len(a.words) > 1 {
		return errUsage
	}
	s.screen.print(s.cfg.Version + "\n")
	return nil
}

func (s *Shell) whoAmI(ctx context.Context, _ *arguments) error {
	var identities []client.Identity
	err := s.session.sendWhenConnected(ctx, "", func(ctx context.Context, space nodes.Space) (err error) {
		identities, err = space.Client.WhoAmI(ctx)
		return err
	})
	if err != nil {
		return err
	}
	s.screen.print("Auth scheme: User\n")
	for _, who := range identities {
		s.screen.printf("%s: %s", s.screen.name(who.Scheme), s.screen.name(who.ID))
	}
	return nil
}
