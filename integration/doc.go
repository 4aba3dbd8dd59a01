// Package integration tests whole ensembles: what must hold for members, log and clients together
// when things are broken on purpose.
package integration
