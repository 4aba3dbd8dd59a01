package member

import (
	"io"
	"log/slog"

	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/tally"
	"rollcall/znode"
)

// Planting holds the parameters of Plant.
type Planting struct {
	ID          uint32       // the member
	Servers     []Server     // the server list of the new ensemble, this member included
	Dir, LogDir string       // as in Config
	LogKind     disk.LogKind // as in Config
	Logger      *slog.Logger

	Index uint64 // of the image
	// Term is that of the image or a later one, at most quorum.MaxPlantedTerm. The first leader leads in a
	// later term than this, so zxids with Term+1 in their upper half must be above every zxid that a client
	// has seen.
	Term uint64
	// Image writes the image and returns its digest, as an ImageWriter does. Only members that were planted
	// with images of the same digest form an ensemble.
	Image func(w io.Writer) (digest uint64, err error)
}

// Plant fills the empty folders of one member of a new ensemble with a state. All of its members are
// planted with the same state. The folders must not be in use. It is all or nothing: after a crash in the
// middle no member starts there, and Plant can be repeated.
func Plant(p Planting) error {
	return quorum.Plant(quorum.Planting{
		Dir: p.Dir, LogDir: p.LogDir, LogKind: p.LogKind, Self: p.ID, Peers: raftPeers(p.Servers), Logger: p.Logger,
		Machine: machine{state: znode.New(znode.Config{}), damaged: func(error) {}, applied: func() {}, applies: new(tally.Durations)},
		Index:   p.Index, Term: p.Term,
		State: func(w io.Writer) (uint64, error) {
			digest, err := p.Image(w)
			return max(digest, 1), err
		},
	})
}
