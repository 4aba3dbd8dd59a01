package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The text between these lines of storage.md is generated.
const (
	measuredFrom = "<!-- measured: bench/growth.sh writes from here -->\n"
	measuredTo   = "<!-- to here -->\n"
)

// storageRows lists the rows of storage.md's table. Each has the benchmark (%s is the store's name), its unit,
// and a divisor for the table's unit.
var storageRows = []struct {
	row, file, name, from string
	by                    float64
	unit                  string
}{
	{"append 1 entry, until it is on disk", "storage-log", "LogStore/batch=1/store=%s", "ns/op", 1e6, "ms"},
	{"append 16", "storage-log", "LogStore/batch=16/store=%s", "ns/op", 1e6, "ms"},
	{"append 64", "storage-log", "LogStore/batch=64/store=%s", "ns/op", 1e6, "ms"},
	{"append 512", "storage-log", "LogStore/batch=512/store=%s", "ns/op", 1e6, "ms"},
	{"bytes written for 16 entries, log shortened before", "storage-files", "AfterShortening/store=%s", "written-B/op", 1000, "kB"},
	{"delete 50,000 entries", "storage-beside", "WriteBeside/store=%s", "deletion-ms", 1, "ms"},
	{"append 16, with nothing beside it: p99", "storage-beside", "WriteBeside/store=%s", "quiet-p99-µs", 1000, "ms"},
	{"while these 50,000 are deleted: p99", "storage-beside", "WriteBeside/store=%s", "deleting-p99-µs", 1000, "ms"},
	{"the same: the longest", "storage-beside", "WriteBeside/store=%s", "deleting-max-µs", 1000, "ms"},
	{"while a snapshot of 128 MiB is written: p99", "storage-beside", "WriteBeside/store=%s", "snapshot-p99-µs", 1000, "ms"},
	{"open a log of 200,000 entries", "storage-files", "OpenLog/store=%s", "ns/op", 1e6, "ms"},
	{"read an entry", "storage-files", "ReadLog/store=%s", "ns/op", 1000, "µs"},
	{
		"a write of 100 bytes through three members in one process, 1 client of the leader", "storage-write",
		"Write/writers=1/on=leader/store=%s", "ns/op", 1e6, "ms",
	},
	{"the same, 64 clients: per write", "storage-write", "Write/writers=64/on=leader/store=%s", "ns/op", 1e6, "ms"},
}

// storageTable returns the generated text of storage.md, or "" if nothing was measured.
func (k *measurements) storageTable() string {
	var b strings.Builder
	builds := ""
	rows := 0
	fmt.Fprint(&b, "| | boltdb | wal | ratio | runs |\n|---|---|---|---|---|\n")
	for _, r := range storageRows {
		bolt, wal := k.benchSpread(r.file, fmt.Sprintf(r.name, "boltdb"), r.from),
			k.benchSpread(r.file, fmt.Sprintf(r.name, "wal"), r.from)
		cell := func(s spread) string {
			if s.runs == 0 {
				return "-"
			}
			return formatNumber(s.median/r.by) + " " + r.unit
		}
		ratio := "-"
		if bolt.runs > 0 && wal.runs > 0 && wal.median > 0 {
			ratio = formatNumber(bolt.median / wal.median)
		}
		rows += bolt.runs + wal.runs
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d |\n", r.row, cell(bolt), cell(wal), ratio, min(bolt.runs, wal.runs))
		if said := k.benchBuilds[r.file]; said != "" && !strings.Contains(builds, said) {
			builds += "; " + said
		}
	}
	if rows == 0 {
		return ""
	}
	at := k.benchSpread("storage-beside", "WriteBeside/store=boltdb at once", "deletion-ms")
	if at.runs == 0 { // go test prints a space as _
		at = k.benchSpread("storage-beside", "WriteBeside/store=boltdb_at_once", "deletion-ms")
	}
	if at.runs > 0 {
		fmt.Fprintf(&b, "\nBoltDB deletes the 50,000 in 49 steps; in one transaction it takes %s ms, for which one write "+
			"waits.\n", formatNumber(at.median))
	}
	return fmt.Sprintf("Measured by `bench/growth.sh run storage` on the machine of [performance.md](performance.md) "+
		"(build %s):\n"+
		"medians, entries of 150 bytes, fsync on.\n\n%s", strings.TrimPrefix(builds, "; "), b.String())
}

// refreshStorage writes the generated text into storage.md.
func (k *measurements) refreshStorage(file string) error {
	table := k.storageTable()
	text, err := os.ReadFile(file)
	if table == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(measuredFrom))
	_, after, closed := bytes.Cut(rest, []byte(measuredTo))
	if !ok || !closed {
		return fmt.Errorf("%s: the lines %q and %q are missing", file, measuredFrom, measuredTo)
	}
	return os.WriteFile(file, bytes.Join([][]byte{
		before, []byte(measuredFrom + table),
		append([]byte(measuredTo), after...),
	}, nil), 0o644)
}
