package member

import (
	"io"
	"log/slog"

	"rollcall/internal/metrics"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// SeedConfig holds the parameters of Plant.
type SeedConfig struct {
	ID          uint32       // the member
	Servers     []Server     // the server list of the new ensemble, this member included
	Stores      *disk.Stores // as in Config
	Dir, LogDir string       // as in Config
	LogKind     disk.LogKind // as in Config
	Logger      *slog.Logger

	Index uint64 // of the image
	// Term is that of the image or a later one, at most quorum.MaxPlantedTerm. The first leader leads in a
	// later term than this, so zxids with Term+1 in their upper half must be above every zxid that a client
	// has seen.
	Term uint64
	// RetryCommand is the command line that an operator runs again after an error.
	RetryCommand string
	// WriteImage writes the image.
	WriteImage func(w io.Writer) error
}

// SeedMember fills the empty directories of the member that begins a new ensemble with a state. The other members start with empty
// directories and copy the state. The directories must not be in use. It is all or nothing: after an error or a crash in
// the middle no member starts there, and Plant can be repeated.
func SeedMember(p SeedConfig) error {
	return quorum.Seed(quorum.SeedConfig{
		DataDir: p.Dir, LogDir: p.LogDir, Stores: storesOf(p.Stores), LogKind: p.LogKind, MemberID: p.ID, Peers: raftPeers(p.Servers), Logger: p.Logger,
		StateMachine: stateMachine{state: znode.New(znode.Config{}), onDamage: func(error) {}, onApplied: func() {}, applyDurations: new(metrics.Durations)},
		Index:        p.Index, Term: p.Term, WriteState: p.WriteImage, Command: p.RetryCommand,
	})
}
