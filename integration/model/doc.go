// Package model searches all states of a small ensemble: membership, joining, elections, and the leader's disk beside
// replication. It is a model of the protocol, and shares no code with the packages that implement it, so an error there
// is not repeated here. docs/dev/model.md describes what the model covers.
//
// A server is a disk. The search starts from one state, makes every step that is possible there, and does the same in
// every new state, so the first loss that it finds has a shortest trace. Rules turns single rules of the protocol off:
// without its rule, each loss that is known is found.
package model
