package disk

import "os"

// flushSize is the number of bytes of a large file that are written to the disk at a time. If the kernel chose the
// time, it would write the whole file at its sync, and the log's next writes would wait for that. They also wait
// for each piece. Beside 2,000 writes per second, pieces of 2 MiB made the slowest hundredth of the writes take
// 1.6 times as long, and pieces of 256 KiB 1.2 times.
const flushSize = 256 << 10 // bytes

// GradualFile is a new file that is flushed to the disk in pieces while it is written. Only Write counts. The file
// must still be synced at its end. Make one with NewGradualFile.
type GradualFile struct {
	*os.File
	writtenBytes, flushedBytes int64 // flushed: on their way to the disk
	flushRange                 func(f *os.File, from, size int64)
}

func NewGradualFile(f *os.File) *GradualFile { return &GradualFile{File: f, flushRange: flushRange} }

// Write implements io.Writer.
func (g *GradualFile) Write(p []byte) (int, error) {
	n, err := g.File.Write(p)
	if g.writtenBytes += int64(n); g.writtenBytes-g.flushedBytes >= flushSize {
		g.flushRange(g.File, g.flushedBytes, g.writtenBytes-g.flushedBytes)
		g.flushedBytes = g.writtenBytes
	}
	return n, err
}
