package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/shell"
	"rollcall/client"
)

const historyName = ".rollcall_history"

func newShell(w IOStreams) *cobra.Command {
	link := NewEnsembleFlags(w)
	var timeout time.Duration
	var escape bool
	cmd := &cobra.Command{
		Use: "shell [flags] [VERB ...]", Short: "run the verbs of zkCli.sh, from a prompt, a pipe or the command line",
		GroupID: NodesGroup,
		Long: "Runs commands as ZooKeeper's zkCli.sh does: same verbs, flags, quotes and output. Without a verb it reads " +
			"lines, from a terminal with " +
			"editing, history and completion. With a verb it runs that and ends with its status: 0, 1 if it failed, 127 if " +
			"there is no such verb.",
		Example: "  rollcall shell --hosts 127.0.0.1:2181,127.0.0.1:2182/app\n  rollcall shell ls -R /\n  rollcall shell " +
			"<commands",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := link.shellConfig(args)
			if err != nil {
				return err
			}
			cfg.Timeout, cfg.Escape, cfg.Version = timeout, escape, cmd.Root().Version
			if err := cfg.Check(); err != nil {
				return UsageError.Errorf("shell: %w", err)
			}
			if servers, _, err := client.ParseHostPorts(cfg.Hosts, client.DefaultPort); err == nil {
				if err := CheckClientPorts(cmd.Context(), w, &link.tls, servers); err != nil {
					return fmt.Errorf("shell: %w", err)
				}
			}
			status, err := shell.Run(cmd.Context(), cfg)
			if err == nil && status != 0 {
				err = WithStatus(Status(status), errors.New("")) // the shell has printed the reason
			}
			return err
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows a verb are its flags
	link.registerSessionFlags(cmd, "`host:port,.../root` where members take clients; root is the node that is / here")
	cmd.Flags().DurationVar(&timeout, "timeout", shell.DefaultTimeout, "the session timeout to ask for, a `time`")
	cmd.Flags().BoolVarP(&escape, "escape", "e", false, "escape what is not printable in a pipe, too, and line ends everywhere")
	return cmd
}

// shellConfig returns the configuration of a shell that runs words, if any, as one command.
func (l *EnsembleFlags) shellConfig(words []string) (shell.Config, error) {
	session, err := l.SessionConfig()
	if err != nil {
		return shell.Config{}, err
	}
	w := l.streams
	hosts, _ := l.hostsSetting()
	cfg := shell.Config{
		Hosts: cmp.Or(hosts, defaultHosts), Session: session, In: w.In, Out: w.Out, Err: w.Err,
		InTerminal: w.InTerminal, OutTerminal: w.OutTerminal, ErrTerminal: w.ErrTerminal,
		Colors: w.AllowsColor(), Size: w.TerminalSize, EscapeText: EscapeUnprintable,
	}
	if len(words) > 0 {
		cfg.Command = words
	}
	if home := w.Getenv("HOME"); home != "" {
		cfg.HistoryFile = filepath.Join(home, historyName)
	}
	return cfg, nil
}
