// Package integration holds the tests of whole ensembles: what must be true of members,
// log and clients together, with things broken on purpose.
package integration
