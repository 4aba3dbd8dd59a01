package member

import (
	"io"
	"log/slog"

	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// SeedConfig holds the parameters of SeedMember.
type SeedConfig struct {
	ID          uint32       // the member
	Servers     []Server     // the server list of the new ensemble, this member included
	Stores      *disk.Stores // as in Config
	Dir, LogDir string       // as in Config
	Logger      *slog.Logger

	Index uint64 // of the image
	// Term is the term of the image or a later one, at most quorum.MaxSeedTerm. The first leader has a later term, so
	// zxids with Term+1 in their upper half must be above every zxid that a client has seen.
	Term uint64
	// RetryCommand is the command line for another attempt after an error.
	RetryCommand string
	// WriteImage writes the image.
	WriteImage func(w io.Writer) error
}

// SeedMember fills the empty directories of the first member of a new ensemble with a state. The other members
// start with empty directories and copy the state. The directories must not be in use. It is atomic: after an
// error or a crash no member starts there, and SeedMember can be repeated.
func SeedMember(p SeedConfig) error {
	return quorum.Seed(quorum.SeedConfig{
		DataDir: p.Dir, LogDir: p.LogDir, Stores: storesOf(p.Stores), MemberID: p.ID,
		Peers: raftPeers(p.Servers), Logger: p.Logger,
		StateMachine: offlineMachine(znode.New(znode.Config{})),
		Index:        p.Index, Term: p.Term, WriteState: p.WriteImage, Command: p.RetryCommand,
	})
}
