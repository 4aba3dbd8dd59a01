//go:build !linux

package disk

import "os"

func allocate(file *os.File, size int64) error { return allocateByWriting(file, size) }

func syncData(file *os.File) error { return file.Sync() }
