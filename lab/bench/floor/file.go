package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// fileName is the name of a member's file in its directory.
const fileName = "floor.log"

// file has a member's batches. It is filled with zeros first, because each fdatasync of a file that grows waits for the file
// system's journal. When it is full, new batches overwrite the oldest ones. No code reads it.
type file struct {
	*os.File
	size, at int64
}

func openFile(dir string, size int64) (*file, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, fileName), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size && err == nil; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros, at)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("floor: fill the file: %w", err), f.Close())
	}
	return &file{File: f, size: size}, nil
}

// write returns when the batch is on the disk.
func (f *file) write(batch []byte) error {
	if f.at+int64(len(batch)) > f.size {
		f.at = 0
	}
	n, err := f.WriteAt(batch, f.at)
	if err == nil {
		err = syncData(f.File)
	}
	if err != nil {
		return fmt.Errorf("floor: write a batch: %w", err)
	}
	f.at += int64(n)
	return nil
}
