// Package structures compares data structures of our own with those of libraries. ci/structures.sh
// copies ours next to structures.go, which does not compile without them.
package structures
