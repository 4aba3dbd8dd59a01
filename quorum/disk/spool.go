package disk

import (
	"bytes"
	"io"
	"os"
)

// Spool holds a received snapshot until raft has read it. Write it first, then read it from the start after each
// Rewind, then close it.
type Spool interface {
	io.ReadWriter
	Rewind() error
	Close()
}

// NewSpool returns an empty spool: a file in the data directory, or memory if the stores are not files.
func (d *Data) NewSpool() (Spool, error) {
	if d.directories == nil {
		return &memorySpool{}, nil
	}
	return newFileSpool(d.directories[0].dir)
}

type memorySpool struct {
	contents bytes.Buffer
	bytes.Reader
}

func (s *memorySpool) Write(p []byte) (int, error) { return s.contents.Write(p) }

func (s *memorySpool) Rewind() error {
	s.Reset(s.contents.Bytes())
	return nil
}

func (*memorySpool) Close() {}

type fileSpool struct{ *os.File }

func newFileSpool(dir string) (Spool, error) {
	f, err := os.CreateTemp(dir, spoolPrefix+"*"+tmpSuffix)
	if err != nil {
		return nil, err
	}
	return fileSpool{f}, nil
}

func (s fileSpool) Rewind() error {
	_, err := s.Seek(0, io.SeekStart)
	return err
}

func (s fileSpool) Close() {
	_ = s.File.Close() // raft has its contents now, or they are useless
	os.Remove(s.Name())
}
