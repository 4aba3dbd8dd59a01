package cli

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
	"rollcall/operator/backup"
)

const (
	// maxBundleRows bounds each list. All rows of a list are in memory before they are written: 5 MB of
	// sessions.
	maxBundleRows = 10_000
	// bundlePartTimeout bounds each part. The longest is a list of ten pages.
	bundlePartTimeout = 30 * time.Second
)

type bundlePart struct {
	name  string
	fetch func(ctx context.Context, member *api.Client) ([]byte, error)
}

// ensembleParts come from any one member, memberParts from each member.
var (
	ensembleParts = []bundlePart{
		{"status.json", listPartFetcher[api.Member]("status")},
		{"members.json", textPartFetcher("/v1/members")},
		{"sessions.json", listPartFetcher[api.Session]("sessions")},
		{"connections.json", listPartFetcher[api.Connection]("connections")},
		{"ends.json", listPartFetcher[api.End]("ends")},
		{"removals.json", listPartFetcher[api.Removal]("removals")},
		{"slow.json", listPartFetcher[api.SlowRequest]("slow")},
		{"buckets.json", textPartFetcher("/v1/buckets")},
	}
	memberParts = []bundlePart{
		{"config.json", listPartFetcher[api.Setting]("config")},
		{"log.json", textPartFetcher("/v1/log")},
		{"log-level.json", textPartFetcher("/v1/log-level")},
		{"livez.txt", textPartFetcher("/livez")},
		{"readyz.txt", textPartFetcher("/readyz")},
		{"metrics.txt", textPartFetcher("/metrics")},
		{"monitor.json", textPartFetcher("/commands/monitor")},
		{"environment.json", textPartFetcher("/commands/environment")},
		{"dirs.json", textPartFetcher("/commands/dirs")},
		{"goroutines.txt", textPartFetcher("/debug/pprof/goroutine?debug=1")},
		{"heap.pprof", textPartFetcher("/debug/pprof/heap")},
	}
)

func listPartFetcher[T any](of string) func(context.Context, *api.Client) ([]byte, error) {
	return func(ctx context.Context, member *api.Client) ([]byte, error) {
		rows := []T{}
		for row, err := range api.AllRows[T](ctx, member, of, url.Values{}, nil) {
			if err != nil {
				return nil, err
			}
			if rows = append(rows, row); len(rows) == maxBundleRows {
				break
			}
		}
		return json.MarshalIndent(rows, "", " ")
	}
}

func textPartFetcher(at string) func(context.Context, *api.Client) ([]byte, error) {
	return func(ctx context.Context, member *api.Client) ([]byte, error) { return member.GetText(ctx, at) }
}

func newBundle(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	var file string
	cmd := a.registerFlags(&cobra.Command{
		Use: "support-bundle [flags] [FILE]", Short: "put all that helps to find a fault into one archive", GroupID: InspectGroup,
		Args: RangeArgs(0, 1, "at most one file, for the archive"),
		Long: "Writes a tar.gz with the status, sessions, connections, ends, removals and slow requests of the ensemble, and of each " +
			"member at --hosts the configuration, the last lines of the log, " +
			"metrics, the environment of the process, goroutines and a profile of the memory. The file MISSING names what " +
			"could not be collected, with the reason. The archive has " +
			"no passwords, digests, tokens or data of " +
			fmt.Sprintf("nodes. It does have paths, addresses and session ids. A list has at most %d rows. Logs need an "+
				"administrator's credentials, and profiles need them on the member's own machine.", maxBundleRows),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && file != "" {
				return UsageError.Errorf("support-bundle: FILE and --out both name the archive; leave one out")
			}
			file = strings.Join(append(args, file), "")
			members, err := a.ensemble.adminClients(cmd.Context())
			if len(members) == 0 {
				return err
			}
			file = cmp.Or(file, "rollcall-support-"+w.Now().UTC().Format("20060102-150405")+".tar.gz")
			return writeBundle(cmd.Context(), w, a.output, file, members, err)
		},
	})
	registerOutFlag(cmd, &file, "`file` for the archive, in place of the argument; it must not exist (default rollcall-support-TIME.tar.gz)")
	return cmd
}

