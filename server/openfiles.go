package server

import "syscall"

// reservedFiles is how many files a member keeps for itself, and out of its clients' connections: 1,024 connections to its HTTP port
// (see package admin), and as many for a port of its own for metrics, for the connections between members, the log, and snapshots. If
// they were missing, a member with many clients could neither reach a new leader nor be reached.
const reservedFiles = 2048

// reservedShare divides a low limit of open files: so much of it is reserved at most.
const reservedShare = 4

// connLimit returns how many connections clients may have: maxConns, if that is positive, and at most what is left of openFiles, the limit
// of open files of this process. It returns 0 for no limit. openFiles is 0 or negative if there is none, or it is unknown.
func connLimit(maxConns int, openFiles int64) int {
	if openFiles <= 0 {
		return max(maxConns, 0)
	}
	left := int(openFiles - min(openFiles/reservedShare, reservedFiles))
	if maxConns > 0 {
		return min(maxConns, left)
	}
	return left
}

// openFilesLimit returns the limit of open files of this process, or 0 if it is unknown.
func openFilesLimit() int64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int64(limit.Cur)
}
