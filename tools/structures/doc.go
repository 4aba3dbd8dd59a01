// Package structures holds only benchmarks. They compare data structures of our own with those of libraries. ci/structures.sh
// copies ours next to structures_test.go, which does not compile without them.
package structures