// writeBundle makes the archive under a temporary name, and renames it when it is complete and durable. A
// crash therefore leaves no partial archive. notFound has the addresses without a member.
func writeBundle(ctx context.Context, w IOStreams, out *Output, file string, members []*api.Client,
	notFound error,
) error {
	part, err := createBundle(file)
	if err != nil {
		return fmt.Errorf("support-bundle: %w; --out takes another name", err)
	}
	zip := gzip.NewWriter(part)
	b := &bundleArchive{
		zip: zip, tar: tar.NewWriter(zip), createdAt: w.Now(), topDirectory: strings.TrimSuffix(path.Base(file), ".tar.gz"),
		askedMembers: map[uint32]bool{},
		progress:     NewProgress(w, "parts", len(ensembleParts)+len(members)*len(memberParts)),
	}
	defer b.progress.Done()
	b.noteUnfoundAddresses(notFound)
	if err := errors.Join(b.collectParts(ctx, members), b.close()); err != nil {
		return errors.Join(fmt.Errorf("support-bundle: %w", err), part.Abort())
	}
	if err := part.Commit(filepath.Base(file)); err != nil {
		return fmt.Errorf("support-bundle: %w", err)
	}
	for _, line := range b.missingParts {
		_, _ = fmt.Fprintln(w.Err, "missing:", EscapeUnprintable(line)) // it is in the archive, too
	}
	return PrintText(out, file+"\n",
		bundleResult{file, append([]string{}, b.missingParts...), append([]skippedServer{}, b.skippedServers...)})
}

