package jute

import "encoding/binary"

// The Append functions write one value at the end of b and return the longer slice, as append does.
// They cannot write lengths beyond 2^31-1: callers must limit what they send.

// AppendBool appends one byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt32 appends an int.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends a long.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBytes appends a string or a buffer, or null if v is nil.
func AppendBytes(b, v []byte) []byte {
	if v == nil {
		return AppendInt32(b, -1)
	}
	return append(AppendInt32(b, int32(len(v))), v...)
}

// AppendString appends a string, which is never null.
func AppendString(b []byte, v string) []byte { return append(AppendInt32(b, int32(len(v))), v...) }

// AppendCount appends the number of elements of a vector; -1 is a null vector.
func AppendCount(b []byte, n int) []byte { return AppendInt32(b, int32(n)) }

// appendStrings appends a vector of strings, or null if v is nil.
func appendStrings(b []byte, v [][]byte) []byte {
	if v == nil {
		return AppendCount(b, -1)
	}
	b = AppendCount(b, len(v))
	for _, s := range v {
		b = AppendBytes(b, s)
	}
	return b
}
