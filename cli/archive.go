package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/archive"
	"rollcall/operator/archive/location"
	"rollcall/operator/past"
)

func newArchive(w IOStreams) *cobra.Command {
	return newParentCommand("archive", "check the archive of an ensemble's log", ToolsGroup,
		"say verify: rollcall archive verify DIRECTORY|s3://bucket/prefix", newArchiveVerify(w))
}

// openArchiveStore opens the archive that a user names. The last part of the name may be a log of the archive, which is then returned.
func openArchiveStore(w IOStreams, name string) (store archive.Store, log string, err error) {
	to := strings.TrimSuffix(name, "/")
	if !location.IsBucket(to) {
		if to, err = filepath.Abs(name); err != nil {
			return nil, "", err
		}
	}
	if i := strings.LastIndexByte(to, '/'); i > 0 && archive.IsLogName(to[i+1:]) {
		to, log = to[:i], to[i+1:]
	}
	store, err = location.Open(location.Settings{
		To: to, Endpoint: w.Getenv("AWS_ENDPOINT_URL"), Region: w.Getenv("AWS_REGION"), CredentialsFile: w.Getenv("AWS_SHARED_CREDENTIALS_FILE"),
	})
	return store, log, WithStatus(UsageError, err)
}

// listArchive lists the logs of an archive, or the one of this name.
func listArchive(ctx context.Context, store archive.Store, name, log string) ([]archive.Log, error) {
	logs, err := archive.List(ctx, store)
	if err != nil {
		return nil, err
	}
	if log != "" {
		logs = slices.DeleteFunc(logs, func(l archive.Log) bool { return l.Name != log })
	}
	if len(logs) == 0 {
		return nil, NotFound.Errorf("%s has no log: it is no archive, or no member has sent anything to it yet", name)
	}
	return logs, nil
}

// openArchive opens the log in an archive.
func openArchive(ctx context.Context, w IOStreams, name string, from past.Moment) (KeptLog, error) {
	store, log, err := openArchiveStore(w, name)
	if err != nil {
		return KeptLog{}, err
	}
	logs, err := listArchive(ctx, store, name, log)
	if err != nil {
		return KeptLog{}, err
	}
	if len(logs) > 1 {
		return KeptLog{}, UsageError.Errorf("%s has %d logs; name one of them: %s", name, len(logs),
			JoinFunc(logs, ", ", func(l archive.Log) string { return strings.TrimSuffix(name, "/") + "/" + l.Name }))
	}
	var candidates []KeptLog
	for i, s := range slices.Backward(logs[0].Spans) {
		candidates = append(candidates, KeptLog{
			Chain: archive.NewChain(store, &logs[0], s), Origin: name, Close: func() error { return nil },
		}.beforeGapUnless(i == len(logs[0].Spans)-1))
	}
	return chooseKeptLog(ctx, candidates, from, nil)
}

// archiveRow is what was found of a part of a log without a gap.
type archiveRow struct {
	Log       string    `json:"log"`
	Sound     bool      `json:"sound"`
	From      time.Time `json:"from"` // of the oldest moment that can be built
	FromZxid  string    `json:"from_zxid"`
	To        time.Time `json:"to"`
	ToZxid    string    `json:"to_zxid"`
	Entries   uint64    `json:"entries"`
	Snapshots int       `json:"snapshots"`
	Objects   int       `json:"objects"` // that are sound
	Bytes     int64     `json:"bytes"`
	Damage    []string  `json:"damage"`
}

var archiveColumns = []Column[archiveRow]{
	{
		Name: "sound", Cell: func(r archiveRow) string { return yesOrNO(r.Sound) },
		Tint: func(r archiveRow) Tint { return map[bool]Tint{true: Green, false: Red}[r.Sound] },
	},
	{Name: "from", Cell: func(r archiveRow) string {
		if r.From.IsZero() && r.Sound {
			return "the first entry"
		}
		return formatMoment(r.From)
	}},
	{Name: "to", Cell: func(r archiveRow) string { return formatMoment(r.To) }},
	{Name: "to zxid", Cell: func(r archiveRow) string { return r.ToZxid }},
	{Name: "entries", AlignRight: true, Cell: func(r archiveRow) string { return fmt.Sprint(r.Entries) }},
	{Name: "snapshots", AlignRight: true, Cell: func(r archiveRow) string { return fmt.Sprint(r.Snapshots) }},
	{Name: "objects", AlignRight: true, Cell: func(r archiveRow) string { return fmt.Sprint(r.Objects) }},
	{Name: "size", AlignRight: true, Cell: func(r archiveRow) string { return FormatSize(r.Bytes) }},
	{Name: "log", Cell: func(r archiveRow) string { return r.Log }},
}

