package cli

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/shell"
)

// historyName is the file, in the user's home, with the lines of former shells.
const historyName = ".rollcall_history"

// newShell returns the command that runs zkCli.sh's verbs.
func newShell(w IOStreams) *cobra.Command {
	link := NewLink(w)
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "shell [flags] [VERB ...]", Short: "run the verbs of zkCli.sh, from a prompt, a pipe or the command line", GroupID: NodesGroup,
		Long: "Runs commands as ZooKeeper's zkCli.sh does: same verbs, flags, quotes and output. Without a verb it reads lines, from a terminal with " +
			"editing, history and completion. With a verb it runs that and ends with its status: 0, 1 if it failed, 127 if there is no such verb.",
		Example: "  rollcall shell --hosts 127.0.0.1:2181,127.0.0.1:2182/app\n  rollcall shell ls -R /\n  rollcall shell <commands",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := link.shellConfig(args)
			if err != nil {
				return err
			}
			cfg.Timeout, cfg.Version = timeout, cmd.Root().Version
			if err := cfg.Check(); err != nil {
				return WithStatus(UsageError, fmt.Errorf("shell: %w", err))
			}
			status, err := shell.Run(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return SilentExit(Status(status))
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows a verb are its flags
	link.registerHosts(cmd, "`host:port,.../root` where members take clients; root is the node that is / here")
	cmd.Flags().DurationVar(&timeout, "timeout", shell.DefaultTimeout, "the session timeout to ask for, a `time`")
	return cmd
}

// shellConfig returns what a shell has of its surroundings. It runs one command if there are words.
func (l *Link) shellConfig(words []string) (shell.Config, error) {
	auth, err := l.authIdentities()
	if err != nil {
		return shell.Config{}, err
	}
	login, err := l.saslLogin()
	if err != nil {
		return shell.Config{}, err
	}
	dial, err := l.tls.Dialer(l.streams)
	if err != nil {
		return shell.Config{}, err
	}
	w := l.streams
	cfg := shell.Config{
		Hosts: l.hostsText(), Login: login, Auth: auth, Dial: dial, In: w.In, Out: w.Out, Err: w.Err,
		InTerminal: w.InTerminal, OutTerminal: w.OutTerminal, ErrTerminal: w.ErrTerminal,
		Colors: w.allowsColor(), Size: w.TerminalSize, Visible: EscapeUnprintable,
	}
	if len(words) > 0 {
		cfg.Command = words
	}
	if home := w.Getenv("HOME"); home != "" {
		cfg.History = filepath.Join(home, historyName)
	}
	return cfg, nil
}
