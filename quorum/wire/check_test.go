package wire

import (
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// Requests that raft would panic at, or that its log would refuse, do not reach it.
func TestCheckRequest(t *testing.T) {
	tooMany := raft.EncodeConfiguration(Configuration(make([]Peer, maxMember+1)))
	configuration := raft.EncodeConfiguration(Configuration([]Peer{{1, "m1:1"}, {255, "m255:1"}}))
	entry := func(change func(*raft.Log)) []*raft.Log {
		list := entries(1, 2)
		change(list[1])
		return list
	}
	tests := []struct {
		name    string
		request any
		right   bool
	}{
		{"heartbeat", &raft.AppendEntriesRequest{Term: 1}, true},
		{"entries", &raft.AppendEntriesRequest{Entries: entries(1, disk.MaxEntry)}, true},
		{"configuration", &raft.AppendEntriesRequest{Entries: entry(func(e *raft.Log) { e.Type, e.Data = raft.LogConfiguration, configuration })}, true},
		{"snapshot", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: configuration}, true},
		{"vote", &raft.RequestVoteRequest{}, true},
		{"no entry", &raft.AppendEntriesRequest{Entries: []*raft.Log{nil}}, false},
		{"gap", &raft.AppendEntriesRequest{PrevLogEntry: 1, Entries: entries(1)}, false},
		{"index", &raft.AppendEntriesRequest{Entries: entry(func(e *raft.Log) { e.Index = 3 })}, false},
		{"type", &raft.AppendEntriesRequest{Entries: entry(func(e *raft.Log) { e.Type = 6 })}, false},
		{"deprecated type", &raft.AppendEntriesRequest{Entries: entry(func(e *raft.Log) { e.Type = raft.LogAddPeerDeprecated })}, false},
		{"too long", &raft.AppendEntriesRequest{Entries: entries(disk.MaxEntry + 1)}, false},
		{"no configuration", &raft.AppendEntriesRequest{Entries: entry(func(e *raft.Log) { e.Type = raft.LogConfiguration })}, false},
		{"wrong configuration", &raft.AppendEntriesRequest{Entries: entry(func(e *raft.Log) { e.Type, e.Data = raft.LogConfiguration, []byte("\x81\xa7Servers\x07") })}, false},
		{"snapshot without configuration", &raft.InstallSnapshotRequest{SnapshotVersion: 1}, false},
		{"snapshot with a configuration of too many servers", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: tooMany}, false},
		{"snapshot with a configuration and more", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: append(slices.Clip(configuration), 0)}, false},
		{"snapshot with half a configuration", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: configuration[:20]}, false},
		{"old snapshot", &raft.InstallSnapshotRequest{Configuration: configuration}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := checkRequest(tt.request); (err == nil) != tt.right {
				t.Errorf("%v", err)
			}
		})
	}
	if err := checkRequest(tests[5].request); !errors.Is(err, errBounds) {
		t.Errorf("%v", err)
	}
}
