// Package power holds only tests. The machines of members lose their power, and must lose nothing that they have promised to
// keep. Commands that fill a member's directories are also killed, and find their disk full.
//
// kill -9 leaves the page cache of the system, so a missing fsync is not seen there. Here the processes of the real binary, and
// its commands, run under a recorder. Before the kernel does a system call that changes a file or a directory, the recorder
// notes it (process.Calls). All calls of all members are in one order. What a disk may hold after a loss of power at any place of
// that order is computed afterwards, by volume. The product's own code is not changed, and bbolt is recorded with it.
//
// # What a disk keeps
//
// The rules are those of POSIX, without anything that single file systems promise beyond it:
//
//   - After an fsync or fdatasync of a file, its bytes and its size are kept. Its name is not. Some file systems, such as ext4,
//     also keep the name of a new file then.
//   - After an fsync of a directory, its names are kept. The bytes of the files in it are not.
//   - Any write since the last fsync of its file may be kept or lost, whatever was written before or after it. It may also be torn:
//     each of its sectors, of 512 or 4,096 bytes, is kept or lost. A sector itself is never torn.
//   - A changed size may be kept without the bytes, which then are zeros, and bytes may be lost because the size is. A write that makes a
//     file longer may make it longer by a part.
//   - A name that was made, removed or replaced since the last fsync of its directory may be as it was before, whatever happened
//     to other names. A rename replaces its target and removes its source in one step, and is kept or lost as a whole. One to another
//     directory is kept with the names of both once one of them is synced, as journals of file systems do it.
//   - Nothing else changes. Synced bytes stay, and so do the bytes beside a write.
//
// An fsync counts from when the process calls for it, and the kernel does not do it. Modes of files are kept.
package power
