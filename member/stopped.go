package member

import (
	"log/slog"

	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// ReadStopped returns the state in the directory of a stopped member, and its extent. It returns the errors of
// quorum.Replay. dir and logDir are as in Config.
func ReadStopped(dir, logDir string, logger *slog.Logger) (*znode.Snapshot, disk.DataEnd, error) {
	state := znode.New(znode.Config{})
	extent, err := quorum.Replay(quorum.ReplayConfig{
		DataDir: dir, LogDir: logDir, Logger: logger,
		StateMachine: offlineMachine(state),
	})
	if err != nil {
		return nil, disk.DataEnd{}, err
	}
	return state.Snapshot(), extent, nil
}
