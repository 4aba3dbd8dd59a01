package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	// maxBundleRows is how many rows of one list a bundle has at most. All rows of a list are in memory
	// before they are written: some 5 MB for sessions.
	maxBundleRows = 10_000
	// bundlePartTimeout is how long one part may take. The longest is a list of ten pages.
	bundlePartTimeout = 30 * time.Second
)

// bundlePart is a file of a bundle. ask gets its content from a member.
type bundlePart struct {
	name  string
	fetch func(ctx context.Context, member *api.Client) ([]byte, error)
}

// ensembleParts is what any member answers for the whole ensemble, and memberParts what each member
// answers for itself.
var (
	ensembleParts = []bundlePart{
		{"status.json", listPart[api.Member]("status")},
		{"members.json", textPart("/v1/members")},
		{"sessions.json", listPart[api.Session]("sessions")},
		{"connections.json", listPart[api.Connection]("connections")},
		{"ends.json", listPart[api.End]("ends")},
		{"removals.json", listPart[api.Removal]("removals")},
		{"buckets.json", textPart("/v1/buckets")},
	}
	memberParts = []bundlePart{
		{"config.json", listPart[api.Setting]("config")},
		{"log.json", textPart("/v1/log")},
		{"log-level.json", textPart("/v1/log-level")},
		{"livez.txt", textPart("/livez")},
		{"readyz.txt", textPart("/readyz")},
		{"metrics.txt", textPart("/metrics")},
		{"monitor.json", textPart("/commands/monitor")},
		{"environment.json", textPart("/commands/environment")},
		{"dirs.json", textPart("/commands/dirs")},
		{"goroutines.txt", textPart("/debug/pprof/goroutine?debug=1")},
		{"heap.pprof", textPart("/debug/pprof/heap")},
	}
)

// listPart returns what asks for the rows of a list.
func listPart[T any](of string) func(context.Context, *api.Client) ([]byte, error) {
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

// textPart returns what asks for the answer at a path.
func textPart(at string) func(context.Context, *api.Client) ([]byte, error) {
	return func(ctx context.Context, member *api.Client) ([]byte, error) { return member.GetText(ctx, at) }
}

// newBundle returns the command that puts all that helps to find a fault into one archive.
func newBundle(w IOStreams) *cobra.Command {
	link, out := NewLink(w), NewOutput(w)
	var file string
	cmd := &cobra.Command{
		Use: "support-bundle [flags]", Short: "put all that helps to find a fault into one archive", GroupID: InspectGroup, Args: RangeArgs(0, 0, "flags only"),
		Long: "Writes a tar.gz with the status, sessions, connections, ends and removals of the ensemble, and of each member at --hosts the configuration, the last lines of the log, " +
			"metrics, the environment of the process, goroutines and a profile of the memory. The file MISSING names what could not be collected, and each server of the ensemble that was not asked, with the reason. The archive has no passwords, digests, tokens or data of " +
			fmt.Sprintf("nodes. It does have paths, addresses and session ids. A list has at most %d rows. Logs and profiles need the credentials of an administrator on the member's own machine.", maxBundleRows),
		RunE: func(cmd *cobra.Command, _ []string) error {
			members, err := link.adminClients(cmd.Context())
			if len(members) == 0 {
				return err
			}
			if file == "" {
				file = "rollcall-support-" + w.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			return writeBundle(cmd.Context(), w, out, file, members, err)
		},
	}
	registerOutFlag(cmd, &file, "`file` for the archive, which must not exist (default rollcall-support-TIME.tar.gz)")
	link.Register(cmd)
	out.Register(cmd)
	return cmd
}

// writeBundle makes the archive. It has its name only when it is whole and durable: until then a machine that loses its power, or a
// command that is killed, would leave a part of it under that name. notFound is about the addresses where no member was found.
func writeBundle(ctx context.Context, w IOStreams, out *Output, file string, members []*api.Client, notFound error) error {
	part, err := createBundle(file)
	if err != nil {
		return fmt.Errorf("support-bundle: %w; --out takes another name", err)
	}
	b := newArchive(part, w.Now(), strings.TrimSuffix(path.Base(file), ".tar.gz"))
	b.progress = NewProgress(w, "parts", len(ensembleParts)+len(members)*len(memberParts))
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
	return PrintText(out, file+"\n", bundleResult{file, append([]string{}, b.missingParts...), append([]skippedServer{}, b.skippedServers...)})
}

// createBundle makes the file that is to become the archive. There must be no file of that name.
func createBundle(file string) (*backup.PartFile, error) {
	switch _, err := os.Lstat(file); {
	case err == nil:
		return nil, fmt.Errorf("%s: %w", file, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return backup.CreatePart(filepath.Dir(file), filepath.Base(file))
}

// bundleResult is an archive that was written, as JSON has it.
type bundleResult struct {
	File           string          `json:"file"`
	Missing        []string        `json:"missing"`   // what could not be had, with the reasons
	SkippedServers []skippedServer `json:"not_asked"` // the servers that were not asked; missing has a line for each
}

// bundleArchive is a bundle that is written.
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

func newArchive(out io.Writer, now time.Time, top string) *bundleArchive {
	zip := gzip.NewWriter(out)
	return &bundleArchive{zip: zip, tar: tar.NewWriter(zip), createdAt: now, topDirectory: top, askedMembers: map[uint32]bool{}}
}

// collectParts asks the members for all parts. A part that cannot be had is noted, and so is a server that was not asked.
func (b *bundleArchive) collectParts(ctx context.Context, members []*api.Client) error {
	whole := false // a member has answered for the ensemble
	var reached []*api.Client
	for _, member := range members {
		if !b.identifyMember(ctx, member) {
			b.progress.Add(len(memberParts))
			continue
		}
		reached = append(reached, member)
		directory := strings.NewReplacer("://", "-", ":", "-", "/", "-", "[", "", "]", "").Replace(member.BaseURL)
		if !whole {
			n := len(b.missingParts)
			if err := b.addParts(ctx, "ensemble", member, ensembleParts); err != nil {
				return err
			}
			whole = len(b.missingParts)-n < len(ensembleParts)
		}
		if err := b.addParts(ctx, directory, member, memberParts); err != nil {
			return err
		}
	}
	b.noteSkippedServers(ctx, reached)
	if ctx.Err() != nil {
		return errBundleStopped
	}
	return b.addFile("MISSING", []byte(strings.Join(append(b.missingParts, ""), "\n")))
}

var errBundleStopped = errors.New("stopped before the archive was complete")

func (b *bundleArchive) addParts(ctx context.Context, directory string, member *api.Client, parts []bundlePart) error {
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
	err := b.tar.WriteHeader(&tar.Header{Name: path.Join(b.topDirectory, name), Mode: 0o600, Size: int64(len(content)), ModTime: b.createdAt})
	if err != nil {
		return err
	}
	_, err = b.tar.Write(content)
	return err
}

func (b *bundleArchive) close() error { return errors.Join(b.tar.Close(), b.zip.Close()) }