func createBundle(file string) (*backup.PartFile, error) {
	switch _, err := os.Lstat(file); {
	case err == nil:
		return nil, fmt.Errorf("%s: %w", file, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return backup.CreatePart(filepath.Dir(file), filepath.Base(file))
}

type bundleResult struct {
	File           string          `json:"file"`
	Missing        []string        `json:"missing"`   // the parts that failed, with the reasons
	SkippedServers []skippedServer `json:"not_asked"` // missing has a line for each
}

type bundleArchive struct {
	zip          *gzip.Writer
	tar          *tar.Writer
	createdAt    time.Time
	topDirectory string // directory of all files
	missingParts []string

	askedMembers   map[uint32]bool // the members that have files of their own, by id
	skippedServers []skippedServer

	progress *Progress // counts the parts
}

// collectParts collects all parts, and notes those that fail and the servers that it skips.
func (b *bundleArchive) collectParts(ctx context.Context, members []*api.Client) error {
	whole := false // a member has provided the ensemble parts
	var reached []*api.Client
	for _, member := range members {
		if !b.fetchMemberID(ctx, member) {
			b.progress.Add(len(memberParts))
			continue
		}
		reached = append(reached, member)
		directory := strings.NewReplacer("://", "-", ":", "-", "/", "-", "[", "", "]", "").Replace(member.BaseURL)
		if !whole {
			n := len(b.missingParts)
			if err := b.fetchAndAddParts(ctx, "ensemble", member, ensembleParts); err != nil {
				return err
			}
			whole = len(b.missingParts)-n < len(ensembleParts)
		}
		if err := b.fetchAndAddParts(ctx, directory, member, memberParts); err != nil {
			return err
		}
	}
	b.recordUnaskedServers(ctx, reached)
	if ctx.Err() != nil {
		return errBundleStopped
	}
	return b.addFile("MISSING", []byte(strings.Join(append(b.missingParts, ""), "\n")))
}

var errBundleStopped = errors.New("stopped before the archive was complete")

func (b *bundleArchive) fetchAndAddParts(ctx context.Context, directory string, member *api.Client,
	parts []bundlePart,
) error {
	for _, p := range parts {
		timed, stop := context.WithTimeout(ctx, bundlePartTimeout)
		content, err := p.fetch(timed, member)
		stop()
		b.progress.Add(1)
		if err != nil {
			b.missingParts = append(b.missingParts, fmt.Sprintf("%s/%s: %v", directory, p.name, err))
			continue
		}
		if err := b.addFile(path.Join(directory, p.name), content); err != nil {
			return err
		}
	}
	return nil
}

func (b *bundleArchive) addFile(name string, content []byte) error {
	err := b.tar.WriteHeader(&tar.Header{
		Name: path.Join(b.topDirectory, name), Mode: 0o600, Size: int64(len(content)),
		ModTime: b.createdAt,
	})
	if err != nil {
		return err
	}
	_, err = b.tar.Write(content)
	return err
}

func (b *bundleArchive) close() error { return errors.Join(b.tar.Close(), b.zip.Close()) }

type skippedServer struct {
	Member uint32 `json:"member"` // its id; 0: only an address is known
	// where the search was, or its address in the list of servers; "": the list does not say
	Address string `json:"address"`
	Reason  string `json:"reason"`
}

func (n skippedServer) String() string {
	switch {
	case n.Member == 0 && n.Address == "":
		return n.Reason
	case n.Member == 0:
		return fmt.Sprintf("%s: not asked: %s", n.Address, n.Reason)
	case n.Address == "":
		return fmt.Sprintf("member %d: not asked: %s", n.Member, n.Reason)
	}
	return fmt.Sprintf("member %d (%s): not asked: %s", n.Member, n.Address, n.Reason)
}

func (b *bundleArchive) noteSkipped(n skippedServer) {
	b.skippedServers = append(b.skippedServers, n)
	b.missingParts = append(b.missingParts, n.String())
}

// noteUnfoundAddresses notes one address for each line of err.
func (b *bundleArchive) noteUnfoundAddresses(err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		b.noteSkipped(skippedServer{Reason: line})
	}
}

// fetchMemberID gets the member's id. It notes a member that does not reply and returns false.
func (b *bundleArchive) fetchMemberID(ctx context.Context, member *api.Client) bool {
	timed, stop := context.WithTimeout(ctx, bundlePartTimeout)
	defer stop()
	who, err := api.Get[api.Caller](timed, member, "whoami", nil)
	var apiErr *api.Error
	if err != nil && !errors.As(err, &apiErr) {
		b.noteSkipped(skippedServer{Address: member.Name(), Reason: err.Error()})
		return false
	}
	b.askedMembers[who.MemberID] = true
	return true
}

// recordUnaskedServers notes the servers of the ensemble's list that were skipped. The list comes from the
// first member that has it.
func (b *bundleArchive) recordUnaskedServers(ctx context.Context, members []*api.Client) {
	failed := errors.New("no member was reached")
	for _, member := range members {
		timed, stop := context.WithTimeout(ctx, bundlePartTimeout)
		list, err := api.Get[api.Members](timed, member, "members", nil)
		stop()
		if err != nil {
			failed = err
			continue
		}
		silent := map[uint32]string{}
		for _, s := range list.Silent {
			silent[s.MemberID] = silenceReason(s)
		}
		for _, s := range list.Items {
			if b.askedMembers[s.MemberID] {
				continue
			}
			reason := "none of the addresses that were asked is its own; name its port for operators with --admin"
			if why := silent[s.MemberID]; why != "" {
				reason = "the other members get no answer from it either: " + why
			}
			b.noteSkipped(skippedServer{Member: s.MemberID, Address: s.QuorumAddress, Reason: reason})
		}
		return
	}
	b.noteSkipped(skippedServer{Reason: fmt.Sprintf("the list of the ensemble's servers: %v; there may be servers that "+
		"were not asked", failed)})
}
