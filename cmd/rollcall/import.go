package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/internal/tuning"
	"rollcall/member"
	"rollcall/migrate"
	"rollcall/migrate/datadir"
	"rollcall/operator/backup"
)

// maxSources limits the servers of one import: ZooKeeper has no more in an ensemble.
const maxSources = 255

func newImport(w cli.IOStreams) *cobra.Command {
	i := importer{streams: w, out: cli.NewOutput(w)}
	cmd := &cobra.Command{
		Use: "import [flags] DATADIR[,DATALOGDIR]...", Short: "take over the data of a ZooKeeper ensemble",
		GroupID: cli.RunGroup, Args: cli.RangeArgs(1, maxSources, "directories of ZooKeeper's servers"),
		Long: "Fills the empty directories of one member of a new ensemble with the state of a ZooKeeper ensemble that is " +
			"stopped: all nodes, and all sessions with the passwords that " +
			"their clients hold. Each DATADIR is the dataDir of a ZooKeeper server; a dataLogDir " +
			"follows after a comma. Give the directories of all servers: the state is that of " +
			"the server that ZooKeeper would elect. If something takes connections at the clients' port or at a port of the " +
			"server list, nothing is imported. Run it on the machine of one " +
			"member, with its zoo.cfg and copies of the directories of the other servers. The other members start with " +
			"empty directories and copy its state. With --check, nothing is written, and ZooKeeper may still run if the " +
			"directories are copies. " +
			"docs/moving-in.md has the steps.",
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, args []string) error {
			if i.configFile != "" {
				cfg, log, err := i.flags.loadConfigAndLog(w, []string{i.configFile})
				if err != nil {
					return err
				}
				i.cfg, i.logger = cfg, log.Logger()
			}
			i.commandText = commandLine(cmd, args)
			if err := i.importData(cmd.Context(), parseSources(args)); err != nil {
				return err
			}
			return cli.PrintText(i.out, "", i.result)
		}),
	}
	i.flags.registerFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&i.configFile, "config", "", "`zoo.cfg` of the member to fill")
	flags.BoolVar(&i.checkOnly, "check", false, "write nothing, and say what would carry over; does not need --config")
	flags.BoolVar(&i.allowMinority, "few", false,
		"take the directories of fewer servers than a majority, although the others may have later transactions")
	flags.BoolVar(&i.allowRunning, "although-running", false,
		"import although a server of ZooKeeper seems to run; what it acknowledges from here on is lost")
	flags.BoolVar(&i.readOptions.AsZooKeeper, "as-zookeeper", false,
		"where files are damaged, continue as ZooKeeper would, although transactions may be missing")
	flags.BoolVar(&i.readOptions.NoLogs, "no-logs", false, "take a directory with a snapshot and no log")
	flags.BoolVar(&i.readOptions.TrustEmpty, "trust-empty", false,
		"begin with an empty tree if there are logs and no snapshot (snapshot.trust.empty)")
	flags.BoolVar(&i.readOptions.TTL353, "ttl-353", false,
		"read nodes with a time to live as ZooKeeper 3.5.3 wrote them (emulate353TTLNodes)")
	i.out.Register(cmd)
	return cmd
}

// importer is one run of the command.
type importer struct {
	streams       cli.IOStreams
	out           *cli.Output
	result        cli.ImportResult
	flags         memberFlags
	configFile    string
	commandText   string // to repeat this run
	checkOnly     bool
	allowMinority bool
	allowRunning  bool
	readOptions   datadir.Options

	cfg    config.Config // with --config
	logger *slog.Logger
}

func (i *importer) importData(ctx context.Context, sources []datadir.Directory) error {
	if i.configFile == "" && !i.checkOnly {
		return cli.UsageError.Errorf("--config names no zoo.cfg of the member to fill")
	}
	if err := checkDirectoriesDistinct(sources); err != nil {
		return cli.WithStatus(cli.UsageError, err)
	}
	if i.configFile != "" {
		if err := i.checkMajorityGiven(sources); err != nil {
			return err
		}
	}
	if !i.checkOnly && !i.allowRunning {
		if signs := zooKeeperRunningSigns(ctx, i.cfg, sources, os.DirFS("/")); len(signs) > 0 {
			return cli.Conflict.Errorf("ZooKeeper may still run, or members of the new ensemble do: %s; stop all of ZooKeeper's servers "+
				"first, because what they acknowledge from here on is not imported; --check tries the import with copies "+
				"meanwhile, and --although-running imports nevertheless", strings.Join(signs, "; "))
		}
	}
	plan, err := i.readSources(sources)
	if err != nil {
		return err
	}
	advice := i.configAdvice(plan)
	i.recordPlan(plan, advice)
	if err := i.printIfText(planText(plan, advice)); err != nil {
		return err
	}
	if len(plan.Rejections) > 0 {
		if err := cli.PrintText(i.out, "", i.result); err != nil {
			return err
		}
		return cli.Conflict.Errorf("%d reasons against it: %s", len(plan.Rejections), strings.Join(plan.Rejections, "; "))
	}
	if i.checkOnly {
		digest, err := plan.WriteImage(io.Discard)
		if err != nil {
			return cli.WithStatus(cli.Conflict, err)
		}
		i.result.Digest = backup.FormatDigest(digest)
		return i.printIfText(fmt.Sprintf("The state has the digest %s. Nothing was written.\n", i.result.Digest))
	}
	return i.fillMember(plan)
}

