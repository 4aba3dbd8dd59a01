package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/internal/serverlist"
	"rollcall/member"
)

const recoverWarning = `This is the way out when half of the voters or more have lost their data for good: one of two, or two of three.
Member %d begins a new ensemble with what it has, and with these servers: %s.
They are the server lines of its zoo.cfg.
Writes that only the lost members had are gone, even acknowledged ones.
Recover one member only, the one with the most data.
`

// recoverAlone and recoverOthers describe the next step for one server and for several.
const (
	recoverAlone = `Then start it with this same server list. It serves clients at once.
`
	recoverOthers = `Then start it with this same server list, and the others with empty directories: they copy its data.
It refuses members that still have data of the former ensemble.
Clients are served once most voters of the list have the data and vote.
`
)

const recoverCompare = `Of two members, the one with the later term has more data; with equal terms, the one with the greater index.
A stopped member cannot reply. Run this command on each one that has data, answer no, and compare.
`

func newRecover(w cli.IOStreams) *cobra.Command {
	var f memberFlags
	var consent recoverConsent
	out := cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "recover [flags] [zoo.cfg]", Short: "let the survivor of a lost majority begin a new ensemble",
		GroupID: cli.RunGroup, Args: cli.RangeArgs(0, 1, oneFileArgument),
		Long: "Lets the survivor of a lost majority begin a new ensemble with its data, and with the server list in its " +
			"zoo.cfg. The other members start with empty directories, and copy its data. " +
			"Run it on a member that is stopped. Before it changes anything, it prints the cost of the recovery and the " +
			"member with the most data, and asks for confirmation.",
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, args []string) error {
			cfg, log, err := f.loadConfigAndLog(w, args)
			if err != nil {
				return err
			}
			return recoverMember(cmd.Context(), cfg, log.Logger(), consent, w, out)
		}),
	}
	f.registerFlags(cmd)
	out.Register(cmd)
	cmd.Flags().BoolVar(&consent.yes, "yes", false, "do it without asking")
	cmd.Flags().BoolVar(&consent.loseMore, "force", false,
		"do it even if another member is known to have more data, which is lost then")
	cmd.Flags().BoolVar(&consent.otherServers, "other-servers", false,
		"do it even if the server lines of zoo.cfg are not the servers that this member's data have")
	return cmd
}

// recoverConsent holds the operator's agreements from the command line.
type recoverConsent struct{ yes, loseMore, otherServers bool }

