package disk

import "os"

// flushSize is how many bytes of a large file are written to the disk at a time. If the system chose
// when to write, it would write all of them when the file is synced, and the log's next writes
// would wait for that. They also wait for each piece. Beside 2,000 writes per second, pieces of 2
// MiB made the slowest hundredth of the writes take 1.6 times as long, and pieces of 256 KiB 1.2
// times.
const flushSize = 256 << 10 // bytes

// GradualFile is a new file that reaches the disk a little at a time while it is written. Only Write
// counts what is written. The file still has to be synced at its end. Make one with NewGradual.
type GradualFile struct {
	*os.File
	writtenBytes, flushedBytes int64 // bytes that were written, and those of them that are on their way to the disk
	writeBack                  func(f *os.File, from, size int64)
}

// NewGradualFile returns a Gradual of an empty file.
func NewGradualFile(f *os.File) *GradualFile { return &GradualFile{File: f, writeBack: writeBack} }

// Write implements io.Writer.
func (g *GradualFile) Write(p []byte) (int, error) {
	n, err := g.File.Write(p)
	if g.writtenBytes += int64(n); g.writtenBytes-g.flushedBytes >= flushSize {
		g.writeBack(g.File, g.flushedBytes, g.writtenBytes-g.flushedBytes)
		g.flushedBytes = g.writtenBytes
	}
	return n, err
}