// checkDirectoriesDistinct returns an error if two paths are the same directory, which would count as two servers.
func checkDirectoriesDistinct(given []datadir.Directory) error {
	infos := make([]os.FileInfo, len(given)) // nil if there is none; reading it reports the error
	for i, f := range given {
		infos[i], _ = os.Stat(f.Data)
		for k, other := range infos[:i] {
			if infos[i] != nil && other != nil && os.SameFile(other, infos[i]) {
				return fmt.Errorf("%s and %s are the same directory: give the directories of each server once", given[k].Data, f.Data)
			}
		}
	}
	return nil
}

// checkMajorityGiven returns an error unless the directories of a majority are given. Acknowledged writes are in the
// logs of a majority of ZooKeeper's voters, so any majority has them.
func (i *importer) checkMajorityGiven(given []datadir.Directory) error {
	voters, directories := countVoters(ensembleServers(i.cfg), given)
	if directories <= voters/2 && !i.allowMinority {
		err := fmt.Errorf("the directories of %d of %d servers that vote are given, and the others may have later "+
			"transactions: give those of a majority, or --few if there are no others", directories, voters)
		if voters < len(ensembleServers(i.cfg)) {
			err = fmt.Errorf("%w; an observer's directory does not count, and any directory without its file myid may be one's",
				err)
		}
		return cli.WithStatus(cli.UsageError, err)
	}
	if dir := i.cfg.LogDir; dir == "" || filepath.Clean(dir) == filepath.Clean(i.cfg.Dir) || i.readOptions.NoLogs {
		return nil
	}
	// Old logs may be left in a dataDir, so each directory needs its dataLogDir.
	without := slices.IndexFunc(given, func(f datadir.Directory) bool { return f.Logs == "" })
	if without < 0 {
		return nil
	}
	return cli.UsageError.Errorf("%s has a dataLogDir, and that of %[2]s is not given: name it after a comma, as in %[2]s,LOGS, or as "+
		"%[2]s,%[2]s if this server keeps its logs in its dataDir; or give --no-logs if there are none", i.configFile,
		given[without].Data)
}

// countVoters returns the number of voters, and how many of the directories certainly belong to voters. The
// file myid identifies a directory's server. Without it, or with a number that no server has, the server may be any observer
// that is not identified.
func countVoters(servers []member.Server, given []datadir.Directory) (voters, directories int) {
	known, observers := map[string]bool{}, map[string]bool{}
	for _, s := range servers {
		known[fmt.Sprint(s.ID)] = true
		if s.Observer {
			observers[fmt.Sprint(s.ID)] = true
		}
	}
	voters = len(servers) - len(observers)
	unknown := 0
	for _, f := range given {
		switch id, err := os.ReadFile(filepath.Join(f.Data, "myid")); {
		case err != nil || !known[strings.TrimSpace(string(id))]: // ids may change with the move
			unknown++
		case observers[strings.TrimSpace(string(id))]:
			delete(observers, strings.TrimSpace(string(id)))
		default:
			directories++
		}
	}
	return voters, directories + max(0, unknown-len(observers))
}

func (i *importer) readSources(sources []datadir.Directory) (*migrate.ImportPlan, error) {
	reading := cli.NewProgress(i.streams, "reading ZooKeeper's files", 0)
	defer reading.Done()
	i.readOptions.CheckRoom = newMemoryGuard(tuning.FreeMemory()).checkHeap
	state, report, err := datadir.Read(sources, i.readOptions)
	if err != nil {
		return nil, err
	}
	i.result.Read = cli.ImportSource{
		Data: report.Directory.Data, Logs: report.Directory.Logs, ServerReason: report.ChoiceReason,
		Snapshot:     report.Snapshot,
		Transactions: report.Transactions, Digests: report.Digests, Notes: nonNilList(report.Notes),
		Losses: nonNilList(report.Losses),
	}
	if err := i.printIfText(reportText(report)); err != nil {
		return nil, err
	}
	return migrate.ExamineImport(state)
}

