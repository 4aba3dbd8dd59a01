package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"rollcall/member"
)

const recoverWarning = `This is the way out when a majority of the members has lost its data for good.
Member %d goes on with what it has, in a new ensemble of: %s.
Writes that only the lost members had are gone, even if clients were told that they were done.
Recover one member only, the one with the most data. Then start it with this same server list,
and the others with empty folders: it takes them in. Clients are served once a majority is there.
`

// recoverMember lets the survivor of a lost majority start, with the server list of its
// present configuration.
func recoverMember(ctx context.Context, args, env []string, stdout, stderr io.Writer) error {
	yes := false
	cfg, logger, err := configured("recover", args, env, stderr, func(fs *flag.FlagSet) {
		fs.BoolVar(&yes, "yes", false, "do it without asking")
	})
	if err != nil {
		return err
	}
	servers := cfg.voters()
	names := make([]string, 0, len(servers))
	for _, s := range servers {
		names = append(names, fmt.Sprintf("member %d (%s)", s.ID, s.Raft))
	}
	if _, err := fmt.Fprintf(stdout, recoverWarning, cfg.MyID, strings.Join(names, ", ")); err != nil {
		return err
	}
	if !yes {
		if err := confirm(os.Stdin, stdout); err != nil {
			return fmt.Errorf("recover: %w", err)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = member.Recover(member.Recovery{ID: cfg.MyID, Servers: servers, Dir: cfg.DataDir, LogDir: cfg.DataLogDir, Logger: logger})
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "Member %d can be started now.\n", cfg.MyID)
	return err
}

// confirm wants the word yes.
func confirm(in io.Reader, out io.Writer) error {
	if _, err := fmt.Fprint(out, "Type yes to go on: "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}
