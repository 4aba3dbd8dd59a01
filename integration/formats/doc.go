// Package formats holds only tests. Every build reads the directory of a member, the backup and the archive that each
// release has left in testdata: docs/formats.md says what may change.
package formats
