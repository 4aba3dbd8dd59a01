package member

import (
	"log/slog"

	"rollcall/quorum"
	"rollcall/znode"
)

// Recovery is what Recover needs to know.
type Recovery struct {
	ID          uint32   // this member
	Servers     []Server // the server list from now on, this member included
	Dir, LogDir string   // as in Config
	Logger      *slog.Logger
}

// Recover rewrites the data folder of a stopped member so that it can start without the
// members it knew: the way out when a majority has lost its data for good. What only the
// lost members had is lost, acknowledged or not. The folder must not be in use.
func Recover(r Recovery) error {
	return quorum.Recover(quorum.Recovery{
		Dir: r.Dir, LogDir: r.LogDir, Self: r.ID, Peers: raftPeers(r.Servers),
		Machine: machine{state: znode.New(znode.Config{}), damaged: func(error) {}, applied: func() {}}, Logger: r.Logger,
	})
}
