package integration

// unsynced is the package whose tests take the power from members and commands.
const unsynced = "./integration/power"

// syncMutants are the syncs of files and directories that can be removed. Not here are those that a later sync makes up for before anything is
// promised: of the directory of a new log (wal.go), of the directory above a new data directory if a start was killed in between
// (folder.go), of the directory with a member's number, and of the directory of an audit log that is opened. The first
// lines of an audit log matter only to a loss of power in the first moments of a file.
var syncMutants = []mutant{
	{
		"segment of the log not synced", "quorum/disk/wal.go",
		"\treturn file, nil\n}", "\treturn unsynced{file}, nil\n}\n\ntype unsynced struct{ types.WritableFile }\n\nfunc (unsynced) Sync() error { return nil }",
		unsynced, "^TestAllLosePower$",
	},
	{
		"size of a segment not synced", "quorum/disk/wal.go",
		", file.Sync()); err != nil {", "); err != nil {",
		unsynced, "^TestAllLosePower$",
	},
	{
		"mark of the log not synced", "quorum/disk/walmark.go",
		"\tif first {\n", "\tif first && false {\n",
		unsynced, "^TestAllLosePower$",
	},
	{
		"list of segments not synced", "quorum/disk/logkind.go",
		"\t\tTimeout: boltLockTimeout,", "\t\tNoSync: true, Timeout: boltLockTimeout,",
		unsynced, "^TestAllLosePower$",
	},
	{
		"terms and votes not synced", "quorum/disk/bolt.go",
		"raftboltdb.Options{Path: f.path,", "raftboltdb.Options{NoSync: true, Path: f.path,",
		unsynced, "^TestAllLosePower$",
	},
	{
		"replaced file not synced", "quorum/disk/folder.go",
		"\t\terr = file.Sync()\n", "\t\terr = nil\n",
		unsynced, "^TestAllLosePower$",
	},
	{
		"name of a replaced file not synced", "quorum/disk/folder.go",
		"return syncDir(filepath.Dir(path))", "return nil",
		unsynced, "^TestAllLosePower$",
	},
	{
		"mark of a restore not synced", "quorum/disk/mark.go",
		"errors.Join(err, file.Sync(), file.Close())", "errors.Join(err, file.Close())",
		unsynced, "^TestMarksAreDurable$",
	},
	{
		"name of the mark of a restore not synced", "quorum/disk/mark.go",
		"\tif err == nil {\n\t\terr = syncDir(f.dir)\n", "\tif err == nil {\n\t\terr = nil\n",
		unsynced, "^TestMarksAreDurable$",
	},
	{
		"end of the mark of a restore not synced", "quorum/disk/mark.go",
		"os.ErrNotExist) {\n\t\terr = syncDir(f.dir)\n", "os.ErrNotExist) {\n\t\terr = nil\n",
		unsynced, "^TestMarksAreDurable$",
	},
	{
		"snapshot not synced", "quorum/disk/snapshotfiles.go",
		"errors.Join(k.file.Sync(), k.file.Close())", "k.file.Close()",
		unsynced, "^TestAllLosePower$",
	},
	{
		"name of a snapshot not synced", "quorum/disk/snapshotfiles.go",
		"return syncDir(k.store.dir)", "return nil",
		unsynced, "^TestAllLosePower$",
	},
	{
		"names in a member's directory not synced", "quorum/disk/folder.go",
		"\terr = d.Sync()\n", "\terr = nil\n",
		unsynced, "^TestAllLosePower$",
	},
	{
		"names in a directory not synced", "internal/durable/durable.go",
		"errors.Join(d.Sync(), d.Close())", "d.Close()",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"name of a made directory not synced", "internal/durable/durable.go",
		"return SyncDirectory(filepath.Dir(dir))", "return nil",
		unsynced, "^TestNewDirectoryLosesPower$",
	},
	{
		"number of a member not synced", "config/myid.go",
		"errors.Join(err, f.Sync(), f.Close())", "errors.Join(err, f.Close())",
		unsynced, "^TestNewDirectoryLosesPower$",
	},
	{
		"token of rollcall up not synced", "cmd/rollcall/upfiles.go",
		"\t\terr = f.Sync()\n", "\t\terr = nil\n",
		unsynced, "^TestNewDirectoryLosesPower$",
	},
	{
		"backup not synced", "backup/save.go",
		"errors.Join(p.Sync(), p.Close())", "p.Close()",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"name of a backup not synced", "backup/save.go",
		"\treturn durable.SyncDirectory(p.dir)\n", "\t_ = durable.SyncDirectory\n\treturn nil\n",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"file for ZooKeeper not synced", "zkdata/write.go",
		"\t\terr = f.Sync()\n", "\t\terr = nil\n",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"names of files for ZooKeeper not synced", "zkdata/write.go",
		"if err := durable.SyncDirectory(partial); err != nil {", "if err := error(nil); err != nil {",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"name of an export not synced", "zkdata/write.go",
		"return durable.SyncDirectory(dir)", "return nil",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"dump not synced", "cli/dump.go",
		"\t\terr = f.Sync()\n", "\t\terr = nil\n",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"name of a dump not synced", "cli/dump.go",
		"\treturn durable.SyncDirectory(filepath.Dir(name))\n", "\t_ = durable.SyncDirectory\n\treturn nil\n",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"key not synced", "cmd/rollcall/certs.go",
		"\t\terr = file.Sync()\n", "\t\terr = nil\n",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"name of a key not synced", "cmd/rollcall/certs.go",
		"\treturn durable.SyncDirectory(filepath.Dir(f.path))\n", "\t_ = durable.SyncDirectory\n\treturn nil\n",
		unsynced, "^TestCommandsLosePower$",
	},
	{
		"line of a required audit log not synced", "audit/file.go",
		"(w.synced || first)", "first",
		unsynced, "^TestAuditLosesPower$",
	},
	{
		"name of an audit log not synced", "audit/file.go",
		"\tif err == nil && first {\n", "\tif err == nil && first && false {\n",
		unsynced, "^TestAuditLosesPower$",
	},
	{
		"end of an audit log not synced", "audit/file.go",
		"errors.Join(w.f.Sync(), w.f.Close())", "w.f.Close()",
		unsynced, "^TestAuditLosesPower$",
	},
}
