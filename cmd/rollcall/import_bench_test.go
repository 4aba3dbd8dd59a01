package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rollcall/migrate/datadir"
	"rollcall/zk/jute"
)

// BenchmarkImport measures how long rollcall import takes for nodes with 100 bytes of data. A move takes that
// much longer than a restart.
func BenchmarkImport(b *testing.B) {
	nodes := 1_000_000
	if testing.Short() {
		nodes = 10_000
	}
	source := b.TempDir()
	if err := manyNodes(b, nodes).Write(source); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		dir := b.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		if err := os.WriteFile(file, []byte("dataDir="+dir+"\nclientPort=2181\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		if err := runCommand(b.Context(), []string{"import", "--config", file, source}, nil, io.Discard, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(nodes), "nodes")
	b.ReportMetric(time.Duration(int64(b.Elapsed())/int64(b.N)).Seconds(), "s/import")
}

// manyNodes returns a state with so many nodes, a thousand to a parent.
func manyNodes(b *testing.B, nodes int) *datadir.State {
	b.Helper()
	s := datadir.NewState()
	s.Zxid = int64(nodes)
	add := func(path string, data []byte) {
		b.Helper()
		if err := s.Add(datadir.Node{Path: path, Data: data, ACL: jute.OpenACL, Creates: 1000}); err != nil {
			b.Fatal(err)
		}
	}
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		add(path, nil)
	}
	for i := range nodes {
		parent := fmt.Sprintf("/parent-%04d", i/1000)
		if i%1000 == 0 {
			add(parent, nil)
		}
		add(fmt.Sprintf("%s/node-%04d", parent, i%1000), bytes.Repeat([]byte{'x'}, 100))
	}
	return s
}
