// Package differential sends the same random operations to ZooKeeper 3.8.0, Debian's, and
// to Rollcall, frame by frame, and compares what both answer. What may differ is a table
// of its own; all else fails the test, with the shortest sequence that shows it. What
// zkCli.sh prints is compared, too. It has tests only.
package differential
