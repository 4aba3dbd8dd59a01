// Package backup owns the format of backups: one file with the whole state of an ensemble at one index of its
// log.
//
//   - Head: the description of a backup. It is the first line of the file, in JSON.
//   - Writer and Reader: the framing of the state, with checksums and an end.
//   - NewPacedWriter: a writer at a bounded rate.
//   - PartFile: a file that gets its name once it is complete.
//
// The state itself is a stream of package znode. The package has no goroutines and no locks.
package backup
