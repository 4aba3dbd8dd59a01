// Package libraries compares package client with github.com/go-zookeeper/zk, by turns, on one ensemble. It has only
// benchmarks: libraries.sh starts an ensemble, runs them and writes a table.
package libraries
