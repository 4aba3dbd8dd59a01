package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

// snapshotTimeout is how long a member may take to write a snapshot.
const snapshotTimeout = 2 * time.Hour

// newSnapshot returns the command that has a member write a snapshot to its disk.
func newSnapshot(w IOStreams) *cobra.Command {
	link, out := NewLink(w), NewOutput(w)
	cmd := &cobra.Command{
		Use: "snapshot [flags]", Short: "have a member write a snapshot to its disk", GroupID: ChangeGroup, Args: RangeArgs(0, 0, "flags only"),
		Long: "Makes the member of this machine write a snapshot of its state to its disk, and waits until it is there. A member does that by itself, too (snapCount). After a snapshot, a start of the member applies less of the log, " +
			"and the member removes the log that the snapshot replaces. The member writes in small steps and serves its clients in between. It writes one snapshot at a time, and rejects a second request. It also rejects the request if its disk may have no room for the state once more, so a snapshot frees no full disk. A snapshot is no backup: rollcall backup save makes one. " +
			"It needs the credentials of an administrator.",
		Example: "  rollcall snapshot --token-file /etc/rollcall/token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := link.FirstAdminClient(cmd.Context())
			if err != nil {
				return err
			}
			if t, ok := admin.HTTPClient.Transport.(*progressTransport); ok {
				t.ResponseHeaderTimeout += snapshotTimeout
			}
			done, err := api.Post[api.Snapshot](cmd.Context(), admin, "snapshot", struct{}{})
			switch {
			case err != nil && mayHaveArrived(err):
				return WithStatus(OutcomeUnknown, fmt.Errorf("snapshot: %s: it is not known whether it is done: %w; rollcall status shows the newest one", admin.BaseURL, err))
			case err != nil:
				return fmt.Errorf("snapshot: %w", withAdviceAt(admin.BaseURL, err))
			}
			text := fmt.Sprintf("member %d: snapshot of index %d, zxid %s, %s, written in %v\n", done.MemberID, done.Index, done.Zxid, FormatSize(done.Bytes), time.Duration(done.TookMs)*time.Millisecond)
			return PrintText(out, text, done)
		},
	}
	link.Register(cmd)
	out.Register(cmd)
	return cmd
}