// recoverMember begins a new ensemble with the data of the survivor of a lost majority, and with the server
// list in its zoo.cfg.
func recoverMember(ctx context.Context, cfg config.Config, logger *slog.Logger, consent recoverConsent,
	w cli.IOStreams, out *cli.Output,
) error {
	stdout := w.Out
	if !out.IsText() {
		stdout = w.Err // JSON is alone on stdout
	}
	servers := ensembleServers(cfg)
	if slices.ContainsFunc(servers, func(s member.Server) bool { return s.ID == cfg.MyID && s.Observer }) {
		return cli.Conflict.Errorf("member %d is an observer in its zoo.cfg, and the first member of the new ensemble must "+
			"vote; recover a voter, or, if this member has the most data, remove :observer from its line server.%[1]d there "+
			"and run this again", cfg.MyID)
	}
	recovery := member.RecoverConfig{
		ID: cfg.MyID, Servers: servers, Dir: cfg.Dir, LogDir: cfg.LogDir, Trust: cfg.Trust,
		Logger: logger,
	}
	if !consent.otherServers && !cfg.Standalone {
		if err := checkSameServers(cfg, recovery, w.Err); err != nil {
			return err
		}
	}
	asking := cli.NewProgress(w, "asking the other members", 0)
	findings, err := surveyAndCheck(ctx, recovery, consent.loseMore, stdout)
	asking.Done()
	if err != nil {
		return err
	}
	names := cli.JoinFunc(servers, ", ", func(s member.Server) string { return fmt.Sprintf("member %d (%s)", s.ID, s.RaftAddr) })
	next := recoverOthers
	if len(servers) == 1 {
		next = recoverAlone
	}
	if _, err := fmt.Fprintf(stdout, recoverWarning+next, cfg.MyID, names); err != nil {
		return err
	}
	if !consent.yes {
		if err := cli.Confirm(w, ""); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := member.Recover(recovery); err != nil {
		return err
	}
	return cli.PrintText(out, fmt.Sprintf("Member %d can be started now.\n", cfg.MyID), recoveryReport(findings))
}

// checkSameServers returns an error if the server lines of zoo.cfg are not the servers of the member's data. It writes the
// differences and the lines of the data to stderr.
func checkSameServers(cfg config.Config, r member.RecoverConfig, stderr io.Writer) error {
	stored, err := member.DataServers(r)
	if err != nil {
		return err
	}
	differences := serverDifferences(cfg.MyID, cfg.Servers, stored)
	if stored == nil || len(differences) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(stderr, "%s\n\nThe server lines of the data:\n\n%s\n\n", strings.Join(differences, "\n"),
		strings.Join(stored.CanonicalLines(), "\n")); err != nil {
		return err
	}
	return cli.Conflict.Errorf("the server lines of this member's zoo.cfg are not the servers that " +
		"its data have, so members have come in, moved or gone since they were written; nothing was changed. Write the lines of the " +
		"data into zoo.cfg, and run this again. If the new ensemble must have the servers of zoo.cfg, for example because machines " +
		"have other addresses now, give --other-servers")
}

// serverDifferences returns a line for each server in which two lists differ. Addresses for clients do not count, nor does
// the role of self, the member that is recovered: it must be a voter in any case.
func serverDifferences(self uint32, written, stored serverlist.List) (lines []string) {
	essential := func(s serverlist.Server) serverlist.Server {
		s.ClientHost, s.ClientPort = "", 0
		s.Observer = s.Observer && s.ID != self
		return s
	}
	for _, s := range written {
		if had, known := stored.Find(s.ID); !known {
			lines = append(lines, fmt.Sprintf("zoo.cfg has member %d (%s), and the data do not", s.ID, s.QuorumAddr()))
		} else if essential(s) != essential(had) {
			lines = append(lines, fmt.Sprintf("zoo.cfg has %s, and the data have %s", serverlist.List{s}.CanonicalText(),
				serverlist.List{had}.CanonicalText()))
		}
	}
	for _, s := range stored {
		if _, known := written.Find(s.ID); !known {
			lines = append(lines, fmt.Sprintf("the data have member %d (%s), and zoo.cfg does not", s.ID, s.QuorumAddr()))
		}
	}
	return lines
}

// surveyAndCheck prints the extent of the data of this member and of the others that reply. Unless force is
// set, it returns an error if another member has more.
func surveyAndCheck(ctx context.Context, r member.RecoverConfig, force bool, stdout io.Writer) ([]member.Finding,
	error,
) {
	findings, err := member.CollectDataExtents(ctx, r)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(stdout, describeFindings(findings)); err != nil {
		return nil, err
	}
	if force {
		return findings, nil
	}
	return findings, checkFirstHasMost(findings)
}

// recoveryReport returns the report for -o json. The first finding is the survivor's.
func recoveryReport(findings []member.Finding) cli.RecoverResult {
	r := cli.RecoverResult{Member: findings[0].ID, Members: []cli.DataExtent{}}
	for _, f := range findings {
		row := cli.DataExtent{Member: f.ID, Address: f.RaftAddr, Index: f.Index, Term: f.Term}
		if !f.LastTime.IsZero() {
			at := f.LastTime.UTC().Truncate(time.Millisecond)
			row.Written = &at
		}
		if f.Err != nil {
			row.SilentReason = f.Err.Error()
		}
		r.Members = append(r.Members, row)
	}
	return r
}

// checkFirstHasMost returns an error if another member has more data than the first.
func checkFirstHasMost(findings []member.Finding) error {
	most := mostData(findings)
	if !findings[0].Before(most.DataEnd) {
		return nil
	}
	return fmt.Errorf("member %d (%s) has more data than member %d: recover that one, or give --force and lose what "+
		"only that one has",
		most.ID, most.RaftAddr, findings[0].ID)
}

// mostData returns the finding with the most data, and the first of equal ones.
func mostData(findings []member.Finding) member.Finding {
	most := findings[0]
	for _, f := range findings[1:] {
		if most.Before(f.DataEnd) {
			most = f
		}
	}
	return most
}

// describeFindings returns a line for each member.
func describeFindings(findings []member.Finding) string {
	var b strings.Builder
	silent := false
	for _, f := range findings {
		fmt.Fprintf(&b, "Member %d (%s): ", f.ID, f.RaftAddr)
		switch {
		case f.Err != nil:
			silent = true
			b.WriteString("unknown, it does not reply\n")
		case f.Index == 0:
			b.WriteString("no data\n")
		case f.LastTime.IsZero():
			fmt.Fprintf(&b, "data up to index %d of term %d\n", f.Index, f.Term)
		default:
			fmt.Fprintf(&b, "data up to index %d of term %d, written %s\n", f.Index, f.Term,
				f.LastTime.UTC().Format(time.DateTime+" UTC"))
		}
	}
	fmt.Fprintf(&b, "Member %d has the most data%s.\n", mostData(findings).ID,
		map[bool]string{true: " of those that are known"}[silent])
	if silent {
		b.WriteString(recoverCompare)
	}
	return b.String()
}
