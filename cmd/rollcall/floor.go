package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/lab/bench/floor"
)

const floorHelp = `Runs one member of the floor, the simplest ensemble that can answer the cases of bench. Its figures are the least that a row costs on this machine.

It is only for measuring: it loses all nodes when it ends. Member 1 is always the leader and takes all clients, at its --client. The followers write each batch to their disks. With one address in --peers there are no followers.`

// runFloor runs one member of the floor until ctx ends. It collects garbage as a member does.
func runFloor(ctx context.Context, cfg floor.Config, env []string) error {
	serves := make(chan struct{})
	close(serves) // there is no start to wait for
	workCtx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { tuneCollector(workCtx, env, serves) })
	defer background.Wait()
	defer stop()
	return floor.Run(ctx, cfg)
}

// newFloor returns the command that is a member of the floor.
func newFloor(w cli.IOStreams) *cobra.Command {
	var cfg floor.Config
	cmd := &cobra.Command{
		Use: "floor [flags]", Short: "run a member of the simplest ensemble that can be measured", Long: floorHelp,
		Args: cli.RangeArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Check(); err != nil {
				return cli.WithStatus(cli.UsageError, fmt.Errorf("bench floor: %w", err))
			}
			if err := runFloor(cmd.Context(), cfg, w.Env); err != nil {
				return fmt.Errorf("bench floor: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&cfg.Member, "member", 1, "`number` of this member: its place in --peers, from 1; member 1 leads")
	cmd.Flags().StringSliceVar(&cfg.Peers, "peers", nil, fmt.Sprintf("`host:port,...` of all members for each other, 1 to %d", floor.MaxMembers))
	cmd.Flags().StringVar(&cfg.Client, "client", "", "`host:port` where member 1 takes clients; the others take none")
	cmd.Flags().StringVar(&cfg.Data, "data", "", "`directory` for this member's file, which is overwritten")
	return cmd
}
