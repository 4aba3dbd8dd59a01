// Package crowd measures what many sessions cost an ensemble of five voters and ten observers in virtual time, up to a million
// sessions, which no single machine could connect.
package crowd
