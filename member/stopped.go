package member

import (
	"log/slog"

	"rollcall/internal/metrics"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// ReadStopped returns the state that the directory of a stopped member has, and how far it goes. It refuses the directories that
// quorum.Replay refuses. dir and logDir are as in Config.
func ReadStopped(dir, logDir string, logger *slog.Logger) (*znode.Snapshot, disk.DataEnd, error) {
	state := znode.New(znode.Config{})
	extent, err := quorum.Replay(quorum.ReplayConfig{
		DataDir: dir, LogDir: logDir, Logger: logger,
		StateMachine: stateMachine{state: state, onDamage: func(error) {}, onApplied: func() {}, applyDurations: new(metrics.Durations)},
	})
	if err != nil {
		return nil, disk.DataEnd{}, err
	}
	return state.Snapshot(), extent, nil
}