func formatMoment(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return formatSecond(at)
}

func newArchiveVerify(w IOStreams) *cobra.Command {
	out := NewOutput(w)
	return out.Register(&cobra.Command{
		Use: "verify [flags] DIRECTORY|s3://BUCKET/PREFIX", Short: "prove that every moment of an archive can be built",
		Args: RangeArgs(1, 1, "the location of an archive"),
		Long: "Reads every object of an archive, checks it, builds all states from the oldest one to the newest, and compares each " +
			"snapshot on the way with the state that the entries give. There is a line for each part of a log without a gap. What is " +
			"damaged is named on stderr: the object, and the moments that cannot be built. If anything is damaged, the exit status is 1. It " +
			"asks no member, and takes the memory of one state. For a bucket, it reads the variables AWS_ACCESS_KEY_ID and " +
			"AWS_SECRET_ACCESS_KEY, or the file that AWS_SHARED_CREDENTIALS_FILE names, AWS_REGION, and AWS_ENDPOINT_URL for a service " +
			"that is not Amazon's.",
		Example: "  rollcall archive verify /mnt/archive\n  AWS_ENDPOINT_URL=https://s3.example:9000 rollcall archive verify s3://bucket/rollcall",
		RunE: PrefixErrors(func(cmd *cobra.Command, args []string) error {
			return verifyArchive(cmd.Context(), w, out, args[0])
		}),
	})
}

func verifyArchive(ctx context.Context, w IOStreams, out *Output, name string) error {
	store, log, err := openArchiveStore(w, name)
	if err != nil {
		return err
	}
	logs, err := listArchive(ctx, store, name, log)
	if err != nil {
		return err
	}
	damaged := 0
	err = PrintRows(out, archiveColumns, func(yield func(archiveRow, error) bool) {
		for i := range logs {
			l := &logs[i]
			damaged += warnOfNames(w, l)
			for _, s := range l.Spans {
				work := NewProgress(w, "reading entries up to "+fmt.Sprint(s.Last), 0)
				v, err := archive.Verify(ctx, store, l, s)
				work.Done()
				for _, text := range v.Damage {
					warnf(w, "archive verify: %s", text)
				}
				damaged += len(v.Damage)
				if !yield(toArchiveRow(v), err) || err != nil {
					return
				}
			}
		}
	})
	if err == nil && damaged > 0 {
		err = errors.New("the archive is damaged, or a part of it is missing")
	}
	return err
}

// warnOfNames warns of what a sender has left, of files that are none of an archive, and of gaps, and returns the number of gaps.
func warnOfNames(w IOStreams, l *archive.Log) (gaps int) {
	for _, dir := range l.Unfinished {
		warnf(w, "archive verify: %s lacks a part: it is being sent, or its sender ended; it is not needed", dir)
	}
	for _, name := range l.Unknown {
		warnf(w, "archive verify: %s is none of the archive's names, and is not read", name)
	}
	if len(l.Spans) == 0 {
		warnf(w, "archive verify: %s has neither entries nor a whole snapshot yet", l.Name)
	}
	for i := 1; i < len(l.Spans); i++ {
		begin, ok := l.Spans[i].Begins()
		if !ok {
			begin = l.Spans[i].Last
		}
		warnf(w, "archive verify: %s has a gap after entry %d: the moments up to index %d cannot be built", l.Name, l.Spans[i-1].Last, begin)
		gaps++
	}
	return gaps
}

func toArchiveRow(v archive.Verified) archiveRow {
	return archiveRow{
		Log: v.Log, Sound: len(v.Damage) == 0, From: v.From.Time, FromZxid: formatZxid(v.From.Zxid), To: v.To.Time, ToZxid: formatZxid(v.To.Zxid),
		Entries: v.Entries, Snapshots: v.Snapshots, Objects: v.Objects, Bytes: v.Bytes, Damage: append([]string{}, v.Damage...),
	}
}