// parseSources parses arguments such as DATADIR,DATALOGDIR.
func parseSources(sources []string) (directories []datadir.Directory) {
	for _, text := range sources {
		data, logs, _ := strings.Cut(text, ",")
		directories = append(directories, datadir.Directory{Data: data, Logs: logs})
	}
	return directories
}

// fillMember fills the member's directories.
func (i *importer) fillMember(plan *migrate.ImportPlan) (err error) {
	warnMissingParent(i.cfg, i.logger)
	writing := cli.NewProgress(i.streams, "writing the member's files", 0)
	i.result.Digest, err = seedMember(i.cfg, i.logger, plan.ImageHead(), plan.Term, i.commandText, plan.WriteImage)
	writing.Done()
	if err != nil {
		return err
	}
	i.result.Member, i.result.Data = i.cfg.MyID, i.cfg.Dir
	return i.printIfText(fmt.Sprintf("Member %d has the state with digest %s. The others start with empty "+
		"directories, and copy it.\nStart it with: rollcall serve %s\n", i.cfg.MyID, i.result.Digest, i.configFile))
}

// recordPlan records the plan for -o json.
func (i *importer) recordPlan(p *migrate.ImportPlan, advice []string) {
	d := &i.result
	d.Zxid, d.Nodes, d.Bytes, d.Sessions, d.Ephemerals = p.Zxid, p.Nodes, p.Bytes, p.Sessions, p.Ephemerals
	d.Containers, d.TTLs, d.Quotas = p.Containers, p.TTLs, p.Quotas
	d.Dropped, d.Advice, d.Rejected = nonNilList(p.NotCarried), nonNilList(advice), nonNilList(p.Rejections)
}

// nonNilList returns a list that JSON shows as a list even if it is empty.
func nonNilList(texts []string) []string { return append([]string{}, texts...) }

// printIfText prints a text for people. It prints nothing if the output is for programs.
func (i *importer) printIfText(text string) error {
	if !i.out.IsText() {
		return nil
	}
	_, err := io.WriteString(i.streams.Out, text)
	return err
}

// configAdvice returns recommended settings for this state. Without a zoo.cfg it returns nothing.
func (i *importer) configAdvice(plan *migrate.ImportPlan) (lines []string) {
	if i.configFile == "" {
		return nil
	}
	rules := i.cfg.Rules
	for _, row := range []struct {
		needed bool
		text   string
	}{
		{
			plan.TTLs > 0 && !rules.TTLNodes,
			"without extendedTypesEnabled=true, clients cannot create nodes with a time to live; those that there are stay " +
				"as they are",
		},
		{plan.SASL > 0 && !rules.SASL, "without SASL (authProvider.sasl and a JAAS file), permissions of its users are void"},
		{plan.X509 > 0 && !rules.X509, "without TLS for clients (secureClientPort), permissions of subjects of certificates are void"},
		{
			rules.DataQuota > 0 && uint64(plan.Bytes) > rules.DataQuota,
			"dataQuota is smaller than this state: writes that add to it will be rejected",
		},
	} {
		if row.needed {
			lines = append(lines, row.text)
		}
	}
	return lines
}

func reportText(r *datadir.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Read %s: %s and %s after it in %s; %s compared.\n", r.Directory, cmp.Or(r.Snapshot, "an empty tree"),
		cli.FormatCount(r.Transactions, "transaction", "transactions"), cli.FormatCount(len(r.Logs), "log", "logs"),
		cli.FormatCount(r.Digests, "digest", "digests"))
	if r.ChoiceReason != "" {
		fmt.Fprintf(&b, "  chosen: %s\n", r.ChoiceReason)
	}
	return b.String() + cli.JoinFunc(r.Notes, "", func(note string) string { return "  note: " + note + "\n" }) +
		cli.JoinFunc(r.Losses, "", func(loss string) string { return "  lost: " + loss + "\n" })
}

func planText(p *migrate.ImportPlan, advice []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Carries over, up to zxid %#x:\n", p.Zxid)
	for _, row := range []struct {
		n         int
		one, many string
	}{
		{p.Nodes, "node", "nodes"},
		{p.Sessions, "session", "sessions"},
		{p.Ephemerals, "ephemeral node", "ephemeral nodes"},
		{p.Containers, "container", "containers"},
		{p.TTLs, "node with a time to live", "nodes with a time to live"},
		{p.Quotas, "quota", "quotas"},
	} {
		fmt.Fprintf(&b, "  %s\n", cli.FormatCount(row.n, row.one, row.many))
	}
	for _, group := range []struct {
		name string
		rows []string
	}{{"Does not carry over", p.NotCarried}, {"To think of", advice}, {"Prevents the import", p.Rejections}} {
		if len(group.rows) > 0 {
			fmt.Fprintf(&b, "%s:\n  %s\n", group.name, strings.Join(group.rows, "\n  "))
		}
	}
	return b.String()
}
